//! The processes with which this one shares files: joined, asked for, left.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use svmio_svm::environment::{self, Concern};
use svmio_svm::session::Session;

use crate::exchange::Exchange;
use crate::failure::{Failure, Result, numbered, reported};
use crate::together::{Call, Disagreement};
use crate::types::{SVM_ALONE, svm_exchange};
use crate::{files, mappings};

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

impl Scope {
    /// Who opens a file that is opened with these flags.
    pub(crate) fn of(flags: c_uint) -> Scope {
        if flags & SVM_ALONE != 0 { Scope::Own } else { Scope::All }
    }
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

    /// A step of those who have a file open; see [`Call::agree`].
    pub(crate) fn agree(&self, scope: Scope, call: &Call, mine: Result) -> Result {
        self.with(scope, |session| call.agree(session.team(), mine))
    }

    /// The same, where it matters whether the others know.
    pub(crate) fn step(
        &self,
        scope: Scope,
        call: &Call,
        mine: Result,
    ) -> std::result::Result<(), Disagreement> {
        self.with(scope, |session| call.step(session.team(), mine))
    }

    /// The first step of a call: what each has made of its arguments, and for what the call is, which is the same on
    /// all.
    pub(crate) fn begin<T>(
        &self,
        scope: Scope,
        function: &'static str,
        made: Result<T>,
        subject: impl FnOnce(&T) -> String,
    ) -> Result<(T, Call)> {
        let (call, mine) = match &made {
            Ok(made) => (Call::of(function, subject(made)), Ok(())),
            Err(failure) => (Call::new(function), Err(failure.clone())),
        };
        self.agree(scope, &call, mine)?;
        made.map(|made| (made, call))
    }
}

static MEMBERS: RwLock<Option<Arc<Members>>> = RwLock::new(None);

/// Whether clusters that ranks have formed are left by somebody else, at MPI's end.
static CLUSTERS_STAY: AtomicBool = AtomicBool::new(false);

/// From now on, clusters that ranks have formed are left by somebody else.
pub(crate) fn let_clusters_stay() {
    // Relaxed: it is said before the first function of the table is called, by the same thread or one that waits for
    // it.
    CLUSTERS_STAY.store(true, Ordering::Relaxed);
}

/// The job that this process is in.
pub(crate) fn members() -> Result<Arc<Members>> {
    let members = MEMBERS.read().unwrap_or_else(PoisonError::into_inner);
    members.clone().ok_or_else(|| Failure::state("svm_init has not been called, or svm_finalize has"))
}

/// That this process is in no job.
fn none_is_joined() -> Result {
    match *MEMBERS.read().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(()),
        Some(_) => Err(joined_before()),
    }
}

fn joined_before() -> Failure {
    Failure::state("svm_init has been called before: call svm_finalize first")
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
        let exchange = unsafe { Exchange::from_c(exchange) }?;
        exchange.introduce(none_is_joined())?;
        join(true, || Ok(Session::of_team(exchange.team())?))
    })
}

fn join(by_exchange: bool, session: impl FnOnce() -> Result<Session>) -> Result {
    svmio_logging::start();
    let mut members = MEMBERS.write().unwrap_or_else(PoisonError::into_inner);
    if members.is_some() {
        return Err(joined_before());
    }
    let all = session()?;
    if all.team().member() == 0 {
        environment::tell(&[Concern::Files]);
    }
    let own = all.of_one();
    *members = Some(Arc::new(Members { all, own, turn: Mutex::new(()), by_exchange }));
    Ok(())
}

/// `svm_finalize`.
pub(crate) extern "C" fn finalize() -> c_int {
    reported(|| {
        // Meanwhile nobody gets hold of the members who has not yet.
        let mut place = MEMBERS.write().unwrap_or_else(PoisonError::into_inner);
        let Some(mut members) = place.take() else {
            return Err(Failure::state("svm_init has not been called, or svm_finalize has"));
        };
        let is_free = mappings::none_is_left().and_then(|()| files::none_is_open());
        let is_free = is_free.and_then(|()| match Arc::get_mut(&mut members) {
            Some(_) => Ok(()),
            None => Err(Failure::state("another thread is in a function of svmio's")),
        });
        // All leave, or none, unless nobody can be told any more.
        let agreed = members.step(Scope::All, &Call::new("svm_finalize"), is_free);
        let (members, agreed) = match (agreed, Arc::try_unwrap(members)) {
            (Ok(()), Ok(members)) => (members, Ok(())),
            (Err(Disagreement::Severed(failure)), Ok(members)) => (members, Err(failure)),
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
            return agreed;
        }
        agreed.and(all.finish().map_err(Failure::from))
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
