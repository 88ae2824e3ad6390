//! Proofs of knowing the job's secret, which itself is never sent over a control connection.
//!
//! Each side gives the other a fresh nonce, and answers with a keyed hash over both and over what it says of itself.
//! That keeps strangers out. It does not hide what is said, nor guard a connection against somebody who can change
//! its bytes on the way.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire::{Hello, Nonce, Proof};
use crate::error::{Error, Result};
use crate::secret::JobSecret;

impl Nonce {
    /// A fresh one.
    pub(super) fn random() -> Result<Self> {
        // The secret's generator is the kernel's.
        let bytes = JobSecret::random()
            .map_err(|problem| Error::system("getting random bytes for a challenge", problem))?;
        Ok(Self(*bytes.as_bytes()))
    }
}

/// The two nonces of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nonces {
    /// Of the side that was called.
    pub(super) called: Nonce,
    /// Of the side that called.
    pub(super) calling: Nonce,
}

impl Nonces {
    /// The proof of the side that calls, for its `hello`.
    pub(super) fn prove_hello(&self, secret: &JobSecret, hello: &Hello) -> Proof {
        finish(self.hello(secret, hello))
    }

    /// Whether a caller's proof is right.
    pub(super) fn admit_hello(&self, secret: &JobSecret, hello: &Hello, proof: &Proof) -> bool {
        self.hello(secret, hello).verify_slice(&proof.0).is_ok()
    }

    /// The proof of the side that was called.
    pub(super) fn prove_welcome(&self, secret: &JobSecret) -> Proof {
        finish(self.welcome(secret))
    }

    /// Whether the proof of the side that was called is right.
    pub(super) fn admit_welcome(&self, secret: &JobSecret, proof: &Proof) -> bool {
        self.welcome(secret).verify_slice(&proof.0).is_ok()
    }

    fn hello(&self, secret: &JobSecret, hello: &Hello) -> Hmac<Sha256> {
        let mut mac = self.begin(secret, b"svmio control: hello");
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        mac.update(&bytes);
        mac
    }

    fn welcome(&self, secret: &JobSecret) -> Hmac<Sha256> {
        self.begin(secret, b"svmio control: welcome")
    }

    fn begin(&self, secret: &JobSecret, purpose: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of any length, so this does not fail.
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
        mac.update(purpose);
        mac.update(&self.called.0);
        mac.update(&self.calling.0);
        mac
    }
}

fn finish(mac: Hmac<Sha256>) -> Proof {
    Proof(mac.finalize().into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::wire::Purpose;
    use crate::units::Rank;

    #[test]
    fn a_proof_holds_for_its_secret_its_nonces_and_its_words_only() {
        let secret = JobSecret::random().unwrap();
        let nonces = Nonces { called: Nonce::random().unwrap(), calling: Nonce::random().unwrap() };
        let hello = Hello { rank: Rank(3), size: 4, purpose: Purpose::Follow };
        let proof = nonces.prove_hello(&secret, &hello);
        assert!(nonces.admit_hello(&secret, &hello, &proof));
        assert!(!nonces.admit_hello(&JobSecret::random().unwrap(), &hello, &proof));
        assert!(!nonces.admit_hello(&secret, &Hello { rank: Rank(2), ..hello.clone() }, &proof));
        let swapped = Nonces { called: nonces.calling, calling: nonces.called };
        assert!(!swapped.admit_hello(&secret, &hello, &proof));
        assert!(!nonces.admit_welcome(&secret, &proof));
        assert!(nonces.admit_welcome(&secret, &nonces.prove_welcome(&secret)));
    }
}
