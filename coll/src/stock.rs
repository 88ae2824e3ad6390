//! MPI's own functions, beyond those that files need.

mod carrying;
mod judging;
mod messages;
mod packing;

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use svmio_adio::abi::{Abi, Comm, Datatype, Errhandler, Op, Request, SUCCESS};
use svmio_adio::library::{Library, SymbolError};
use svmio_adio::{ErrorClass, Failure, Mpi};

use crate::error::{Error, Result};
use crate::family::{Communicators, Family};
use crate::kept::Keys;
use crate::operator::{Kind, Operator};
use crate::progress::Testing;

pub(crate) use judging::Standing;
pub(crate) use messages::Came;
pub(crate) use packing::{Described, Elements};

/// `MPI_UNDEFINED`, equal in all families.
const UNDEFINED: c_int = -32_766;

type CopyAttribute<A> =
    unsafe extern "C" fn(Comm<A>, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
pub(crate) type DeleteAttribute<A> = unsafe extern "C" fn(Comm<A>, c_int, *mut c_void, *mut c_void) -> c_int;
type Query<A> = unsafe extern "C" fn(*mut c_void, *mut <A as Abi>::Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// `MPI_Group`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Processes<A: Abi>(A::Handle);

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        struct Functions<A: Abi> {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<A: Abi> Functions<A> {
            fn resolve(mpi: &Mpi<A>) -> Result<Self, SymbolError> {
                let missing = |symbol: &str| SymbolError {
                    symbol: symbol.trim_end_matches('\0').into(),
                    place: "the process's MPI library".into(),
                };
                Ok(Self {
                    // SAFETY: each type is that of the function in mpi.h (MPI-3.1).
                    $($field: unsafe { mpi.stock($symbol) }.ok_or_else(|| missing($symbol))?,)*
                })
            }
        }
    };
}

functions! {
    comm_call_errhandler = "PMPI_Comm_call_errhandler\0": fn(Comm<A>, c_int);
    comm_split = "PMPI_Comm_split\0": fn(Comm<A>, c_int, c_int, *mut Comm<A>);
    comm_free = "PMPI_Comm_free\0": fn(*mut Comm<A>);
    comm_get_errhandler = "PMPI_Comm_get_errhandler\0": fn(Comm<A>, *mut Errhandler<A>);
    errhandler_free = "PMPI_Errhandler_free\0": fn(*mut Errhandler<A>);
    comm_set_errhandler = "PMPI_Comm_set_errhandler\0": fn(Comm<A>, Errhandler<A>);
    comm_create_keyval = "PMPI_Comm_create_keyval\0": fn(CopyAttribute<A>, DeleteAttribute<A>, *mut c_int, *mut c_void);
    comm_get_attr = "PMPI_Comm_get_attr\0": fn(Comm<A>, c_int, *mut c_void, *mut c_int);
    comm_set_attr = "PMPI_Comm_set_attr\0": fn(Comm<A>, c_int, *mut c_void);
    comm_test_inter = "PMPI_Comm_test_inter\0": fn(Comm<A>, *mut c_int);
    comm_group = "PMPI_Comm_group\0": fn(Comm<A>, *mut Processes<A>);
    group_translate_ranks = "PMPI_Group_translate_ranks\0":
        fn(Processes<A>, c_int, *const c_int, Processes<A>, *mut c_int);
    group_free = "PMPI_Group_free\0": fn(*mut Processes<A>);
    send = "PMPI_Send\0": fn(*const c_void, c_int, Datatype<A>, c_int, c_int, Comm<A>);
    isend = "PMPI_Isend\0": fn(*const c_void, c_int, Datatype<A>, c_int, c_int, Comm<A>, *mut Request<A>);
    recv = "PMPI_Recv\0": fn(*mut c_void, c_int, Datatype<A>, c_int, c_int, Comm<A>, *mut A::Status);
    sendrecv = "PMPI_Sendrecv\0":
        fn(*const c_void, c_int, Datatype<A>, c_int, c_int, *mut c_void, c_int, Datatype<A>, c_int, c_int, Comm<A>,
           *mut A::Status);
    get_count = "PMPI_Get_count\0": fn(*const A::Status, Datatype<A>, *mut c_int);
    request_free = "PMPI_Request_free\0": fn(*mut Request<A>);
    grequest_start = "PMPI_Grequest_start\0": fn(Query<A>, Free, Cancel, *mut c_void, *mut Request<A>);
    grequest_complete = "PMPI_Grequest_complete\0": fn(Request<A>);
    test = "PMPI_Test\0": fn(*mut Request<A>, *mut c_int, *mut A::Status);
    pack = "PMPI_Pack\0": fn(*const c_void, c_int, Datatype<A>, *mut c_void, c_int, *mut c_int, Comm<A>);
    unpack = "PMPI_Unpack\0": fn(*const c_void, c_int, *mut c_int, *mut c_void, c_int, Datatype<A>, Comm<A>);
    type_create_hindexed = "PMPI_Type_create_hindexed\0":
        fn(c_int, *const c_int, *const isize, Datatype<A>, *mut Datatype<A>);
    type_commit = "PMPI_Type_commit\0": fn(*mut Datatype<A>);
    type_dup = "PMPI_Type_dup\0": fn(Datatype<A>, *mut Datatype<A>);
    type_free = "PMPI_Type_free\0": fn(*mut Datatype<A>);
    reduce_local = "PMPI_Reduce_local\0": fn(*const c_void, *mut c_void, c_int, Datatype<A>, Op<A>);
    op_commutative = "PMPI_Op_commutative\0": fn(Op<A>, *mut c_int);
    alltoallv = "PMPI_Alltoallv\0":
        fn(*const c_void, *const c_int, *const c_int, Datatype<A>, *mut c_void, *const c_int, *const c_int, Datatype<A>,
           Comm<A>);
    allreduce = "PMPI_Allreduce\0": fn(*const c_void, *mut c_void, c_int, Datatype<A>, Op<A>, Comm<A>);
}

/// An MPI library, as collectives see it.
pub struct Stock<A: Family> {
    pub(crate) mpi: &'static Mpi<A>,
    pub(crate) communicators: Communicators<A>,
    functions: Functions<A>,
    kinds: OnceLock<Vec<(Datatype<A>, Kind)>>,
    operators: Vec<(Op<A>, Operator)>,
    /// A request that is complete and there for ever.
    pub(crate) completed: Option<Request<A>>,
    pub(crate) testing: Testing<A>,
    pub(crate) keys: OnceLock<Keys>,
    /// The communicator that packing names.
    packing: OnceLock<Comm<A>>,
    /// See [`refuses_aliases`](Self::refuses_aliases).
    refuses_aliases: OnceLock<bool>,
}

impl<A: Family> Stock<A> {
    /// The process's MPI library.
    ///
    /// # Errors
    /// Where it is of another family, or lacks something.
    pub(crate) fn get() -> Result<&'static Self, Failure> {
        if let Some(stock) = A::stock().get() {
            return Ok(stock);
        }
        let unusable = |problem: SymbolError| {
            Failure::new(ErrorClass::Other, format!("svmio cannot do this MPI's collectives: {problem}"))
        };
        let mpi = Mpi::<A>::get()?;
        let library = Library::mpi().map_err(unusable)?;
        let stock = Self {
            mpi,
            communicators: A::communicators(&library).map_err(unusable)?,
            functions: Functions::resolve(mpi).map_err(unusable)?,
            kinds: OnceLock::new(),
            operators: A::operators(&library),
            completed: A::completed_request(&library),
            testing: Testing::new(),
            keys: OnceLock::new(),
            packing: OnceLock::new(),
            refuses_aliases: OnceLock::new(),
        };
        Ok(A::stock().get_or_init(|| stock))
    }

    /// Learns what the elements of predefined datatypes are. To be called while MPI answers; of a datatype of which
    /// this MPI's elements are other ones than known here, MPI is asked at each call.
    pub(crate) fn learn_kinds(&self) {
        let Ok(library) = Library::mpi() else { return };
        let of_size = |(datatype, kind): (Datatype<A>, Kind)| {
            if A::HANDLES_HAVE_SIZES || kind == Kind::Null {
                return Some((datatype, kind));
            }
            Some((datatype, kind.of_size(usize::try_from(self.mpi.type_size(datatype)).ok()?)?))
        };
        let _ = self.kinds.set(A::kinds(&library).into_iter().filter_map(of_size).collect());
    }

    /// What the elements of a predefined datatype are, where that is known.
    #[inline]
    pub(crate) fn kind(&self, datatype: Datatype<A>) -> Option<Kind> {
        self.kinds.get()?.iter().find(|(known, _)| known.0 == datatype.0).map(|(_, kind)| *kind)
    }

    /// Which operation a predefined one is.
    #[inline]
    pub(crate) fn operator(&self, op: Op<A>) -> Option<Operator> {
        self.operators.iter().find(|(known, _)| known.0 == op.0).map(|(_, operator)| *operator)
    }

    /// `inout` becomes `left` ∘ `inout`.
    ///
    /// # Safety
    /// Both are `count` elements of `datatype`.
    pub(crate) unsafe fn reduce_local(
        &self,
        left: *const c_void,
        inout: *mut c_void,
        count: c_int,
        datatype: Datatype<A>,
        op: Op<A>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the arguments.
        check(unsafe { (self.functions.reduce_local)(left, inout, count, datatype, op) }, "MPI_Reduce_local")
    }

    /// Whether `comm` is an intercommunicator.
    pub(crate) fn is_between(&self, comm: Comm<A>) -> bool {
        let mut answer = 0;
        // SAFETY: stores one integer; the program vouches for the communicator.
        let code = unsafe { (self.functions.comm_test_inter)(comm, &raw mut answer) };
        code != SUCCESS || answer != 0
    }

    /// Whether all members of `comm` are in this process's `MPI_COMM_WORLD`.
    pub(crate) fn is_of_one_world(&self, comm: Comm<A>) -> bool {
        let ranks: Vec<c_int> = (0..self.mpi.size(comm)).collect();
        let mut translated = vec![UNDEFINED; ranks.len()];
        let groups = [comm, self.communicators.world].map(|comm| {
            let mut group = Processes(comm.0);
            // SAFETY: stores a new group.
            let code = unsafe { (self.functions.comm_group)(comm, &raw mut group) };
            (code == SUCCESS).then_some(group)
        });
        if let [Some(members), Some(world)] = groups {
            let (count, to) = (ranks.len() as c_int, translated.as_mut_ptr());
            // SAFETY: both vectors have so many ranks.
            unsafe { (self.functions.group_translate_ranks)(members, count, ranks.as_ptr(), world, to) };
        }
        for mut group in groups.into_iter().flatten() {
            // SAFETY: the group is one of those made above.
            unsafe { (self.functions.group_free)(&raw mut group) };
        }
        translated.iter().all(|&rank| rank != UNDEFINED)
    }

    /// Has the error handler of `comm` deal with `code`.
    pub(crate) fn call_handler(&self, comm: Comm<A>, code: c_int) {
        // SAFETY: the program vouches for the communicator.
        unsafe { (self.functions.comm_call_errhandler)(comm, code) };
    }

    /// A key for attributes of communicators, which copies of these do not get.
    pub(crate) fn attribute_key(&self, delete: DeleteAttribute<A>) -> Result<c_int, Failure> {
        let mut key = 0;
        // SAFETY: stores one integer; the functions live as long as this library, which is never closed.
        let code = unsafe {
            (self.functions.comm_create_keyval)(do_not_copy::<A>, delete, &raw mut key, std::ptr::null_mut())
        };
        check(code, "MPI_Comm_create_keyval").map(|()| key).map_err(|error| error.to_failure())
    }

    /// The attribute of `comm` under `key`, if it has one.
    ///
    /// # Errors
    /// Where `comm` is no communicator.
    pub(crate) fn attribute(&self, comm: Comm<A>, key: c_int) -> Result<Option<*mut c_void>> {
        let (mut value, mut is_there) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: stores a pointer and an integer; of a handle that names nothing MPI says so.
        let code =
            unsafe { (self.functions.comm_get_attr)(comm, key, (&raw mut value).cast(), &raw mut is_there) };
        check(code, "MPI_Comm_get_attr")?;
        Ok((is_there != 0).then_some(value))
    }

    /// Gives `comm` an attribute; false where it does not take it.
    pub(crate) fn set_attribute(&self, comm: Comm<A>, key: c_int, value: *mut c_void) -> bool {
        // SAFETY: the pointer is for the key's own function; the program vouches for the communicator.
        unsafe { (self.functions.comm_set_attr)(comm, key, value) == SUCCESS }
    }

    /// Runs `body`, from which errors come back that are of no communicator's: the program's handler hears of a wrong
    /// handle from MPI's function that it has called. Other threads that may call MPI have handlers of their own errors
    /// called, so these hear of ours there, too.
    pub(crate) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        if self.mpi.has_many_threads() {
            return body();
        }
        // Such errors are MPI_COMM_WORLD's, and from MPI-4.0 on MPI_COMM_SELF's. As long as nobody has given that one a
        // handler MPICH takes the other's, and no longer if it was given the same as it had.
        let Communicators { world, own, errors_are_fatal, .. } = self.communicators;
        let has_own = self.handler(own).is_some_and(|mut handler| {
            let is_own = handler.0 != errors_are_fatal.0;
            // SAFETY: it came with a reference of its own.
            unsafe { (self.functions.errhandler_free)(&raw mut handler) };
            is_own
        });
        let concerned = [Some(world), has_own.then_some(own)];
        let before = concerned.map(|comm| comm.map(|comm| (comm, self.replace_handler(comm))));
        let outcome = body();
        for (comm, handler) in before.into_iter().flatten() {
            let Some(mut handler) = handler else { continue };
            // SAFETY: it was the communicator's, and came with a reference of its own.
            unsafe {
                (self.functions.comm_set_errhandler)(comm, handler);
                (self.functions.errhandler_free)(&raw mut handler);
            }
        }
        outcome
    }

    /// Has errors of `comm` come back, and returns the handler that it had.
    fn replace_handler(&self, comm: Comm<A>) -> Option<Errhandler<A>> {
        // SAFETY: the handler is one of MPI's own.
        self.handler(comm).inspect(|_| unsafe {
            (self.functions.comm_set_errhandler)(comm, self.communicators.errors_return);
        })
    }

    /// The error handler of `comm`, with a reference.
    fn handler(&self, comm: Comm<A>) -> Option<Errhandler<A>> {
        let mut handler = self.communicators.errors_return;
        // SAFETY: stores a handler.
        let code = unsafe { (self.functions.comm_get_errhandler)(comm, &raw mut handler) };
        (code == SUCCESS).then_some(handler)
    }

    /// A request that is not complete before [`complete`](Self::complete).
    pub(crate) fn start_request(&self) -> Option<Request<A>> {
        let mut request = self.mpi.constants.request_null;
        let (none, to) = (std::ptr::null_mut(), &raw mut request);
        // SAFETY: the functions need no state.
        let code = unsafe { (self.functions.grequest_start)(query::<A>, free, cancel, none, to) };
        (code == SUCCESS).then_some(request)
    }

    /// Tests the request, which has MPI go on with all that it has to do.
    pub(crate) fn test(&self, request: &mut Request<A>) {
        let mut is_complete = 0;
        let status = A::STATUS_IGNORE as *mut A::Status;
        // SAFETY: the request is one of `start_request`'s, or the null one when it was complete.
        unsafe { (self.functions.test)(request, &raw mut is_complete, status) };
    }

    /// Ends the request.
    pub(crate) fn complete(&self, mut request: Request<A>) {
        // SAFETY: the request is one of `start_request`'s.
        unsafe { (self.functions.grequest_complete)(request) };
        self.test(&mut request);
    }
}

pub(crate) fn check(code: c_int, function: &'static str) -> Result<()> {
    if code == SUCCESS { Ok(()) } else { Err(Error::Mpi { function, code }) }
}

unsafe extern "C" fn do_not_copy<A: Abi>(
    _comm: Comm<A>,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a place for the flag.
    unsafe { is_copied.write(0) };
    SUCCESS
}

unsafe extern "C" fn query<A: Abi>(_state: *mut c_void, status: *mut A::Status) -> c_int {
    let Ok(mpi) = Mpi::<A>::get() else { return A::error_class(ErrorClass::Other) };
    // SAFETY: MPI passes a status of its own.
    unsafe { mpi.set_status(status, 0) };
    SUCCESS
}

unsafe extern "C" fn free(_state: *mut c_void) -> c_int {
    SUCCESS
}

unsafe extern "C" fn cancel(_state: *mut c_void, _is_complete: c_int) -> c_int {
    SUCCESS
}
