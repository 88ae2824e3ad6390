//! The options by which launchers start ranks on hosts.

use std::ffi::OsString;

use crate::hosts::Hosts;
use crate::job::Files;
use crate::mpi::Mpi;

/// What `svmio run`, or the MPI's own launcher, needs so that `ranks` ranks are dealt out to the hosts one by one,
/// from host `first` on. Launchers are run [outside](Hosts::outside) of them.
///
/// # Panics
/// Where the MPI is none of the system's: the others are not tried on hosts.
pub(crate) fn on_hosts(hosts: &Hosts, first: usize, mpi: Mpi, files: Files, ranks: u32) -> Vec<OsString> {
    let shell = hosts.remote_shell().into_os_string();
    let count = hosts.count();
    let addresses: Vec<String> =
        (first..first + count).map(|host| hosts.address(host % count).to_string()).collect();
    let list = addresses.join(",");
    let outside = hosts.outside_address().to_string();
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut options = match mpi {
        Mpi::DebianMpich => words(&["-localhost", &outside, "-launcher", "rsh", "-launcher-exec"]),
        Mpi::DebianOpenMpi => {
            let network = format!("{outside}/24");
            words(&["--mca", "oob_tcp_if_include", &network, "--mca", "plm_rsh_agent"])
        }
        Mpi::WheelMpich | Mpi::WheelOpenMpi => panic!("{mpi} is not run on several hosts"),
    };
    options.push(shell);
    options.extend(match (files, mpi) {
        (Files::Svmio, _) => words(&["--hosts", &list]),
        (Files::Stock, Mpi::DebianMpich) => words(&["-hosts", &list]),
        (Files::Stock, _) => {
            let slots = ranks as usize / hosts.count() + 1;
            let list: Vec<_> = addresses.iter().map(|address| format!("{address}:{slots}")).collect();
            words(&["--host", &list.join(","), "--map-by", "node"])
        }
    });
    options
}
