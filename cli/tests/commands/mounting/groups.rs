//! Signals to the group of who has mounted something, and who of it may read from the terminal.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::getpgid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Mounted, need_fuse};
use crate::hosts::Hosts;
use crate::setting::{PROGRAM, noise, text};

#[test]
fn a_signal_to_the_group_of_who_has_mounted_files_of_other_hosts_ends_nothing() {
    let hosts = Hosts::new();
    let content = noise(500_000, 11);
    hosts.nodes.put("/d/file", &content);
    let mut shell = Command::new("setsid");
    shell.args(["sh", "-c", "trap : INT; \"$@\" || exit; kill -s INT 0", "sh", PROGRAM]);
    let mut command = hosts.nodes.setting.with_store(shell);
    command.env_remove("SVMIO_STORE").env("SVMIO_RSH", hosts.nodes.setting.outside("rsh"));
    let options = ["--names", "/", "--hosts", "a,b,c"];
    let mounted = Mounted::by(&hosts.nodes.setting, "mounted", &mut command, &options);
    for host in ["a", "b", "c"] {
        let process = hosts.process(host);
        assert_eq!(getpgid(Some(process)), Ok(process), "it is of the group of who has mounted it");
    }
    assert!(fs::read(mounted.path("d/file")).unwrap() == content);
}

#[test]
fn what_starts_commands_on_hosts_may_ask_at_the_terminal_where_something_is_mounted() {
    need_fuse();
    let hosts = Hosts::new();
    let setting = &hosts.nodes.setting;
    let asking = setting.outside("asking");
    let script =
        "#!/bin/sh\nread word </dev/tty && [ \"$word\" = password ] && exec \"${0%asking}rsh\" \"$@\"\n";
    fs::write(&asking, script).unwrap();
    fs::set_permissions(&asking, fs::Permissions::from_mode(0o755)).unwrap();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let end = rustix::fs::open(ptsname(&terminal, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
    fs::File::from(terminal.try_clone().unwrap()).write_all(b"password\n").unwrap();

    let point = setting.outside("mounted");
    fs::create_dir(&point).unwrap();
    let mounted = Mounted { point };
    let mut shell = Command::new("setsid");
    shell.args(["--ctty", PROGRAM, "mount", "--names", "/", "--hosts", "a"]).arg(&mounted.point);
    let mut command = setting.with_store(shell);
    command.env_remove("SVMIO_STORE").env("SVMIO_RSH", &asking).env("SVMIO_HOSTS_TIMEOUT", "20s");
    let output = command.stdin(Stdio::from(end)).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
