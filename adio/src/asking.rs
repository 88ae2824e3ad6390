//! Two of MPICH's functions that have to ask svmio first, and that MPICH doesn't have ask it.

/// Defines them, under both names of each, which tools that stand between a program and MPI call, too. They go on to the
/// next library's of the same name, or MPI's: that may be another one of svmio's, with requests of its own.
///
/// * `MPI_Error_class`: that of MPICH 4.0 does not tell the class of a code that was added to a predefined class.
/// * `MPI_Request_get_status`: that alone does not ask what goes on in the background whether it is over.
#[macro_export]
macro_rules! export_asking {
    () => {
        $crate::export_asking! { @each
            MPI_Error_class, c"MPI_Error_class", MPI_Request_get_status, c"MPI_Request_get_status";
            PMPI_Error_class, c"PMPI_Error_class", PMPI_Request_get_status, c"PMPI_Request_get_status";
        }
    };
    (@each $($error_class:ident, $error_class_name:literal, $get_status:ident, $get_status_name:literal;)*) => {$(
        #[doc = concat!("`", stringify!($error_class), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $error_class(code: c_int, class: *mut c_int) -> c_int {
            type ErrorClass = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
            static NEXT: OnceLock<Option<ErrorClass>> = OnceLock::new();
            if let Some(own) = $crate::behind(code) {
                // SAFETY: the caller's argument.
                unsafe { class.write(<Mpich as $crate::abi::Abi>::error_class(own.class)) };
                return $crate::abi::SUCCESS;
            }
            let (name, of_mpi) = ($error_class_name, c"PMPI_Error_class");
            // SAFETY: the type of the function in mpi.h.
            let next = NEXT.get_or_init(|| unsafe { $crate::library::Library::behind(name, of_mpi) }.ok());
            // SAFETY: the caller's arguments.
            next.map_or($crate::MISSING, |next| unsafe { next(code, class) })
        }

        #[doc = concat!("`", stringify!($get_status), "` of MPI-3.1.")]
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get_status(
            request: Request<Mpich>,
            flag: *mut c_int,
            status: *mut <Mpich as $crate::abi::Abi>::Status,
        ) -> c_int {
            type Status = <Mpich as $crate::abi::Abi>::Status;
            type GetStatus = unsafe extern "C" fn(Request<Mpich>, *mut c_int, *mut Status) -> c_int;
            static NEXT: OnceLock<Option<GetStatus>> = OnceLock::new();
            $crate::complete_requests();
            let (name, of_mpi) = ($get_status_name, c"PMPI_Request_get_status");
            // SAFETY: the type of the function in mpi.h.
            let next = NEXT.get_or_init(|| unsafe { $crate::library::Library::behind(name, of_mpi) }.ok());
            // SAFETY: the caller's arguments.
            next.map_or($crate::MISSING, |next| unsafe { next(request, flag, status) })
        }
    )*};
}
