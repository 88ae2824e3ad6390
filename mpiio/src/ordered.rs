//! The exported functions of ordered access and of the shared pointer, the same in every family.

/// Defines the four functions of ordered access that move data, under both of their names, for the family `$abi`.
#[macro_export]
macro_rules! export_ordered {
    ($abi:ty) => {
        $crate::export_ordered! { @functions $abi, c_int;
            MPI_File_read_ordered, PMPI_File_read_ordered: Read(buffer: *mut c_void; status: *mut Status);
            MPI_File_write_ordered, PMPI_File_write_ordered: Write(buffer: *const c_void; status: *mut Status);
            MPI_File_read_ordered_begin, PMPI_File_read_ordered_begin: Read(buffer: *mut c_void;);
            MPI_File_write_ordered_begin, PMPI_File_write_ordered_begin: Write(buffer: *const c_void;);
        }
    };
    // Those of MPI-4, whose counts are of the type `MPI_Count`.
    ($abi:ty, large) => {
        $crate::export_ordered! { @functions $abi, i64;
            MPI_File_read_ordered_c, PMPI_File_read_ordered_c: Read(buffer: *mut c_void; status: *mut Status);
            MPI_File_write_ordered_c, PMPI_File_write_ordered_c: Write(buffer: *const c_void; status: *mut Status);
            MPI_File_read_ordered_begin_c, PMPI_File_read_ordered_begin_c: Read(buffer: *mut c_void;);
            MPI_File_write_ordered_begin_c, PMPI_File_write_ordered_begin_c: Write(buffer: *const c_void;);
        }
    };
    (@functions $abi:ty, $count:ty; $($name:ident, $profiled:ident:
        $direction:ident($buffer:ident: $kind:ty; $($last:ident: $last_kind:ty)?);)*) => {$(
        $crate::export_ordered!(@one $abi, $count; $name, $profiled, $direction, $buffer: $kind; $($last: $last_kind)?);
        $crate::export_ordered!(@one $abi, $count; $profiled, $profiled, $direction, $buffer: $kind; $($last: $last_kind)?);
    )*};
    (@one $abi:ty, $count:ty; $name:ident, $profiled:ident, $direction:ident,
        $buffer:ident: $kind:ty; $($last:ident: $last_kind:ty)?) => {
        #[doc = concat!("`", stringify!($name), "` of MPI.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            file: MpiFile,
            $buffer: $kind,
            count: $count,
            datatype: Datatype<$abi>,
            $($last: $last_kind)?
        ) -> c_int {
            type Function = unsafe extern "C" fn(MpiFile, $kind, $count, Datatype<$abi> $(, $last_kind)?) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let access = |mpi: &Mpi<$abi>| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock(concat!(stringify!($profiled), "\0")) });
                let Some(stock) = stock else { return mpi.missing(stringify!($profiled)) };
                // SAFETY: the caller's arguments.
                unsafe { stock(file, $buffer, count, datatype $(, $last)?) }
            };
            // SAFETY: the caller's file; ordered access is collective.
            unsafe {
                let direction = svmio_adio::Direction::$direction;
                $crate::file_ordered::<$abi>(file, direction, (i64::from(count), datatype), access)
            }
        }
    };
}

/// Defines `MPI_File_seek_shared` and `MPI_File_get_position_shared`, under both of their names, for the family `$abi`.
#[macro_export]
macro_rules! export_shared_pointer {
    ($abi:ty) => {
        $crate::export_shared_pointer!(@one $abi; MPI_File_seek_shared);
        $crate::export_shared_pointer!(@one $abi; PMPI_File_seek_shared);
        $crate::export_read! { @functions $abi;
            MPI_File_get_position_shared, PMPI_File_get_position_shared, file_position_shared: (offset: *mut i64);
        }
    };
    (@one $abi:ty; $name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: MpiFile, offset: i64, whence: c_int) -> c_int {
            type Function = unsafe extern "C" fn(MpiFile, i64, c_int) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            let seek = |mpi: &Mpi<$abi>, offset: i64, whence: c_int| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock("PMPI_File_seek_shared\0") });
                let Some(stock) = stock else { return mpi.missing("PMPI_File_seek_shared") };
                // SAFETY: the caller's arguments, or the same place counted from elsewhere.
                unsafe { stock(file, offset, whence) }
            };
            // SAFETY: the caller's file; seeking the shared pointer is collective.
            unsafe { $crate::file_seek_shared::<$abi>(file, offset, whence, seek) }
        }
    };
}
