use std::process::Command;

use super::{BARE_SHELL, Hosts, Rate};

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn hosts_are_different_machines_to_those_who_look() {
    let hosts = Hosts::new(2);
    let boot_id = |host| output(hosts.command(host, "cat").arg("/proc/sys/kernel/random/boot_id"));
    assert_ne!(boot_id(0), boot_id(1));
    assert_eq!(output(&mut hosts.command(1, "hostname")), "svm1");
    output(hosts.command(0, "touch").arg("/dev/shm/of-host-0"));
    assert_eq!(hosts.shared_memory_files(0), ["of-host-0".as_ref() as &std::path::Path]);
    assert!(hosts.shared_memory_files(1).is_empty());
    assert!(hosts.path_from_outside(0, std::path::Path::new("/dev/shm/of-host-0")).is_file());
    assert!(!std::path::Path::new("/dev/shm/of-host-0").exists());
    let shell = hosts.remote_shell();
    let remote = output(hosts.outside(shell).args(["-l", "root", "-x", "10.77.0.2", "hostname;", "pwd"]));
    assert_eq!(remote, format!("svm1\n{}", std::env::current_dir().unwrap().display()));
}

#[test]
fn a_remote_shell_carries_the_environment_unless_told_not_to() {
    let hosts = Hosts::new(1);
    let shell = hosts.remote_shell();
    let remote = |variables: &[(&str, &str)]| {
        let mut command = hosts.outside(&shell);
        command.env("CARRIED", "yes").envs(variables.iter().copied());
        output(command.args(["svm0", "echo ${CARRIED:-no}"]))
    };
    assert_eq!((remote(&[]), remote(&[(BARE_SHELL, "1")])), ("yes".to_owned(), "no".to_owned()));
}

#[test]
fn launchers_of_both_mpis_start_programs_in_hosts() {
    let hosts = Hosts::new(2);
    let list = [hosts.address(0).to_string(), hosts.address(1).to_string()].join(",");
    let shell = hosts.remote_shell();
    let outside = hosts.outside_address().to_string();
    let mut mpich = hosts.outside("mpiexec.mpich");
    mpich.args(["-localhost", &outside, "-launcher", "rsh", "-launcher-exec"]).arg(&shell);
    mpich.args(["-hosts", &list, "-ppn", "1", "-n", "2", "hostname"]);
    let mut open_mpi = hosts.outside("mpirun.openmpi");
    open_mpi.args(["--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent"]).arg(&shell);
    open_mpi.args(["--mca", "oob_tcp_if_include", "10.77.0.0/24", "--host", &list]);
    open_mpi.args(["--map-by", "node", "-np", "2", "hostname"]);
    for mut launcher in [mpich, open_mpi] {
        let text = output(&mut launcher);
        let mut names: Vec<_> = text.lines().collect();
        names.sort();
        assert_eq!(names, [hosts.name(0), hosts.name(1)], "{launcher:?}");
    }
}

#[test]
fn hosts_reach_each_other_until_a_link_is_cut() {
    let hosts = Hosts::new(2);
    hosts.set_rate(1, Rate::Megabits(100));
    let reaches = |from, to, seconds: u32| {
        let address = hosts.address(to).to_string();
        // A connection to a port where nobody listens is refused at once where the host is there.
        let mut command = hosts.command(from, "bash");
        let script = format!("timeout {seconds} bash -c 'exec 3<>/dev/tcp/{address}/9' 2>&1; true");
        output(command.args(["-c", &script])).contains("refused")
    };
    // Only where it is cut does that take its time; a machine with much else to do may take more than a moment.
    assert!(reaches(0, 1, 30));
    hosts.cut(1);
    assert!(!reaches(0, 1, 1));
    hosts.restore(1);
    hosts.set_rate(1, Rate::Unlimited);
    assert!(reaches(0, 1, 30) && reaches(1, 0, 30));
}

#[test]
fn a_long_cable_takes_its_time_each_way() {
    let delay = std::time::Duration::from_millis(50);
    let hosts = Hosts::with_delay(2, delay);
    let way_and_back = |from, to| {
        let address = hosts.address(to).to_string();
        let script = format!("exec 3<>/dev/tcp/{address}/9");
        let took = || {
            let began = std::time::Instant::now();
            // Refused by the other host: that takes the way and back.
            let output = hosts.command(from, "bash").args(["-c", &script]).output().unwrap();
            assert!(String::from_utf8_lossy(&output.stderr).contains("refused"), "{output:?}");
            began.elapsed()
        };
        // Who is asked knows the way back from then on.
        took();
        took()
    };
    assert!(way_and_back(0, 1) >= 2 * delay && way_and_back(1, 0) >= 2 * delay);
    hosts.set_rate(0, Rate::Megabits(1000));
    assert!(way_and_back(0, 1) >= 2 * delay);
}

#[test]
fn nothing_of_the_hosts_is_left_when_they_are_dropped() {
    let hosts = Hosts::new(1);
    let mut child = hosts.command(0, "sleep").arg("infinity").spawn().unwrap();
    let id = i32::try_from(child.id()).unwrap();
    // Until it has become the program that was asked for, it is not in the host.
    while !hosts.processes(0).contains(&id) {
        std::thread::yield_now();
    }
    let shell = hosts.remote_shell();
    drop(hosts);
    assert!(!child.wait().unwrap().success());
    assert!(!shell.exists());
}
