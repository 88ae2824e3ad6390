//! What programs have stored into mapped pages, which nobody but the kernel knows of until it writes them.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long the end of the mount waits for them, at most: who asked for the end may kill the process soon.
const LIMIT: Duration = Duration::from_secs(30);

/// Has the kernel write the pages of these files, which are in the mounted directory. It asks this process to take them,
/// whose other threads have to go on answering meanwhile.
pub(super) fn bring_in(files: BTreeSet<PathBuf>) {
    if files.is_empty() {
        return;
    }
    let (done, end) = channel::<()>();
    let bring_in = move || {
        for file in files {
            // Of a file that has lost its name nothing stays anyway.
            if let Err(error) = File::open(&file).and_then(|file| file.sync_all()) {
                let path = file.display();
                tracing::warn!(
                    "what was stored into mapped memory of {path} may be missing in the store: {error}"
                );
            }
        }
        drop(done);
    };
    // Not here: it would be waited for without an end where no thread answers any more.
    let bringing = thread::Builder::new().name("svmio-mapped".into()).spawn(bring_in);
    if let Err(error) = bringing {
        tracing::warn!("what was stored into mapped memory may be missing in the store: {error}");
    }
    if end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!(
            "what was stored into mapped memory may be missing in the store: it takes over {LIMIT:?}"
        );
    }
}
