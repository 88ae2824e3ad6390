//! `setsid`, so that the ranks of a node share one scheduler autogroup.

use libc::pid_t;

use crate::sys;

/// The name that the kernel shows for hydra's proxy (15 characters, the most that it keeps).
const HYDRA_PROXY: &[u8] = b"hydra_pmi_proxy";

/// Stands in front of the C library's function of the same name.
///
/// In the process that hydra's proxy has forked for a rank, before the rank's program replaces it, it
/// makes the process a process group's leader instead of a session's: hydra only needs the group (it
/// sends signals to it), and the proxy itself has a session of its own, so the rank still has no
/// terminal. Everywhere else it is the usual `setsid`, the launcher and the ranks' programs included.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn setsid() -> pid_t {
    if sys::process_name().starts_with(HYDRA_PROXY) {
        sys::become_process_group_leader()
    } else {
        sys::real_setsid()
    }
}
