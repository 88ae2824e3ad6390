//! An operation of which the order of operands matters.

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
