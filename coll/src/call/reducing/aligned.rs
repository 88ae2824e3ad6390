//! Memory that is aligned as what MPI's functions combine.

use std::ffi::c_void;

/// What MPI's functions combine is aligned so.
pub(super) const ALIGNMENT: usize = 16;

/// Bytes that begin as far from an aligned address as an element's data does from the element.
pub(super) struct Aligned {
    units: Vec<u128>,
    from: usize,
    length: usize,
    lower: isize,
}

impl Aligned {
    pub(super) fn new(length: usize, lower: isize) -> Self {
        const { assert!(align_of::<u128>() == ALIGNMENT) };
        let from = lower.rem_euclid(ALIGNMENT as isize) as usize;
        Self { units: vec![0; (from + length).div_ceil(ALIGNMENT)], from, length, lower }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        let start = self.units.as_ptr().cast::<u8>();
        // SAFETY: the units have so many bytes.
        unsafe { std::slice::from_raw_parts(start.wrapping_add(self.from), self.length) }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let start = self.units.as_mut_ptr().cast::<u8>();
        // SAFETY: the units have so many bytes; any are valid.
        unsafe { std::slice::from_raw_parts_mut(start.wrapping_add(self.from), self.length) }
    }

    /// Where the first element is put.
    pub(super) fn start(&self) -> *const c_void {
        self.units.as_ptr().cast::<u8>().wrapping_add(self.from).wrapping_offset(-self.lower).cast()
    }

    /// The same, to put something there.
    pub(super) fn start_mut(&mut self) -> *mut c_void {
        self.units.as_mut_ptr().cast::<u8>().wrapping_add(self.from).wrapping_offset(-self.lower).cast()
    }
}
