//! Several hosts on one machine: namespaces joined by a bridge.
//!
//! ```text
//!   host 0   eth0 10.77.0.1 ── v0 ┐
//!   host 1   eth0 10.77.0.2 ── v1 ┼── br0 10.77.0.254    the switch: a further namespace; launchers run there
//!   host 2   eth0 10.77.0.3 ── v2 ┘
//! ```
//!
//! The link of host 0 may be a long cable: then its ends are no pair, but devices of their own, between which threads
//! of this process carry packets, which so take their time.
//!
//! A host has a network, a name, a boot id, a `/dev/shm` and System V memory of its own; files it shares with all.
//! The machine's own network stays as it is, and every [`Hosts`] has a network for itself, so tests that run at
//! the same time use the same addresses.
//!
//! Namespaces have no names that could stay behind: each lives as long as its *keeper*, a process that ends when
//! this one does, however that happens. What else runs in a host is killed when the [`Hosts`] are dropped; what a
//! killed test run left running is found by a mark in its environment when the next [`Hosts`] are made.

mod keeper;
mod wire;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{leftovers, processes};
use keeper::Keeper;
use wire::Wire;

/// The environment variable that marks what runs in the hosts.
pub(crate) const MARK: &str = svmio_leftovers::HOSTS_MARK;

/// The environment variable that, set to anything, has remote shells carry no environment, as `ssh` does.
pub const BARE_SHELL: &str = "SVMIO_TESTS_BARE_SHELL";

/// How fast a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the machine is.
    Unlimited,
    /// So many megabits per second, each way. What comes after a pause passes at once, up to 128 KiB of it.
    Megabits(u32),
    /// The same also for what comes after a pause, but for 16 KiB of it. Costs more of the processor.
    EvenMegabits(u32),
}

/// Hosts on this machine. Dropping them ends them and all that runs in them.
#[derive(Debug)]
pub struct Hosts {
    // In this order: it carries packets while there are networks.
    wire: Option<Wire>,
    switch: Keeper,
    hosts: Vec<Keeper>,
    mark: String,
    directory: tempfile::TempDir,
}

impl Hosts {
    /// Makes `count` of them, at most 100, with links of unlimited rate.
    ///
    /// # Panics
    /// Where this process is not root's, or a tool is missing; says what to do.
    pub fn new(count: usize) -> Hosts {
        Hosts::linked(count, None)
    }

    /// The same; on the link of the first one, packets take `delay` each way, as they do on the way through network
    /// cards and a switch, and otherwise not here. What carries them is threads of this process, which take some of
    /// its processors' time.
    ///
    /// # Panics
    /// As [`Hosts::new`].
    pub fn with_delay(count: usize, delay: Duration) -> Hosts {
        Hosts::linked(count, Some(delay))
    }

    fn linked(count: usize, delay: Option<Duration>) -> Hosts {
        assert!((1..=100).contains(&count), "{count} hosts on one bridge");
        demand_tools();
        leftovers::remove();
        let mark = leftovers::own_mark();
        let directory = leftovers::directory();
        let switch = Keeper::of_network(&mark);
        let hosts: Vec<_> = (0..count).map(|host| Keeper::of_host(&name(host), &mark)).collect();
        let wire = delay.map(|delay| Wire::between([(hosts[0].id(), "eth0"), (switch.id(), "v0")], delay));
        let hosts = Hosts { wire, switch, hosts, mark, directory };
        hosts.connect();
        hosts
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// A host's address.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        assert!(host < self.count(), "there is no host {host}");
        address(host)
    }

    /// The name that a host has for itself.
    pub fn name(&self, host: usize) -> String {
        assert!(host < self.count(), "there is no host {host}");
        name(host)
    }

    /// The switch's address, under which the hosts reach what runs [`outside`](Self::outside).
    pub fn outside_address(&self) -> Ipv4Addr {
        SWITCH
    }

