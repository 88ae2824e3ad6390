//! svmio side by side with what it takes the place of.
//!
//! ```text
//!   bin/files        MPI-IO on one node, by every stock driver and svmio; programs/files: what runs
//!   files            its parts
//!
//!   bin/messages     messages on svmio and on MPIs by size, in shared memory; on svmio and by iperf3 over a network
//!   bin/overlap      computing while sending
//!
//!   bin/nodes        files over four hosts, beside other file systems, iperf3 and messages
//!   nodes            its parts
//!
//!   bin/collectives  barriers and collectives of processes on one node, by svmio and by MPIs; programs/collectives: what MPIs run
//!   collectives      its parts
//!
//!   bin/mapping      files as memory: single faults, a scan, threads that wait at the same time; writes to other nodes
//!   mapping          its parts
//!   bin/memory       programs on files as memory (svmio-examples), beside themselves with reads and writes
//!   memory           its parts
//!
//!   told             programs/files, which both run, and what it tells
//!
//!   messages         running the one or the other; programs/messages.c is what MPIs run
//!   wire             the same over a network of a given rate
//!   figures          the files that are left of it all, and their names
//!   settings         what users have set for svmio, which is measured so
//!   aims             what is to be shown, and when it is missed by far
//!   left_out         what cannot be measured here
//!   phase            how fast the cores copy, and reach each other, while it is measured
//!   interleaved      A B A B …, and the medians: what drifts meets both alike
//! ```
//!
//! The MPI programs and the way they are started are those of the tests (`svmio-tests`): an installation as
//! users have it, named by `SVMIO_INSTALLATION`.

pub mod aims;
pub mod collectives;
pub mod figures;
pub mod files;
pub mod interleaved;
pub mod left_out;
pub mod mapping;
pub mod memory;
pub mod messages;
pub mod nodes;
pub mod phase;
pub mod settings;
pub mod told;
pub mod wire;
