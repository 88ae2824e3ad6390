//! The processes with which this one shares files: joined, asked for, left.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use svmio_svm::session::Session;
use svmio_svm::team::{Gathering, Team};

use crate::failure::{Failure, Result, numbered, reported};
use crate::types::{svm_all_gather, svm_exchange};
use crate::{files, logging, mappings};

/// The job that this process is in, and itself.
pub(crate) struct Members {
    all: Session,
    own: Session,
    /// What all do together, only one thread does at a time.
    turn: Mutex<()>,
    /// Whether they were joined by the program's own exchange.
    by_exchange: bool,
}

/// Who has a file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All processes of the job, together.
    All,
    /// This one.
    Own,
}

impl Members {
    /// Does something with those who have a file open.
    pub(crate) fn with<T>(&self, scope: Scope, work: impl FnOnce(&Session) -> T) -> T {
        match scope {
            Scope::All => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                work(&self.all)
            }
            Scope::Own => work(&self.own),
        }
    }
}

static MEMBERS: RwLock<Option<Arc<Members>>> = RwLock::new(None);

/// Whether clusters that ranks have formed are left by somebody else, at MPI's end.
static CLUSTERS_STAY: AtomicBool = AtomicBool::new(false);

/// From now on, clusters that ranks have formed are left by somebody else.
pub(crate) fn let_clusters_stay() {
    // Relaxed: it is said before the first function of the table is called, by the same thread or one that waits for it.
    CLUSTERS_STAY.store(true, Ordering::Relaxed);
}

/// The job that this process is in.
pub(crate) fn members() -> Result<Arc<Members>> {
    let members = MEMBERS.read().unwrap_or_else(PoisonError::into_inner);
    members.clone().ok_or_else(|| Failure::state("svm_init has not been called, or svm_finalize has"))
}

/// `svm_init`.
pub(crate) extern "C" fn init() -> c_int {
    reported(|| join(false, || Ok(Session::from_environment()?)))
}

/// `svm_init_with`.
///
/// # Safety
/// `exchange` is null or points to one, whose function may be called with its context until the job is left.
pub(crate) unsafe extern "C" fn init_with(exchange: *const svm_exchange) -> c_int {
    reported(|| {
        // SAFETY: the caller's promise.
        let exchange = unsafe { exchange.as_ref() };
        let exchange =
            exchange.ok_or_else(|| Failure::argument("svm_init_with: the exchange is a null pointer"))?;
        let svm_exchange { size, rank, ranks, all_gather, context } = *exchange;
        if size != size_of::<svm_exchange>() {
            let expected = size_of::<svm_exchange>();
            return Err(Failure::argument(format!(
                "svm_init_with: the exchange says that it has {size} bytes, not {expected}: set its size to sizeof(svm_exchange)"
            )));
        }
        if rank < 0 || rank >= ranks {
            return Err(Failure::argument(format!("svm_init_with: there is no rank {rank} of {ranks}")));
        }
        if all_gather.is_none() {
            return Err(Failure::argument("svm_init_with: all_gather is a null pointer"));
        }
        let function = Function { all_gather, context };
        let (rank, ranks) = (rank.unsigned_abs() as usize, ranks.unsigned_abs() as usize);
        let means = Gathering::new(ranks, move |own: &[u8], all: &mut [u8]| function.call(own, all));
        join(true, || Ok(Session::of_team(Team::new(rank, ranks, Box::new(means)))?))
    })
}

/// The program's function.
struct Function {
    all_gather: svm_all_gather,
    context: *mut c_void,
}

// SAFETY: the program has said that whatever thread calls svmio may call it, one at a time.
unsafe impl Send for Function {}

impl Function {
    fn call(&self, own: &[u8], all: &mut [u8]) -> std::result::Result<(), String> {
        let Some(all_gather) = self.all_gather else { return Err("there is no all_gather".into()) };
        // SAFETY: as the function's type says: `all` has room for as many bytes as `own` has, of each rank.
        match unsafe { all_gather(self.context, own.as_ptr().cast(), own.len(), all.as_mut_ptr().cast()) } {
            0 => Ok(()),
            number => Err(format!("the program's all_gather has returned {number}")),
        }
    }
}

fn join(by_exchange: bool, session: impl FnOnce() -> Result<Session>) -> Result {
    logging::start();
    let mut members = MEMBERS.write().unwrap_or_else(PoisonError::into_inner);
    if members.is_some() {
        return Err(Failure::state("svm_init has been called before: call svm_finalize first"));
    }
    let all = session()?;
    let own = all.of_one();
    *members = Some(Arc::new(Members { all, own, turn: Mutex::new(()), by_exchange }));
    Ok(())
}

/// `svm_finalize`.
pub(crate) extern "C" fn finalize() -> c_int {
    reported(|| {
        let mut place = MEMBERS.write().unwrap_or_else(PoisonError::into_inner);
        let Some(members) = place.take() else {
            return Err(Failure::state("svm_init has not been called, or svm_finalize has"));
        };
        let is_free = mappings::none_is_left().and_then(|()| files::none_is_open());
        // All leave, or none.
        let agreed = members.with(Scope::All, |session| session.team().agree(is_free));
        let members = match (agreed, Arc::try_unwrap(members)) {
            (Ok(()), Ok(members)) => members,
            (agreed, members) => {
                *place = Some(members.map_or_else(|shared| shared, Arc::new));
                agreed?;
                return Err(Failure::state("another thread is in a function of svmio's"));
            }
        };
        let Members { all, own, by_exchange, .. } = members;
        drop(own);
        // Relaxed: see `let_clusters_stay`.
        if by_exchange && CLUSTERS_STAY.load(Ordering::Relaxed) {
            return Ok(());
        }
        Ok(all.finish()?)
    })
}

/// `svm_rank`.
pub(crate) extern "C" fn rank() -> c_int {
    numbered(|| Ok(members()?.all.team().member() as c_int))
}

/// `svm_size`.
pub(crate) extern "C" fn size() -> c_int {
    numbered(|| Ok(members()?.all.team().size() as c_int))
}
