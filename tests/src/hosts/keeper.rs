//! A process that keeps namespaces alive, and ends when the test run does.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::hosts::MARK;

/// Makes a host of its namespaces, tells that it is done, and stays until its input ends: when the test drops it,
/// or is killed.
const HOST: &str = "
    hostname \"$1\"
    mount -t sysfs sysfs /sys
    mount -t tmpfs tmpfs /dev/shm
    cat /proc/sys/kernel/random/uuid > /dev/shm/boot_id
    mount --bind /dev/shm/boot_id /proc/sys/kernel/random/boot_id
    rm /dev/shm/boot_id
    echo ready
    exec cat > /dev/null";

/// The same where there is only a network.
const NETWORK: &str = "
    echo ready
    exec cat > /dev/null";

#[derive(Debug)]
pub(super) struct Keeper(Child);

impl Keeper {
    /// Of a network, and nothing else.
    pub(super) fn of_network(mark: &str) -> Keeper {
        Keeper::start(&["--net"], NETWORK, "the switch", mark)
    }

    /// Of all that makes a host.
    pub(super) fn of_host(name: &str, mark: &str) -> Keeper {
        let kinds = ["--net", "--mount", "--uts", "--ipc", "--propagation", "slave"];
        Keeper::start(&kinds, HOST, name, mark)
    }

    fn start(kinds: &[&str], script: &str, name: &str, mark: &str) -> Keeper {
        let mut command = Command::new("unshare");
        command.args(kinds).args(["/bin/sh", "-ec", script, "keeper", name]);
        command.env(MARK, mark).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        let mut told = [0; "ready".len()];
        let output = child.stdout.as_mut().expect("the output is piped");
        let ready = output.read_exact(&mut told).is_ok() && told == *b"ready";
        assert!(ready, "the namespaces of {name} cannot be made (its errors are above): are you root?");
        Keeper(child)
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The words to put before a command that is to run in the given kinds of its namespaces.
    pub(super) fn entry(&self, kinds: &[&str]) -> Vec<OsString> {
        let directory = std::env::current_dir().expect("the working directory exists");
        let mut directory_option = OsString::from("--wd=");
        directory_option.push(directory);
        let mut words: Vec<OsString> =
            vec!["nsenter".into(), "--target".into(), self.id().to_string().into()];
        words.extend(kinds.iter().map(OsString::from));
        words.extend([directory_option, "--".into()]);
        words
    }

    /// Has `tool` (`ip` or `tc`) carry out `lines` in its network.
    ///
    /// # Panics
    /// Where one fails.
    pub(super) fn configure(&self, tool: &str, lines: &[String]) {
        let id = self.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &id, "--net", "--", tool, "-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
        let text = lines.join("\n") + "\n";
        // Taken, so that its end is seen.
        let written = child.stdin.take().expect("the input is piped").write_all(text.as_bytes());
        let output = child.wait_with_output().expect("the tool can be waited for");
        assert!(written.is_ok() && output.status.success(), "{tool}, given\n{text}: {output:?}");
    }

    /// The other processes in its network.
    pub(super) fn processes(&self) -> Vec<i32> {
        let network = |process: &Path| fs::read_link(process.join("ns/net")).ok();
        let own = network(Path::new(&format!("/proc/{}", self.id())));
        let entries = fs::read_dir("/proc").expect("/proc can be read").flatten();
        let ids = entries.filter_map(|entry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            // What cannot be read has ended, or is about to.
            let is_there = own.is_some() && network(&entry.path()) == own && id != self.id();
            is_there.then(|| i32::try_from(id).ok()).flatten()
        });
        ids.collect()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Ended already, or killed by this: both are what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
