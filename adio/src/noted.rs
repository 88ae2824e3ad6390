//! What a thread notes between two calls of MPI's.
//!
//! Programs call MPI in exit handlers, too: HDF5 closes files there. What has a destructor is gone from the thread by
//! then, and who asks for it ends the process. So this has none: what nobody takes stays with the thread that is gone.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::LocalKey;

/// What each thread may have noted, where hardly ever one has, and every access asks: it is told without looking at the
/// thread's own variable then, which takes a call in a library that is loaded.
pub(crate) struct Notes<T: 'static> {
    own: &'static LocalKey<Noted<T>>,
    /// How many threads have noted something.
    threads: AtomicUsize,
}

impl<T> Notes<T> {
    /// Notes in the variable `own`, which nobody else uses.
    pub(crate) const fn new(own: &'static LocalKey<Noted<T>>) -> Notes<T> {
        Notes { own, threads: AtomicUsize::new(0) }
    }

    /// Notes it, in the place of what this thread noted before.
    pub(crate) fn set(&self, value: T) {
        self.replace(Some(value));
    }

    /// What this thread has noted, and is no more.
    pub(crate) fn take(&self) -> Option<T> {
        self.replace(None)
    }

    /// The same, with something else, or nothing, noted in its place.
    #[inline]
    pub(crate) fn replace(&self, value: Option<T>) -> Option<T> {
        if value.is_none() && !self.has_any() { None } else { self.exchange(value) }
    }

    #[inline]
    fn has_any(&self) -> bool {
        // Relaxed, here and below: a thread asks for what it has noted itself, and so counted before.
        self.threads.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn exchange(&self, value: Option<T>) -> Option<T> {
        let is_any = value.is_some();
        let before = self.own.with(|own| own.replace(value));
        match (before.is_some(), is_any) {
            (false, true) => _ = self.threads.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.threads.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        before
    }
}

impl<T: Clone> Notes<T> {
    /// What this thread has noted.
    #[inline]
    pub(crate) fn get(&self) -> Option<T> {
        if self.has_any() { self.own.with(Noted::get) } else { None }
    }
}

/// A value that its thread has noted, or nothing.
pub(crate) struct Noted<T>(Cell<ManuallyDrop<Option<T>>>);

impl<T> Noted<T> {
    /// Nothing.
    pub(crate) const fn nothing() -> Noted<T> {
        Noted(Cell::new(ManuallyDrop::new(None)))
    }

    /// Notes it, in the place of what was noted before.
    pub(crate) fn set(&self, value: T) {
        self.replace(Some(value));
    }

    /// What was noted, and is no more.
    pub(crate) fn take(&self) -> Option<T> {
        self.replace(None)
    }

    /// The same, with something else, or nothing, noted in its place.
    pub(crate) fn replace(&self, value: Option<T>) -> Option<T> {
        ManuallyDrop::into_inner(self.0.replace(ManuallyDrop::new(value)))
    }
}

impl<T: Clone> Noted<T> {
    /// What is noted.
    pub(crate) fn get(&self) -> Option<T> {
        let value = self.take();
        self.replace(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_is_noted_is_there_until_it_is_taken() {
        let (noted, value) = (Noted::nothing(), Rc::new(1));
        assert_eq!(noted.take(), None);
        noted.set(Rc::clone(&value));
        noted.set(Rc::clone(&value));
        assert_eq!(noted.get().as_deref(), Some(&1));
        assert_eq!(Rc::strong_count(&value), 2);
        assert_eq!(noted.take().as_deref(), Some(&1));
        assert_eq!(noted.get(), None);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[test]
    fn a_thread_has_its_own_notes_only() {
        thread_local!(static OWN: Noted<&'static str> = const { Noted::nothing() });
        static NOTES: Notes<&str> = Notes::new(&OWN);
        assert_eq!((NOTES.get(), NOTES.take()), (None, None));
        NOTES.set("here");
        std::thread::spawn(|| {
            assert_eq!(NOTES.replace(None), None);
            assert_eq!(NOTES.replace(Some("there")), None);
            assert_eq!(NOTES.replace(Some("again")), Some("there"));
            assert_eq!(NOTES.take(), Some("again"));
        })
        .join()
        .unwrap();
        assert_eq!(NOTES.get(), Some("here"));
        assert!(NOTES.has_any());
        assert_eq!(NOTES.take(), Some("here"));
        assert!(!NOTES.has_any());
    }

    #[test]
    fn it_has_no_destructor() {
        assert!(!std::mem::needs_drop::<Noted<Vec<u8>>>());
    }
}
