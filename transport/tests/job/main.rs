//! Jobs: start-up, watchdog, signals, end. Where a thread can be a rank, ranks are threads (`starting`, `leaving`);
//! where processes have to die, they are processes, which the tests lead by a socket each (`company`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod company;
mod dying;
mod ending;
mod exchange;
mod large;
mod leaving;
mod standing;
mod starting;
mod threads;
