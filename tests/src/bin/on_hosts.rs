//! `on_hosts COUNT PROGRAM [ARGUMENTS]...`: runs a program beside so many hosts, which are gone when it ends.
//!
//! It runs on the machine itself, with the switch's network, and finds in its environment how to reach the hosts: what
//! launchers of MPI jobs need, or a person at a shell.

use std::ffi::OsString;
use std::process::ExitCode;

use svmio_tests::Hosts;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let count = words.next().and_then(|count| count.to_str()?.parse().ok());
    let (Some(count), Some(program)) = (count, words.next()) else {
        eprintln!("usage: on_hosts COUNT PROGRAM [ARGUMENTS]...");
        return ExitCode::from(2);
    };
    let hosts = Hosts::new(count);
    let addresses: Vec<String> = (0..count).map(|host| hosts.address(host).to_string()).collect();
    let mut command = hosts.outside(&program);
    command.args(words);
    // In place of rsh: REMOTE_SHELL HOST COMMAND...
    command.env("SVMIO_TESTS_REMOTE_SHELL", hosts.remote_shell());
    command.env("SVMIO_TESTS_ADDRESSES", OsString::from(addresses.join(",")));
    command.env("SVMIO_TESTS_LAUNCHER_ADDRESS", hosts.outside_address().to_string());
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("on_hosts: {}: {error}", program.display());
            ExitCode::from(127)
        }
    }
}
