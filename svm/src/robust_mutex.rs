//! A mutex for memory that several processes map, which outlives the death of its owner.
//!
//! It is the pthread mutex with the attributes `PTHREAD_PROCESS_SHARED` and
//! `PTHREAD_MUTEX_ROBUST`: uncontended it makes no system call, a waiter sleeps, and when the owner
//! is killed the kernel hands the mutex to the next who asks, with the news that what it protects
//! may be half changed.
//!
//! One death the kernel does not make good: that of a waiter which has been woken, but has not yet
//! locked the mutex, when in between another thread has locked it. That one does not know that
//! there are more waiters, and will wake none of them. Therefore a waiter looks for itself, too,
//! from time to time.

use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, SystemTime};

/// How long a waiter sleeps before it looks for itself whether the mutex is free.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// The mutex itself, to be placed in shared memory: 64 bytes, aligned to 64, on every platform.
///
/// It is not re-entrant: a thread that locks it twice waits for itself.
#[repr(C, align(64))]
pub struct RobustMutex {
    raw: UnsafeCell<libc::pthread_mutex_t>,
}

const _: () = assert!(size_of::<RobustMutex>() == 64 && align_of::<RobustMutex>() == 64);

// SAFETY: a pthread mutex is made to be used by many threads at once, and all access to `raw` goes
// through the pthread functions.
unsafe impl Send for RobustMutex {}
// SAFETY: as above.
unsafe impl Sync for RobustMutex {}

/// Whether the previous owner died with the mutex locked; what it protects must then be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Died(pub bool);

/// The locked mutex; dropping it unlocks.
///
/// It stays on its thread, since only the thread that locked a pthread mutex may unlock it.
#[must_use = "the mutex is unlocked when the guard is dropped"]
pub struct Guard<'m> {
    mutex: &'m RobustMutex,
    _on_this_thread: PhantomData<*const ()>,
}

impl RobustMutex {
    /// Makes an unlocked mutex at `at`.
    ///
    /// # Errors
    /// Those of `pthread_mutex_init`: the system is out of memory, or knows no robust mutexes.
    ///
    /// # Safety
    /// `at` points to writable memory for a `RobustMutex`, mapped shared if other processes are to
    /// use it, and nobody uses a mutex there meanwhile.
    pub unsafe fn init_at(at: *mut RobustMutex) -> io::Result<()> {
        let attributes = Attributes::process_shared_and_robust()?;
        // SAFETY: the caller promises memory for the mutex that nobody else uses; `UnsafeCell` has
        // the layout of what it holds; the attributes are initialised.
        check(unsafe { libc::pthread_mutex_init(UnsafeCell::raw_get(&raw const (*at).raw), &attributes.0) })
    }

    /// Locks the mutex, sleeping while another thread of whatever process has it.
    ///
    /// [`Died`] says that the previous owner died while it had the mutex. The mutex is in order
    /// again then; the caller must put in order what it protects before unlocking. Should the
    /// caller die over that, the next one is told the same.
    ///
    /// # Errors
    /// Those of `pthread_mutex_timedlock`: the memory holds no robust mutex.
    pub fn lock(&self) -> io::Result<(Guard<'_>, Died)> {
        // SAFETY: a reference to a `RobustMutex` exists only where `init_at` has made one.
        let mut outcome = unsafe { libc::pthread_mutex_trylock(self.raw.get()) };
        while matches!(outcome, libc::EBUSY | libc::ETIMEDOUT) {
            let deadline = deadline()?;
            // SAFETY: as above.
            outcome = unsafe { libc::pthread_mutex_timedlock(self.raw.get(), &raw const deadline) };
        }
        let died = outcome == libc::EOWNERDEAD;
        if !died {
            check(outcome)?;
        }
        let guard = Guard { mutex: self, _on_this_thread: PhantomData };
        if died {
            // SAFETY: this thread has just become the owner of the mutex.
            check(unsafe { libc::pthread_mutex_consistent(self.raw.get()) })?;
        }
        Ok((guard, Died(died)))
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: the guard exists only while its thread owns the mutex.
        let outcome = unsafe { libc::pthread_mutex_unlock(self.mutex.raw.get()) };
        debug_assert_eq!(outcome, 0, "unlocking a mutex that this thread owns");
    }
}

