//! What members give to calls of a test, and what comes of it by definition.

use std::ops::Range;

use svmio_collectives::executor::Operation;

#[path = "affine.rs"]
mod affine;

pub(crate) use affine::affine;

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
