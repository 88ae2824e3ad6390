//! Numbers of elements, and places of blocks, as MPI's functions have them: an `int`, or an `MPI_Count` and an `MPI_Aint` in
//! those for large counts, which are 64 bits long.

use std::ffi::c_int;

/// A number of elements, or a place.
pub trait Count: Copy + Into<i64> {
    /// Those from there on.
    fn numbers(at: *const Self) -> Numbers;
}

impl Count for c_int {
    fn numbers(at: *const Self) -> Numbers {
        Numbers::Short(at)
    }
}

impl Count for i64 {
    fn numbers(at: *const Self) -> Numbers {
        Numbers::Long(at)
    }
}

/// An array of them, of a length that the call knows. Those are equal that are in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Of `int`s.
    Short(*const c_int),
    /// Of 64 bits each.
    Long(*const i64),
}

impl Numbers {
    /// Its numbers; `None` where there is no array.
    ///
    /// # Safety
    /// The array is null or has `length` numbers, which nobody changes for as long as the answer is used.
    pub(crate) unsafe fn all(self, length: usize) -> Option<impl Iterator<Item = i64>> {
        let is_null = match self {
            Self::Short(at) => at.is_null(),
            Self::Long(at) => at.is_null(),
        };
        let number = move |place: usize| {
            // SAFETY: the caller vouches for so many.
            unsafe {
                match self {
                    Self::Short(at) => i64::from(at.add(place).read()),
                    Self::Long(at) => at.add(place).read(),
                }
            }
        };
        (!is_null).then(|| (0..length).map(number))
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Numbers};

    #[test]
    fn both_kinds_give_the_same() {
        let (short, long) = ([3, -1, 7], [3, -1, 7_i64]);
        for numbers in [Count::numbers(short.as_ptr()), Count::numbers(long.as_ptr())] {
            // SAFETY: both arrays have so many.
            let all: Vec<i64> = unsafe { numbers.all(3) }.into_iter().flatten().collect();
            assert_eq!(all, long);
        }
        // SAFETY: there is none.
        assert!(unsafe { Numbers::Long(std::ptr::null()).all(3) }.is_none());
    }
}
