//! What members give to calls of a test, and what comes of it by definition.

use std::ops::Range;

use svmio_collectives::executor::{Elementwise, Operation};

/// Affine functions x ↦ ax + b modulo 2³², to be put into each other: associative, and their order matters.
pub(crate) fn affine() -> impl Operation + Send + Sync + 'static {
    Elementwise::<u64, _>::ordered(|first, then| {
        let parts = |function: u64| (function as u32, (function >> 32) as u32);
        let ((a, b), (c, d)) = (parts(first), parts(then));
        let scale = c.wrapping_mul(a);
        let shift = c.wrapping_mul(b).wrapping_add(d);
        u64::from(scale) | u64::from(shift) << 32
    })
}

/// What an operation makes of all members' data, in their order.
pub(crate) fn combined(operation: &dyn Operation, data: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = data[0].clone();
    for data in &data[1..] {
        let mut right = data.clone();
        operation.combine(&sum, &mut right);
        sum = right;
    }
    sum
}

/// What a member gives to the call of that number.
pub(crate) fn given(member: usize, number: usize, length: usize) -> Vec<u8> {
    let mut seed = fastrand::Rng::with_seed((member * 1_000_003 + number) as u64);
    (0..8 * length).map(|_| seed.u8(..)).collect()
}

/// Where blocks of so many elements lie, one after the other.
pub(crate) fn blocks(lengths: &[usize]) -> Vec<Range<usize>> {
    let begins = lengths.iter().scan(0, |end, length| {
        *end += 8 * length;
        Some(*end - 8 * length..*end)
    });
    begins.collect()
}