    /// `program`, to be run in a host, in the working directory of this process.
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut words = self.prefix(host).into_iter();
        let mut command = Command::new(words.next().expect("a prefix has a first word"));
        command.args(words).arg(program);
        command
    }

    /// The words to put before a program and its arguments, so that it runs in a host. The process is the one that
    /// is started with these words: its id is the program's.
    pub fn prefix(&self, host: usize) -> Vec<OsString> {
        let mark = format!("{MARK}={}", self.mark);
        let enter = self.hosts[host].entry(&["--net", "--uts", "--ipc", "--mount"]);
        enter.into_iter().chain(["env".into(), mark.into()]).collect()
    }

    /// `program`, to be run beside the hosts: on the machine itself, but with the switch's network. Launchers of
    /// MPI jobs are run so.
    ///
    /// The working directory is this process's.
    pub fn outside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut words = self.switch.entry(&["--net"]).into_iter();
        let mut command = Command::new(words.next().expect("an entry has a first word"));
        command.args(words).arg(program).env(MARK, &self.mark);
        command
    }

    /// A program to be given to MPI launchers in the place of `rsh`: `PROGRAM [OPTIONS] HOST COMMAND...` runs the
    /// command in the host of that address or name, with the environment that it has itself, or with next to nothing
    /// of it where that has [`BARE_SHELL`].
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn remote_shell(&self) -> PathBuf {
        let path = self.directory.path().join("hx");
        let mut text = String::from(
            "#!/bin/sh\nwhile :; do case $1 in -l) shift 2;; -*) shift;; *) break;; esac; done\n",
        );
        text.push_str("host=$1; shift\ncase $host in\n");
        for (host, keeper) in self.hosts.iter().enumerate() {
            let (name, address, id) = (name(host), address(host), keeper.id());
            text.push_str(&format!("{address}|{name}) keeper={id};;\n"));
        }
        text.push_str("*) echo \"hx: there is no host $host\" >&2; exit 1;;\nesac\n");
        text.push_str("exec nsenter --target $keeper --net --uts --ipc --mount --wd=\"$PWD\" -- ");
        text.push_str(&format!("env ${{{BARE_SHELL}:+-i PATH=\"$PATH\"}} "));
        text.push_str(&format!("{MARK}={} /bin/sh -c \"$*\"\n", self.mark));
        write_program(&path, &text);
        path
    }

    /// Sets the rate of a host's link.
    pub fn set_rate(&self, host: usize, rate: Rate) {
        let shaped = |rate: u32, burst: &str| {
            let bucket = format!("root tbf rate {rate}mbit burst {burst} latency 50ms");
            (format!("qdisc replace dev eth0 {bucket}"), format!("qdisc replace dev v{host} {bucket}"))
        };
        let (out, into) = match rate {
            Rate::Unlimited => ("qdisc del dev eth0 root".into(), format!("qdisc del dev v{host} root")),
            Rate::Megabits(rate) => shaped(rate, "128kb"),
            Rate::EvenMegabits(rate) => shaped(rate, "16kb"),
        };
        self.hosts[host].configure("tc", &[out]);
        self.switch.configure("tc", &[into]);
    }

    /// Pulls a host's cable.
    pub fn cut(&self, host: usize) {
        self.switch.configure("ip", &[format!("link set v{host} down")]);
    }

    /// Plugs it in again, and waits until it reaches all others.
    ///
    /// # Panics
    /// Where it does not within a minute.
    pub fn restore(&self, host: usize) {
        self.switch.configure("ip", &[format!("link set v{host} up")]);
        let others = (0..self.count()).filter(|other| *other != host).map(address);
        let deadline = Instant::now() + Duration::from_secs(60);
        for other in others.chain([SWITCH]) {
            while !self.reaches(host, other) {
                assert!(Instant::now() < deadline, "{} does not reach {other}", name(host));
            }
        }
    }

    /// Whether a host gets an answer from an address: that nobody listens there. Who is asked knows the way back then.
    fn reaches(&self, host: usize, other: Ipv4Addr) -> bool {
        const UNUSED_PORT: u16 = 1;
        let mut shell = self.command(host, "bash");
        shell.env("LC_ALL", "C").args(["-c", &format!("exec 3<>/dev/tcp/{other}/{UNUSED_PORT}")]);
        let output = shell.output().unwrap_or_else(|error| panic!("starting {shell:?}: {error}"));
        String::from_utf8_lossy(&output.stderr).contains("Connection refused")
    }

    /// Where a host's file is for those who are not in that host, such as this process; as long as the host is there.
    ///
    /// # Panics
    /// Where the path is not absolute.
    pub fn path_from_outside(&self, host: usize, path: &Path) -> PathBuf {
        assert!(host < self.count(), "there is no host {host}");
        let below = path.strip_prefix("/").expect("a path in a host is absolute");
        PathBuf::from(format!("/proc/{}/root", self.hosts[host].id())).join(below)
    }

    /// What a host's own `/dev/shm` holds.
    ///
    /// # Panics
    /// Where it cannot be read.
    pub fn shared_memory_files(&self, host: usize) -> Vec<PathBuf> {
        let root = self.path_from_outside(host, Path::new("/dev/shm"));
        let entries = fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        entries.map(|entry| entry.expect("the directory can be read").file_name().into()).collect()
    }

    /// The Unix sockets of a host, as the lines of its `/proc/net/unix`.
    ///
    /// # Panics
    /// Where they cannot be read.
    pub fn unix_sockets(&self, host: usize) -> Vec<String> {
        let path = format!("/proc/{}/net/unix", self.hosts[host].id());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// The ids of the processes that run in a host.
    pub fn processes(&self, host: usize) -> Vec<i32> {
        self.hosts[host].processes()
    }

    fn connect(&self) {
        let bridge = ["link set lo up", "link add br0 type bridge", "link set br0 up"];
        let mut lines: Vec<_> = bridge.map(String::from).into();
        lines.push(format!("addr add {SWITCH}/24 dev br0"));
        for (host, keeper) in self.hosts.iter().enumerate() {
            if host > 0 || self.wire.is_none() {
                lines.push(format!("link add v{host} type veth peer name eth0 netns {}", keeper.id()));
            }
            lines.push(format!("link set v{host} master br0 up"));
        }
        self.switch.configure("ip", &lines);
        for (host, keeper) in self.hosts.iter().enumerate() {
            let own = format!("addr add {}/24 dev eth0", address(host));
            keeper.configure("ip", &[own, "link set eth0 up".into(), "link set lo up".into()]);
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let all = self.hosts.iter().chain([&self.switch]);
        let running: Vec<_> = all.flat_map(Keeper::processes).collect();
        processes::kill_all(&running);
    }
}

const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(host + 1).expect("at most 100 hosts"))
}

fn name(host: usize) -> String {
    format!("svm{host}")
}

fn write_program(path: &Path, text: &str) {
    let done =
        fs::write(path, text).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    done.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Says what is missing, before something else fails for want of it.
fn demand_tools() {
    assert!(rustix::process::geteuid().is_root(), "tests with several hosts must run as root");
    for (tool, package) in
        [("ip", "iproute2"), ("tc", "iproute2"), ("nsenter", "util-linux"), ("unshare", "util-linux")]
    {
        let found = Command::new(tool).arg("-V").output();
        assert!(
            found.is_ok(),
            "tests with several hosts need '{tool}': install the package {package} (apt-get install {package})"
        );
    }
}

#[cfg(test)]
mod tests;
