//! A provider's network, opened: where memory is registered and endpoints live.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::faults::{Call, Faults};
use super::keys::{Keys, Signal};
use super::provider::Offer;
use super::sys::{self, call, library};
use crate::error::{Error, Result};
use crate::memory::UserMemory;

/// An opened fabric and domain, in libfabric's words.
pub(super) struct Domain {
    offer: Offer,
    fabric: NonNull<sys::fid_fabric>,
    domain: NonNull<sys::fid_domain>,
    keys: Keys<Signal>,
    faults: Faults,
}

// SAFETY: the objects were asked for with FI_THREAD_SAFE: any thread may call them at any time.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    /// Opens what `offer` describes.
    ///
    /// # Errors
    /// `Provider`.
    pub(super) fn open(offer: Offer) -> Result<Arc<Self>> {
        let library = library()?;
        let mut fabric = ptr::null_mut();
        // SAFETY: an offer has its attributes; the context is not used.
        let answer = unsafe { (library.fabric)((*offer.as_ptr()).fabric_attr, &mut fabric, ptr::null_mut()) };
        let fabric = opened(&offer, "opening the fabric", answer, fabric)?;
        let mut domain = ptr::null_mut();
        // SAFETY: a fabric that was just opened, and the offer it came from.
        let answer = unsafe {
            call!(fabric.as_ptr(), ops.domain(fabric.as_ptr(), offer.as_ptr(), &mut domain, ptr::null_mut()))
        };
        match opened(&offer, "opening the domain", answer, domain) {
            Ok(domain) => {
                Ok(Arc::new(Self { offer, fabric, domain, keys: Keys::default(), faults: Faults::default() }))
            }
            Err(error) => {
                // SAFETY: opened above, nothing depends on it.
                unsafe { close(&raw mut (*fabric.as_ptr()).fid) };
                Err(error)
            }
        }
    }

    /// What it was made of.
    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    pub(super) fn fabric(&self) -> *mut sys::fid_fabric {
        self.fabric.as_ptr()
    }

    pub(super) fn domain(&self) -> *mut sys::fid_domain {
        self.domain.as_ptr()
    }

    /// What keeps the provider from looking for keys while they change.
    pub(super) fn keys(&self) -> &Keys<Signal> {
        &self.keys
    }

    /// What tests have the provider answer.
    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Registers memory, for peers or for being the local side of messages and transfers.
    ///
    /// # Safety
    /// The memory must stay valid until the registration is dropped, and may be changed until then by whom `purpose`
    /// says; `endpoint` must be one of this domain.
    ///
    /// # Errors
    /// `Memory` where there is none for it, or so much may not be locked; `Provider`.
    pub(super) unsafe fn register(
        self: &Arc<Self>,
        endpoint: NonNull<sys::fid_ep>,
        memory: UserMemory,
        purpose: Use,
    ) -> Result<Registration> {
        const DOING: &str = "registering memory";
        let mut registration = ptr::null_mut();
        let mut answer = KEY_TAKEN;
        // Where keys are ours to choose, they are chosen by chance: whoever has none cannot guess one. One that is
        // taken is as good as never met.
        for _ in 0..4 {
            let key = if self.offer.registers(sys::FI_MR_PROV_KEY) {
                0
            } else {
                random_key(self.offer.key_size())?
            };
            // SAFETY: the caller's promise.
            answer = unsafe { self.try_key(key, memory, purpose, &mut registration) };
            if answer != KEY_TAKEN {
                break;
            }
        }
        if lacks_memory(answer) {
            return Err(self.short(memory.length, answer));
        }
        let pointer = opened(&self.offer, DOING, answer, registration)?;
        let registration = Registration { pointer, domain: Arc::clone(self) };
        if self.offer.registers(sys::FI_MR_ENDPOINT) {
            // SAFETY: open objects of this domain.
            let answer = unsafe {
                let own = &raw mut (*pointer.as_ptr()).fid;
                match call!(pointer.as_ptr(), fid.ops.bind(own, &raw mut (*endpoint.as_ptr()).fid, 0)) {
                    0 => {
                        call!(pointer.as_ptr(), fid.ops.control(own, sys::FI_ENABLE as i32, ptr::null_mut()))
                    }
                    refused => refused,
                }
            };
            if lacks_memory(answer) {
                return Err(self.short(memory.length, answer));
            }
            self.check("registering memory with the endpoint", answer)?;
        }
        if registration.key() == sys::KEY_NOT_AVAILABLE {
            return Err(self.error(DOING, "its keys do not fit into 64 bits"));
        }
        Ok(registration)
    }

    /// Asks for a registration under a key; what the provider answers.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    unsafe fn try_key(
        &self,
        key: u64,
        memory: UserMemory,
        purpose: Use,
        registration: &mut *mut sys::fid_mr,
    ) -> i32 {
        if let Some(answer) = self.faults.answer(Call::Register(memory.length, purpose)) {
            return answer;
        }
        let (start, length) = (memory.start.as_ptr().cast::<c_void>(), memory.length);
        let domain = self.domain.as_ptr();
        let _changing = self.keys.change();
        // SAFETY: an open domain; the memory is the caller's promise.
        unsafe {
            let own = &raw mut (*domain).fid;
            call!(
                domain,
                mr.reg(own, start, length, purpose.access(), 0, key, 0, registration, ptr::null_mut())
            )
        }
    }

    /// An answer as a result.
    pub(super) fn check(&self, doing: &str, answer: i32) -> Result<()> {
        check(&self.offer, doing, answer)
    }

    /// That so much memory cannot be registered, as the provider's answer says.
    fn short(&self, length: usize, answer: i32) -> Error {
        let provider = self.offer.provider();
        Error::Memory {
            what: format!(
                "registering it with the network (libfabric, provider {provider}); `ulimit -l` tells how much a process \
                 may lock"
            ),
            length: length as u64,
            source: Arc::new(std::io::Error::from_raw_os_error(-answer)),
        }
    }

    /// An error of this provider.
    pub(super) fn error(&self, doing: &str, problem: impl Into<String>) -> Error {
        Error::Provider { doing: doing.into(), provider: self.offer.provider(), problem: problem.into() }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: all that depends on it holds it, so nothing does any more.
        unsafe {
            close(&raw mut (*self.domain.as_ptr()).fid);
            close(&raw mut (*self.fabric.as_ptr()).fid);
        }
    }
}

