//! Programs that use a file on several nodes as memory, each beside itself with explicit reads and writes.
//!
//! ```text
//!   bin/stencil ── stencil   heat in a plate: every node has a band of it, and sees its neighbours' edges by loads
//!   bin/sort ───── sort      more keys than fit into memory: sorted runs in place, merged into a second file
//!
//!   process   what both begin and end with: a job of processes, each with its node's store, and all as a team
//! ```
//!
//! ```sh
//! cargo run --release -p svmio-examples --bin stencil -- --steps 200
//! cargo run --release -p svmio-examples --bin sort -- --access explicit
//! ```
//!
//! Started so, a program starts a job of itself: four processes, each on a node that this machine plays. Started by
//! something that tells it its place in a job (`svmio_transport::job::Launcher`, on hosts of their own), it takes that.

pub mod process;
pub mod sort;
pub mod stencil;
