//! What a thread notes between two calls of MPI's.
//!
//! Programs call MPI in exit handlers, too: HDF5 closes files there. What has a destructor is gone from the thread by
//! then, and who asks for it ends the process. So this has none: what nobody takes stays with the thread that is gone.

use std::cell::Cell;
use std::mem::ManuallyDrop;

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
    fn it_has_no_destructor() {
        assert!(!std::mem::needs_drop::<Noted<Vec<u8>>>());
    }
}