/// What memory is registered for. Nothing else is allowed: an adapter refuses to register memory for writing that can
/// only be read, and what is only sent from here is nothing for peers to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Peers read and write it; this process's own transfers begin there, too.
    Peers,
    /// Transfers to peers begin there.
    Source,
    /// Transfers from peers end there, and others to peers begin there.
    Passage,
    /// Messages are sent from there.
    Sends,
    /// Messages are received there.
    Receives,
}

impl Use {
    /// In libfabric's words.
    fn access(self) -> u64 {
        match self {
            Self::Peers => sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE | sys::FI_WRITE,
            Self::Source => sys::FI_WRITE,
            Self::Passage => sys::FI_READ | sys::FI_WRITE,
            Self::Sends => sys::FI_SEND,
            Self::Receives => sys::FI_RECV,
        }
    }
}

/// Memory that is registered until this is dropped.
pub(super) struct Registration {
    pointer: NonNull<sys::fid_mr>,
    domain: Arc<Domain>,
}

// SAFETY: as for the domain; what it holds is not changed after it was made.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    /// What a peer names it by.
    pub(super) fn key(&self) -> u64 {
        // SAFETY: open as long as this value.
        unsafe { (*self.pointer.as_ptr()).key }
    }

    /// What a transfer from or to this memory gives along.
    pub(super) fn descriptor(&self) -> Descriptor {
        // SAFETY: as above.
        Descriptor(unsafe { (*self.pointer.as_ptr()).mem_desc })
    }

    /// What a peer adds offsets to, where the memory begins at `start`.
    pub(super) fn base(&self, start: NonNull<u8>) -> u64 {
        if self.domain.offer.registers(sys::FI_MR_VIRT_ADDR) { start.as_ptr() as u64 } else { 0 }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _changing = self.domain.keys.change();
        // SAFETY: opened by `register`, and nothing depends on it.
        unsafe { close(&raw mut (*self.pointer.as_ptr()).fid) };
    }
}

/// A provider's own word for registered memory.
#[derive(Clone, Copy)]
pub(super) struct Descriptor(pub(super) *mut c_void);

// SAFETY: an opaque word.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// Where the provider wants none.
    pub(super) const NONE: Self = Self(ptr::null_mut());
}