/// By the clock that `pthread_mutex_timedlock` goes by, though that may be set back: a waiter then
/// looks later, in the rare case that nobody wakes it.
fn deadline() -> io::Result<libc::timespec> {
    let at =
        (SystemTime::now() + LOOK_AFTER).duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
    Ok(libc::timespec { tv_sec: at.as_secs() as libc::time_t, tv_nsec: at.subsec_nanos().into() })
}

struct Attributes(libc::pthread_mutexattr_t);

impl Attributes {
    fn process_shared_and_robust() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: `raw` is room for the attributes.
        check(unsafe { libc::pthread_mutexattr_init(raw.as_mut_ptr()) })?;
        // SAFETY: `pthread_mutexattr_init` has filled it in.
        let mut attributes = Attributes(unsafe { raw.assume_init() });
        let raw = ptr::from_mut(&mut attributes.0);
        // SAFETY: `raw` points to initialised attributes, here and below.
        check(unsafe { libc::pthread_mutexattr_setpshared(raw, libc::PTHREAD_PROCESS_SHARED) })?;
        // SAFETY: as above.
        check(unsafe { libc::pthread_mutexattr_setrobust(raw, libc::PTHREAD_MUTEX_ROBUST) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in the constructor and destroyed only here.
        unsafe { libc::pthread_mutexattr_destroy(&mut self.0) };
    }
}

/// The pthread functions return the error instead of setting `errno`.
fn check(outcome: libc::c_int) -> io::Result<()> {
    match outcome {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn leaked_mutex() -> &'static RobustMutex {
        let memory: &'static mut MaybeUninit<RobustMutex> = Box::leak(Box::new(MaybeUninit::uninit()));
        // SAFETY: freshly allocated, and nobody else knows of it.
        unsafe {
            RobustMutex::init_at(memory.as_mut_ptr()).unwrap();
            memory.assume_init_ref()
        }
    }

    #[test]
    fn excludes_threads_from_each_other() {
        struct Counter(UnsafeCell<u64>);
        // SAFETY: only touched with the mutex locked.
        unsafe impl Sync for Counter {}
        impl Counter {
            fn get(&self) -> *mut u64 {
                self.0.get()
            }
        }

        let mutex = leaked_mutex();
        let counter = Counter(UnsafeCell::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let (_guard, died) = mutex.lock().unwrap();
                        assert_eq!(died, Died(false));
                        // SAFETY: the mutex is locked.
                        unsafe { *counter.get() += 1 };
                    }
                });
            }
        });
        // SAFETY: the threads have ended.
        assert_eq!(unsafe { *counter.get() }, 40_000);
    }

    #[test]
    fn tells_the_next_owner_once_that_the_previous_one_died() {
        let mutex = leaked_mutex();
        for _ in 0..3 {
            // The end of a thread that holds the mutex is, to the kernel, the death of its owner.
            thread::spawn(|| std::mem::forget(mutex.lock().unwrap().0)).join().unwrap();
            assert_eq!(mutex.lock().unwrap().1, Died(true));
            assert_eq!(mutex.lock().unwrap().1, Died(false));
        }
    }

    #[test]
    fn a_death_during_the_repair_is_told_again() {
        let mutex = leaked_mutex();
        for expected in [false, true] {
            thread::spawn(move || {
                let (guard, died) = mutex.lock().unwrap();
                assert_eq!(died, Died(expected));
                std::mem::forget(guard);
            })
            .join()
            .unwrap();
        }
        assert_eq!(mutex.lock().unwrap().1, Died(true));
    }
}
