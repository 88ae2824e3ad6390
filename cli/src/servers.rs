//! Hosts beside a job that its processes may ask for files: what these are told of them.

use std::io;
use std::path::PathBuf;

use svmio_svm::staging::Servers;

/// What processes are to be told of it: this program, which is at the same path there. `None` where the user tells them,
/// or there are no hosts to be asked; `by_option` says that there are.
///
/// # Errors
/// What the operating system says where it does not know this program.
pub(crate) fn program(by_option: bool) -> io::Result<Option<PathBuf>> {
    let is_told = |variable| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    if is_told(Servers::PROGRAM_VARIABLE) || !(by_option || is_told(Servers::VARIABLE)) {
        return Ok(None);
    }
    std::env::current_exe().map(Some)
}