/// Closes an object. What it says is of no use: there is nothing else to do with it.
///
/// # Safety
/// The object is open, and is not used after.
pub(super) unsafe fn close(object: *mut sys::fid) {
    // SAFETY: the caller's promise.
    let answer = unsafe {
        match (*(*object).ops).close {
            Some(function) => function(object),
            None => 0,
        }
    };
    if answer != 0 {
        tracing::debug!(answer, "libfabric does not close an object");
    }
}

/// The object that a call opened.
pub(super) fn opened<T>(offer: &Offer, doing: &str, answer: i32, object: *mut T) -> Result<NonNull<T>> {
    check(offer, doing, answer)?;
    let nothing = || Error::Provider {
        doing: doing.into(),
        provider: offer.provider(),
        problem: "it reports success, but there is nothing".into(),
    };
    NonNull::new(object).ok_or_else(nothing)
}

fn check(offer: &Offer, doing: &str, answer: i32) -> Result<()> {
    if answer == 0 {
        return Ok(());
    }
    let problem = library()?.describe(answer as isize);
    Err(Error::Provider { doing: doing.into(), provider: offer.provider(), problem })
}

/// What providers say of a key that another registration has.
const KEY_TAKEN: i32 = -(sys::FI_ENOKEY as i32);

/// What providers say where there is no memory for a registration, or the adapter has no room for another one, or so
/// much may not be locked. With less it may go well.
fn lacks_memory(answer: i32) -> bool {
    [libc::ENOMEM, libc::ENOSPC, libc::EAGAIN].contains(&-answer)
}

fn random_key(size: usize) -> Result<u64> {
    let mut bytes = [0; 8];
    let length = size.clamp(1, bytes.len());
    rustix::rand::getrandom(&mut bytes[..length], rustix::rand::GetRandomFlags::empty())
        .map_err(|problem| Error::system("asking for random bytes", problem))?;
    // The word of all ones means that there is no key.
    Ok(u64::from_le_bytes(bytes) & (u64::MAX >> 1))
}

#[cfg(test)]
mod tests {
    use std::ptr::{self, NonNull};
    use std::sync::Arc;

    use super::{Domain, KEY_TAKEN, Registration, Use, lacks_memory, sys};
    use crate::memory::UserMemory;
    use crate::ofi::OfiSettings;
    use crate::ofi::provider::Offer;

    #[test]
    fn providers_tell_that_a_key_is_taken() {
        for provider in ["net", "tcp;ofi_rxm"] {
            let settings = OfiSettings { provider: provider.into(), ..OfiSettings::default() };
            let (offer, _) = Offer::choose(&settings, None).unwrap();
            let domain = Domain::open(offer).unwrap();
            let memory = UserMemory::of(&[0; 8]);
            let mut registrations = [ptr::null_mut(); 2];
            let answers = registrations.each_mut().map(|registration| {
                // SAFETY: a constant, of which nobody is told.
                unsafe { domain.try_key(1, memory, Use::Source, registration) }
            });
            assert_eq!(answers, [0, KEY_TAKEN], "{provider}");
            let pointer = NonNull::new(registrations[0]).unwrap();
            drop(Registration { pointer, domain: Arc::clone(&domain) });
        }
    }

    #[test]
    fn only_what_is_for_peers_is_open_to_them_and_only_what_is_filled_may_be_changed() {
        let changes = sys::FI_REMOTE_WRITE | sys::FI_READ | sys::FI_RECV;
        for purpose in [Use::Peers, Use::Source, Use::Passage, Use::Sends, Use::Receives] {
            let is_remote = purpose.access() & (sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE) != 0;
            assert_eq!(is_remote, purpose == Use::Peers, "{purpose:?}");
            let is_changed = purpose.access() & changes != 0;
            assert_eq!(is_changed, !matches!(purpose, Use::Source | Use::Sends), "{purpose:?}");
        }
    }

    #[test]
    fn what_is_short_is_told_from_what_is_refused() {
        for answer in [-libc::ENOMEM, -libc::ENOSPC, -libc::EAGAIN] {
            assert!(lacks_memory(answer), "{answer}");
        }
        for answer in [0, -libc::EINVAL, -libc::EACCES, KEY_TAKEN, -libc::EFAULT] {
            assert!(!lacks_memory(answer), "{answer}");
        }
    }
}
