//! The collectives for large counts of MPI 4.0, which MPICH has from 4.0 on: members of a communicator may mix them with the
//! others.

/// Defines them for a family, under both names of each, as [`export_collectives`](crate::export_collectives) does the
/// others.
#[macro_export]
macro_rules! export_large_collectives {
    ($family:ty) => {
        $crate::export_collectives! { @each $family,
            bcast, MPI_Bcast_c, PMPI_Bcast_c, ibcast, MPI_Ibcast_c, PMPI_Ibcast_c:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$family>, root: c_int);
            gather, MPI_Gather_c, PMPI_Gather_c, igather, MPI_Igather_c, PMPI_Igather_c:
                (send: *const c_void, send_count: i64, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: i64, receive_type: Datatype<$family>, root: c_int);
            gatherv, MPI_Gatherv_c, PMPI_Gatherv_c, igatherv, MPI_Igatherv_c, PMPI_Igatherv_c:
                (send: *const c_void, send_count: i64, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_counts: *const i64, places: *const i64, receive_type: Datatype<$family>, root: c_int);
            scatter, MPI_Scatter_c, PMPI_Scatter_c, iscatter, MPI_Iscatter_c, PMPI_Iscatter_c:
                (send: *const c_void, send_count: i64, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: i64, receive_type: Datatype<$family>, root: c_int);
            scatterv, MPI_Scatterv_c, PMPI_Scatterv_c, iscatterv, MPI_Iscatterv_c, PMPI_Iscatterv_c:
                (send: *const c_void, send_counts: *const i64, places: *const i64, send_type: Datatype<$family>,
                 receive: *mut c_void, receive_count: i64, receive_type: Datatype<$family>, root: c_int);
            allgather, MPI_Allgather_c, PMPI_Allgather_c, iallgather, MPI_Iallgather_c, PMPI_Iallgather_c:
                (send: *const c_void, send_count: i64, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: i64, receive_type: Datatype<$family>);
            allgatherv, MPI_Allgatherv_c, PMPI_Allgatherv_c, iallgatherv, MPI_Iallgatherv_c, PMPI_Iallgatherv_c:
                (send: *const c_void, send_count: i64, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_counts: *const i64, places: *const i64, receive_type: Datatype<$family>);
            alltoall, MPI_Alltoall_c, PMPI_Alltoall_c, ialltoall, MPI_Ialltoall_c, PMPI_Ialltoall_c:
                (send: *const c_void, send_count: i64, send_type: Datatype<$family>, receive: *mut c_void,
                 receive_count: i64, receive_type: Datatype<$family>);
            alltoallv, MPI_Alltoallv_c, PMPI_Alltoallv_c, ialltoallv, MPI_Ialltoallv_c, PMPI_Ialltoallv_c:
                (send: *const c_void, send_counts: *const i64, send_places: *const i64,
                 send_type: Datatype<$family>, receive: *mut c_void, receive_counts: *const i64,
                 receive_places: *const i64, receive_type: Datatype<$family>);
            alltoallw, MPI_Alltoallw_c, PMPI_Alltoallw_c, ialltoallw, MPI_Ialltoallw_c, PMPI_Ialltoallw_c:
                (send: *const c_void, send_counts: *const i64, send_places: *const i64,
                 send_types: *const Datatype<$family>, receive: *mut c_void, receive_counts: *const i64,
                 receive_places: *const i64, receive_types: *const Datatype<$family>);
            reduce, MPI_Reduce_c, PMPI_Reduce_c, ireduce, MPI_Ireduce_c, PMPI_Ireduce_c:
                (send: *const c_void, receive: *mut c_void, count: i64, datatype: Datatype<$family>,
                 op: Op<$family>, root: c_int);
            allreduce, MPI_Allreduce_c, PMPI_Allreduce_c, iallreduce, MPI_Iallreduce_c, PMPI_Iallreduce_c:
                (send: *const c_void, receive: *mut c_void, count: i64, datatype: Datatype<$family>,
                 op: Op<$family>);
            reduce_scatter, MPI_Reduce_scatter_c, PMPI_Reduce_scatter_c, ireduce_scatter, MPI_Ireduce_scatter_c, PMPI_Ireduce_scatter_c:
                (send: *const c_void, receive: *mut c_void, counts: *const i64, datatype: Datatype<$family>,
                 op: Op<$family>);
            reduce_scatter_block, MPI_Reduce_scatter_block_c, PMPI_Reduce_scatter_block_c, ireduce_scatter_block, MPI_Ireduce_scatter_block_c, PMPI_Ireduce_scatter_block_c:
                (send: *const c_void, receive: *mut c_void, count: i64, datatype: Datatype<$family>,
                 op: Op<$family>);
            scan, MPI_Scan_c, PMPI_Scan_c, iscan, MPI_Iscan_c, PMPI_Iscan_c:
                (send: *const c_void, receive: *mut c_void, count: i64, datatype: Datatype<$family>,
                 op: Op<$family>);
            exscan, MPI_Exscan_c, PMPI_Exscan_c, iexscan, MPI_Iexscan_c, PMPI_Iexscan_c:
                (send: *const c_void, receive: *mut c_void, count: i64, datatype: Datatype<$family>,
                 op: Op<$family>);
        }
    };
}
