//! The quantities of a cost model, checked as they are read.

use std::time::Duration;

use serde::Deserialize;

/// Bytes of a mebibyte, the unit in which the papers' bandwidths make sense: 1 MB at 35.3 MB/s takes their 29 ms.
const MEBIBYTE: u64 = 1 << 20;

/// How fast bytes pass; in files, in MiB/s.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Bandwidth(f64);

impl Bandwidth {
    /// So many MiB/s.
    ///
    /// # Errors
    /// Where it is not a positive number.
    pub fn mebibytes_per_second(value: f64) -> Result<Self, String> {
        if value.is_finite() && value > 0.0 {
            return Ok(Self(value));
        }
        Err(format!("a bandwidth is a positive number of MiB/s, not {value}"))
    }

    /// In MiB/s.
    #[must_use]
    pub fn as_mebibytes_per_second(self) -> f64 {
        self.0
    }

    /// How long so many bytes take, rounded up to nanoseconds.
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanoseconds = bytes as f64 * 1e9 / (self.0 * MEBIBYTE as f64);
        // Less what the arithmetic may have added to a whole number.
        Duration::from_nanos((nanoseconds - 1e-5).ceil() as u64)
    }
}

impl TryFrom<f64> for Bandwidth {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        Self::mebibytes_per_second(value)
    }
}

/// How long something takes; in files, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "u64")]
pub struct Delay(pub Duration);

impl From<u64> for Delay {
    fn from(nanoseconds: u64) -> Self {
        Self(Duration::from_nanos(nanoseconds))
    }
}

/// A number of bytes that is a power of two, at least 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct BlockSize(usize);

impl BlockSize {
    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl TryFrom<u64> for BlockSize {
    type Error = String;

    fn try_from(value: u64) -> Result<Self, String> {
        if value.is_power_of_two() && (16..=1 << 30).contains(&value) {
            return Ok(Self(value as usize));
        }
        Err(format!("{value} is not a power of two from 16 up"))
    }
}

/// More of anything no fabric has.
const MOST: u32 = 1 << 20;

/// A number that is at least one, and at most 2²⁰.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct Count(u32);

impl Count {
    /// As a number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Count {
    type Error = String;

    fn try_from(value: u32) -> Result<Self, String> {
        match value {
            0 => Err("at least one is needed here, not 0".into()),
            1..=MOST => Ok(Self(value)),
            _ => Err(format!("at most {MOST} can be here, not {value}")),
        }
    }
}

/// How fast blocks of different sizes are copied: between two points the time per byte is interpolated over the
/// logarithm of the size, beyond them it stays.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<(u64, Bandwidth)>")]
pub struct CopyCurve(Vec<(u64, Bandwidth)>);

impl CopyCurve {
    /// How long a block of so many bytes takes.
    #[must_use]
    pub fn time_for(&self, bytes: u64) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        self.bandwidth_at(bytes).time_for(bytes)
    }

    /// The bandwidth of blocks of this size.
    #[must_use]
    pub fn bandwidth_at(&self, bytes: u64) -> Bandwidth {
        let above = self.0.partition_point(|&(size, _)| size < bytes);
        let Some(&(upper, slower)) = self.0.get(above) else {
            return self.0[self.0.len() - 1].1;
        };
        let Some(&(lower, faster)) = above.checked_sub(1).and_then(|below| self.0.get(below)) else {
            return slower;
        };
        let position = (bytes as f64 / lower as f64).log2() / (upper as f64 / lower as f64).log2();
        let per_byte = (1.0 - position) / faster.0 + position / slower.0;
        Bandwidth(1.0 / per_byte)
    }
}

impl TryFrom<Vec<(u64, Bandwidth)>> for CopyCurve {
    type Error = String;

    fn try_from(points: Vec<(u64, Bandwidth)>) -> Result<Self, String> {
        if points.is_empty() {
            return Err("a curve needs at least one point [bytes, MiB/s]".into());
        }
        if points[0].0 == 0 || points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err("the sizes of a curve's points must be positive and grow".into());
        }
        Ok(Self(points))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bandwidth, CopyCurve};
    use std::time::Duration;

    fn mebibytes(value: f64) -> Bandwidth {
        Bandwidth::mebibytes_per_second(value).unwrap()
    }

    #[test]
    fn a_bandwidth_tells_the_time_of_bytes() {
        assert_eq!(mebibytes(1.0).time_for(1 << 20), Duration::from_secs(1));
        assert_eq!(mebibytes(1024.0).time_for(1), Duration::from_nanos(1));
        assert!(Bandwidth::mebibytes_per_second(0.0).is_err());
        assert!(Bandwidth::mebibytes_per_second(f64::NAN).is_err());
    }

    #[test]
    fn a_curve_meets_its_points_and_lies_between_them() {
        let curve = CopyCurve::try_from(vec![(1024, mebibytes(400.0)), (4096, mebibytes(100.0))]).unwrap();
        assert_eq!(curve.bandwidth_at(16), mebibytes(400.0));
        assert_eq!(curve.bandwidth_at(1024), mebibytes(400.0));
        // Half-way in the logarithm: the mean of 1/400 and 1/100.
        assert!((curve.bandwidth_at(2048).as_mebibytes_per_second() - 160.0).abs() < 1e-9);
        assert_eq!(curve.bandwidth_at(4096), mebibytes(100.0));
        assert_eq!(curve.bandwidth_at(1 << 30), mebibytes(100.0));
    }
}
