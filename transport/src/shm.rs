//! The back end for processes of one machine: stores are stores.
//!
//! ```text
//!   machine   where a process is: who is elsewhere is refused at the start
//!   prepare ──► Door: a socket in the abstract name space ──► answer (a thread) ──┐ file descriptors
//!                                                             ask  ◄──────────────┘ of memory
//!   adapter   the contract, put together from what a process keeps (process):
//!     exports, storage  memory without a name (memfd) or of a file, mapped shared
//!     control, bell     how a process is woken: a word to sleep on, and 64 interrupts; loom tests it
//!     waiting           poll, give the core away, sleep
//!     reach, copying    stores that close with a word, to what is mapped
//!     process_memory    straight to another process's private memory, where the kernel allows it
//!     engine            DMA: a thread that copies
//! ```
//!
//! Nothing of it has a name in a file system: when the last process that uses a piece of memory ends, however it
//! ends, the kernel takes the memory back.

mod adapter;
mod answer;
mod ask;
pub(crate) mod available;
mod bell;
mod control;
mod copying;
mod engine;
mod exports;
#[doc(hidden)]
pub mod machine;
mod peer;
mod preparation;
mod process;
mod process_memory;
mod reach;
mod settings;
mod storage;
mod sys;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod threads;
mod waiting;
#[doc(hidden)]
pub mod wire;

pub use available::memory_share;
pub use preparation::prepare;
#[doc(hidden)]
pub use preparation::{within_process, within_process_with};
pub use settings::ShmSettings;

/// Random bytes from the kernel.
fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
