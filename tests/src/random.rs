//! Numbers that look random and are the same for the same seed.

/// A generator of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator that `seed` starts.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// So many random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_ne_bytes()[..word.len()]);
        }
        bytes
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
