//! What a host says beside its answers: passed on with the host's name, and the last of it remembered.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use svmio_transport::spawn_service_thread;

/// What somebody said so far, line by line.
#[derive(Debug, Default)]
pub(super) struct Words {
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    last: Option<String>,
    has_ended: bool,
}

impl Words {
    /// Listens to `source` until it ends, and passes lines on with the host's name.
    ///
    /// # Errors
    /// What keeps a thread from being started.
    pub(super) fn of(
        host: &str,
        source: impl Read + Send + 'static,
        pass_on: fn(host: &str, line: &str),
    ) -> io::Result<Arc<Words>> {
        let words = Arc::new(Words::default());
        let (listener, host) = (Arc::clone(&words), host.to_owned());
        let listen = move || listener.listen(source, |line| pass_on(&host, line));
        // The program's signals are served by its own threads.
        spawn_service_thread("svmio-words", listen).map_err(io::Error::other)?;
        Ok(words)
    }

    /// The last line that says anything, once no more is to come, or none has for `patience`.
    pub(super) fn last(&self, patience: Duration) -> Option<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(said, patience, |said| !said.has_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.last.clone()
    }

    fn listen(&self, source: impl Read, pass_on: impl Fn(&str)) {
        /// A line is cut there.
        const LONGEST: u64 = 4096;
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while matches!(source.by_ref().take(LONGEST).read_until(b'\n', &mut line), Ok(1..)) {
            let text = printable(&line);
            line.clear();
            if !text.is_empty() {
                pass_on(&text);
                self.said.lock().unwrap_or_else(PoisonError::into_inner).last = Some(text);
            }
        }
        self.said.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
        self.changed.notify_all();
    }
}

/// A line without what a terminal would take for commands.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_last_line_is_remembered_and_all_are_passed_on() {
        let (words, passed) = (Words::default(), RefCell::new(Vec::new()));
        let long = "x".repeat(5000);
        let said = format!("one\n\n{long}\n\x1b[2Jtwo \r\n\n");
        words.listen(said.as_bytes(), |line| passed.borrow_mut().push(line.to_owned()));
        assert_eq!(words.last(Duration::ZERO).as_deref(), Some("?[2Jtwo"));
        assert_eq!(passed.into_inner(), ["one", &long[..4096], &long[4096..], "?[2Jtwo"]);
    }

    #[test]
    fn who_goes_on_is_not_waited_for_for_ever() {
        assert_eq!(Words::default().last(Duration::from_millis(1)), None);
    }
}
