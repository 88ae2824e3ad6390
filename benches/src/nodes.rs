//! Files over four hosts with links of 1 Gbit/s, beside what else could keep them there.
//!
//! ```text
//!   bed           the hosts, their links, and what is mounted on them:
//!                   gluster       a volume of four bricks, one on each host
//!                   one_server    one host's directory, mounted on all
//!                   clean_up      removes it all, however the benchmark ends
//!   measured      one run of programs/files on a file of svmio's or on a mount: its times
//!   link          what iperf3 gets over the same links
//!
//!   application   coll_perf, BT's I/O, interleaved pieces: svmio beside the mounts, as in the papers' table
//!   remote        reading what lies on another node, the first time and again
//!   pieces        eight bytes at a time into other nodes' memory, beside a message for each piece
//!   apart         collective writes to what lies with each rank, beside independent ones
//!   processor     what a file costs the processors that nobody uses
//! ```

pub mod apart;
pub mod application;
pub mod bed;
mod clean_up;
mod gluster;
mod link;
pub mod measured;
mod one_server;
pub mod pieces;
pub mod processor;
pub mod remote;
