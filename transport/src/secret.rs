//! What the processes of a job know and strangers do not.

use std::fmt;
use std::str::FromStr;

/// The secret of a job: 32 random bytes. It is never shown; [`to_hex`](Self::to_hex) is for handing it on.
#[derive(Clone)]
pub struct JobSecret([u8; 32]);

impl JobSecret {
    /// A fresh one, from the kernel's random numbers.
    ///
    /// # Errors
    /// What the kernel says where it has none to give.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(bytes))
    }

    /// Its bytes, for a greeting on a connection that only this user can see.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// In hexadecimal, for an environment variable.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether `claimed` is this secret; takes the same time wherever they differ.
    #[must_use]
    pub fn admits(&self, claimed: &[u8]) -> bool {
        claimed.len() == self.0.len()
            && self.0.iter().zip(claimed).fold(0, |differing, (ours, theirs)| differing | (ours ^ theirs))
                == 0
    }
}

impl fmt::Debug for JobSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JobSecret(…)")
    }
}

/// A text that is not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job's secret is 64 hexadecimal digits")]
pub struct InvalidSecret;

impl FromStr for JobSecret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(InvalidSecret);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(InvalidSecret);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::JobSecret;

    #[test]
    fn a_secret_survives_the_way_through_text_and_admits_only_itself() {
        let secret = JobSecret::random().unwrap();
        let copy: JobSecret = secret.to_hex().parse().unwrap();
        assert!(secret.admits(copy.as_bytes()));
        assert!(!secret.admits(JobSecret::random().unwrap().as_bytes()));
        assert!(!secret.admits(&secret.as_bytes()[..31]));
        assert!("12".parse::<JobSecret>().is_err());
        assert!(!format!("{secret:?}").contains(&secret.to_hex()));
    }
}
