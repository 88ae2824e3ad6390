//! What reductions compute.

use std::marker::PhantomData;

/// An associative operation on vectors of elements, in bytes as they lie in memory.
pub trait Operation {
    /// Bytes of an element. Vectors are divided between elements only.
    fn width(&self) -> usize;

    /// `right` becomes `left` ∘ `right`, element by element: the order of MPI's own functions. Both have the same
    /// length, a multiple of [`width`](Self::width), and any alignment.
    fn combine(&self, left: &[u8], right: &mut [u8]);

    /// `right` becomes all `lefts` ∘ `right`. `lefts` are vectors one behind the other, in the order of operands, each
    /// as long as `right`, which is not empty: the last one is combined first.
    fn fold(&self, lefts: &[u8], right: &mut [u8]) {
        one_by_one(self, lefts, right);
    }

    /// Whether the order of operands matters to nobody.
    fn is_commutative(&self) -> bool;
}

/// An operation that somebody else holds.
impl<O: Operation + ?Sized> Operation for &O {
    fn width(&self) -> usize {
        (**self).width()
    }

    fn combine(&self, left: &[u8], right: &mut [u8]) {
        (**self).combine(left, right);
    }

    fn fold(&self, lefts: &[u8], right: &mut [u8]) {
        (**self).fold(lefts, right);
    }

    fn is_commutative(&self) -> bool {
        (**self).is_commutative()
    }
}

fn one_by_one(operation: &(impl Operation + ?Sized), lefts: &[u8], right: &mut [u8]) {
    lefts.rchunks_exact(right.len()).for_each(|left| operation.combine(left, right));
}

/// A number that has a fixed size in memory.
pub trait Element: Copy {
    /// Bytes.
    const WIDTH: usize;
    /// From its bytes in memory.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// To its bytes in memory.
    fn to_bytes(self, bytes: &mut [u8]);
}

macro_rules! elements {
    ($($number:ty),*) => {$(
        impl Element for $number {
            const WIDTH: usize = size_of::<$number>();

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$number>()];
                own.copy_from_slice(bytes);
                <$number>::from_ne_bytes(own)
            }

            #[inline]
            fn to_bytes(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

elements!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

/// An operation on each element by itself.
#[derive(Debug, Clone, Copy)]
pub struct Elementwise<T, F> {
    function: F,
    is_commutative: bool,
    element: PhantomData<fn(T, T) -> T>,
}

impl<T: Element, F: Fn(T, T) -> T> Elementwise<T, F> {
    /// One whose operands may change places.
    pub const fn commutative(function: F) -> Self {
        Self { function, is_commutative: true, element: PhantomData }
    }

    /// One whose operands keep the order of ranks.
    pub const fn ordered(function: F) -> Self {
        Self { function, is_commutative: false, element: PhantomData }
    }
}

impl<T: Element, F: Fn(T, T) -> T> Operation for Elementwise<T, F> {
    fn width(&self) -> usize {
        T::WIDTH
    }

    #[inline]
    fn combine(&self, left: &[u8], right: &mut [u8]) {
        for (left, right) in left.chunks_exact(T::WIDTH).zip(right.chunks_exact_mut(T::WIDTH)) {
            (self.function)(T::from_bytes(left), T::from_bytes(right)).to_bytes(right);
        }
    }

    fn fold(&self, lefts: &[u8], right: &mut [u8]) {
        if right.len() == T::WIDTH {
            // A single element stays in a register.
            let left = lefts.rchunks_exact(T::WIDTH).map(T::from_bytes);
            left.fold(T::from_bytes(right), |right, left| (self.function)(left, right)).to_bytes(right);
        } else {
            one_by_one(self, lefts, right);
        }
    }

    fn is_commutative(&self) -> bool {
        self.is_commutative
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::{Element, Elementwise, Operation};

    /// That a fold is what combining one by one gives, of an operation whose operands cannot change places.
    fn compare<T: Element>(function: fn(T, T) -> T, bytes: &[u8], elements: usize) {
        let operation = Elementwise::<T, _>::ordered(function);
        let length = elements * T::WIDTH;
        let whole = &bytes[..bytes.len() / length * length];
        let (lefts, right) = whole.split_at(whole.len() - length);
        let (mut folded, mut expected) = (right.to_vec(), right.to_vec());
        operation.fold(lefts, &mut folded);
        for left in (0..lefts.len() / length).rev() {
            operation.combine(&lefts[left * length..][..length], &mut expected);
        }
        assert_eq!(folded, expected);
    }

    proptest! {
        #[test]
        fn folding_is_combining_one_by_one(
            bytes in prop::collection::vec(any::<u8>(), 64..400),
            elements in 1..8usize,
        ) {
            compare(|left: u8, right| left.wrapping_mul(3).wrapping_sub(right), &bytes, elements);
            compare(|left: u32, right| left.wrapping_mul(3).wrapping_sub(right), &bytes, elements);
            compare(|left: i64, right| left.wrapping_mul(3).wrapping_sub(right), &bytes, elements);
        }
    }
}
