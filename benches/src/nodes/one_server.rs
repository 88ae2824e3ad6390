//! One host that exports a directory in its memory, which all mount: what a file server is to a small cluster.
//!
//! It is served without encryption.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use svmio_tests::Hosts;

use super::bed::on_host;

const PORT: &str = "2222";

/// Debian's place for it.
pub(super) const PROGRAM: &str = "/usr/lib/openssh/sftp-server";

/// Files that one host writes are read by another at once: names and sizes are not kept.
const MOUNT: &str = "
    command -v sshfs > /dev/null || { echo 'install the package sshfs' >&2; exit 1; }
    options=directport=$3,dir_cache=no,attr_timeout=0,entry_timeout=0
    sshfs -o $options \"$1:/dev/shm/export\" \"$2\" > /dev/null < /dev/null";

/// The server, on the first host. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Server(Child);

/// Starts the server, and mounts its directory in all hosts.
///
/// # Panics
/// Where something is missing or fails.
pub(super) fn mount(hosts: &Hosts, at: &Path) -> Server {
    assert!(Path::new(PROGRAM).is_file(), "install the package openssh-sftp-server, for {PROGRAM}");
    on_host(hosts, 0, "mkdir /dev/shm/export", &[]);
    let mut command = hosts.command(0, "socat");
    command.args([
        "-d",
        "-d",
        &format!("TCP-LISTEN:{PORT},reuseaddr,nodelay,fork"),
        &format!("EXEC:{PROGRAM}"),
    ]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    let mut told =
        BufReader::new(child.stderr.take().expect("the errors are piped")).lines().map_while(Result::ok);
    assert!(
        told.any(|line| line.contains("listening")),
        "socat does not listen: is the package socat installed?"
    );
    // What it tells later is to go somewhere.
    std::thread::spawn(move || told.for_each(drop));
    let (address, at) = (hosts.address(0).to_string(), at.to_string_lossy());
    for host in 0..hosts.count() {
        on_host(hosts, host, MOUNT, &[&address, &at, PORT]);
    }
    Server(child)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already, or killed by this: both are what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
