//! The exported functions of collective access that block, the same in every family.

/// Defines the four functions, under both of their names, for the family `$abi`.
#[macro_export]
macro_rules! export_collective {
    ($abi:ty) => {
        $crate::export_collective! { @functions $abi;
            MPI_File_read_all, PMPI_File_read_all, Read:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_all, PMPI_File_write_all, Write:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_read_at_all, PMPI_File_read_at_all, Read:
                (offset: i64, buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_at_all, PMPI_File_write_at_all, Write:
                (offset: i64, buffer: *const c_void, count: c_int, datatype: Datatype<$abi>, status: *mut Status);
        }
    };
    // Those of MPI-4, whose counts are of the type `MPI_Count`.
    ($abi:ty, large) => {
        $crate::export_collective! { @functions $abi;
            MPI_File_read_all_c, PMPI_File_read_all_c, Read:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_all_c, PMPI_File_write_all_c, Write:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_read_at_all_c, PMPI_File_read_at_all_c, Read:
                (offset: i64, buffer: *mut c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
            MPI_File_write_at_all_c, PMPI_File_write_at_all_c, Write:
                (offset: i64, buffer: *const c_void, count: i64, datatype: Datatype<$abi>, status: *mut Status);
        }
    };
    (@functions $abi:ty; $($name:ident, $profiled:ident, $direction:ident: $arguments:tt;)*) => {$(
        $crate::export_collective!(@one $abi; $name, $profiled, $direction, $arguments);
        $crate::export_collective!(@one $abi; $profiled, $profiled, $direction, $arguments);
    )*};
    (@one $abi:ty; $name:ident, $profiled:ident, $direction:ident, ($($argument:ident: $kind:ty),*)) => {
        #[doc = concat!("`", stringify!($name), "` of MPI.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: MpiFile, $($argument: $kind),*) -> c_int {
            type Function = unsafe extern "C" fn(MpiFile, $($kind),*) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let stock = |mpi: &Mpi<$abi>| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock(concat!(stringify!($profiled), "\0")) });
                let Some(stock) = stock else { return mpi.missing(stringify!($profiled)) };
                // SAFETY: the caller's arguments.
                unsafe { stock(file, $($argument),*) }
            };
            // SAFETY: the caller's file; the access is collective.
            unsafe { $crate::file_collective::<$abi>(file, svmio_adio::Direction::$direction, stock) }
        }
    };
}
