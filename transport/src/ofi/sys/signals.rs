//! What signals do is the program's business, whatever a library's constructors think.

use std::ptr;
use std::sync::MutexGuard;

use crate::handlers;

/// How every signal is handled at some moment. There is one of these at a time.
///
/// Loading libfabric loads the libraries of its providers, and Debian's libpsm2 and libinfinipath put handlers of
/// their own in place of SIGINT, SIGTERM and SIGSEGV from their constructors. What the program itself changes on
/// another thread at that very time is put back as well; nothing tells it from what a constructor does.
pub(super) struct Dispositions {
    actions: Vec<(i32, libc::sigaction)>,
    // Given up when they have been put back.
    _turn: MutexGuard<'static, ()>,
}

impl Dispositions {
    /// As they are now.
    pub(super) fn save() -> Self {
        let turn = handlers::turn();
        let read = |signal| handlers::action(signal).map(|action| (signal, action));
        Self { actions: (1..32).filter_map(read).collect(), _turn: turn }
    }
}

impl Drop for Dispositions {
    fn drop(&mut self) {
        for (signal, action) in &self.actions {
            // SAFETY: puts in place what was in place before. SIGKILL and SIGSTOP refuse, which changes nothing.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::Dispositions;

    #[test]
    fn nobody_saves_what_another_is_about_to_put_back() {
        let first = Dispositions::save();
        let (saved, is_saved) = mpsc::channel();
        let second = std::thread::spawn(move || {
            let second = Dispositions::save();
            saved.send(()).unwrap();
            drop(second);
        });
        assert!(is_saved.recv_timeout(Duration::from_millis(200)).is_err(), "two have saved at once");
        drop(first);
        is_saved.recv().unwrap();
        second.join().unwrap();
    }
}
