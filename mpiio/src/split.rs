//! The exported functions of split collective access, the same in every family.

/// Defines the eight functions that begin or end a split collective access, under both of their names, for the family
/// `$abi`, or the four large ones that begin one.
#[macro_export]
macro_rules! export_split {
    ($abi:ty) => {
        $crate::export_split! { @begin $abi;
            MPI_File_read_all_begin, PMPI_File_read_all_begin, Read:
                (buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>);
            MPI_File_write_all_begin, PMPI_File_write_all_begin, Write:
                (buffer: *const c_void, count: c_int, datatype: Datatype<$abi>);
            MPI_File_read_at_all_begin, PMPI_File_read_at_all_begin, Read:
                (offset: i64, buffer: *mut c_void, count: c_int, datatype: Datatype<$abi>);
            MPI_File_write_at_all_begin, PMPI_File_write_at_all_begin, Write:
                (offset: i64, buffer: *const c_void, count: c_int, datatype: Datatype<$abi>);
        }
        $crate::export_split! { @end $abi;
            MPI_File_read_all_end, PMPI_File_read_all_end: (buffer: *mut c_void, status: *mut Status);
            MPI_File_write_all_end, PMPI_File_write_all_end: (buffer: *const c_void, status: *mut Status);
            MPI_File_read_at_all_end, PMPI_File_read_at_all_end: (buffer: *mut c_void, status: *mut Status);
            MPI_File_write_at_all_end, PMPI_File_write_at_all_end: (buffer: *const c_void, status: *mut Status);
        }
    };
    // Those of MPI-4 that begin one, whose counts are of the type `MPI_Count`.
    ($abi:ty, large) => {
        $crate::export_split! { @begin $abi;
            MPI_File_read_all_begin_c, PMPI_File_read_all_begin_c, Read:
                (buffer: *mut c_void, count: i64, datatype: Datatype<$abi>);
            MPI_File_write_all_begin_c, PMPI_File_write_all_begin_c, Write:
                (buffer: *const c_void, count: i64, datatype: Datatype<$abi>);
            MPI_File_read_at_all_begin_c, PMPI_File_read_at_all_begin_c, Read:
                (offset: i64, buffer: *mut c_void, count: i64, datatype: Datatype<$abi>);
            MPI_File_write_at_all_begin_c, PMPI_File_write_at_all_begin_c, Write:
                (offset: i64, buffer: *const c_void, count: i64, datatype: Datatype<$abi>);
        }
    };
    (@begin $abi:ty; $($name:ident, $profiled:ident, $direction:ident: $arguments:tt;)*) => {$(
        $crate::export_split!(@one $abi; $name, $profiled, (begin $direction), $arguments);
        $crate::export_split!(@one $abi; $profiled, $profiled, (begin $direction), $arguments);
    )*};
    (@end $abi:ty; $($name:ident, $profiled:ident: $arguments:tt;)*) => {$(
        $crate::export_split!(@one $abi; $name, $profiled, (end), $arguments);
        $crate::export_split!(@one $abi; $profiled, $profiled, (end), $arguments);
    )*};
    (@one $abi:ty; $name:ident, $profiled:ident, ($($how:ident)*), ($($argument:ident: $kind:ty),*)) => {
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
            $crate::export_split!(@$($how)* $abi, file, stock)
        }
    };
    (@begin $direction:ident $abi:ty, $file:ident, $stock:ident) => {
        // SAFETY: the caller's file; split access is collective.
        unsafe { $crate::file_split_begin::<$abi>($file, svmio_adio::Direction::$direction, $stock) }
    };
    (@end $abi:ty, $file:ident, $stock:ident) => {
        // SAFETY: the caller's file; split access is collective.
        unsafe { $crate::file_split_end::<$abi>($file, $stock) }
    };
}
