//! The line with which whoever serves a store begins: that it is svmio, and which.
//!
//! Remote shells and badly kept start-up files say something of their own at times, so it is read as a line of text
//! that may be any.

use std::io::{self, Read, Write};

const PREFIX: &str = "svmio-store ";

/// Questions and answers as this release has them. It rises with each change of what either side sends.
const PROTOCOL: u32 = 8;

/// The release of svmio.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Longer than any greeting.
const LONGEST: usize = 128;

/// Says who serves.
///
/// # Errors
/// What keeps it from being written.
pub(super) fn send(to: &mut impl Write) -> io::Result<()> {
    to.write_all(format!("{PREFIX}{PROTOCOL:02} {RELEASE}\n").as_bytes())
}

/// Reads a greeting, and nothing beyond it.
///
/// # Errors
/// That of `from`; [`io::ErrorKind::UnexpectedEof`] where nothing comes at all, or only the beginning of a greeting.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LONGEST {
        match from.read_exact(&mut byte) {
            Ok(()) => line.push(byte[0]),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && !may_be_one(&line) => break,
            Err(e) => return Err(e),
        }
        if byte[0] == b'\n' {
            break;
        }
    }
    Ok(line)
}

fn may_be_one(line: &[u8]) -> bool {
    line.starts_with(PREFIX.as_bytes()) || PREFIX.as_bytes().starts_with(line)
}

/// That `line` is the greeting of this very svmio.
///
/// # Errors
/// Says what it is instead, and what to do.
pub(super) fn check(line: &[u8]) -> Result<(), String> {
    let said = String::from_utf8_lossy(line);
    let said = said.trim_end();
    let Some((protocol, release)) = said.strip_prefix(PREFIX).and_then(versions) else {
        return Err(format!(
            "what answered is not svmio, it began with {said:?}: see that svmio is at the same path there as here, and \
             that shells print nothing when they start a program"
        ));
    };
    if (protocol, release) == (PROTOCOL, Some(RELEASE)) {
        return Ok(());
    }
    let release = release.map_or("an older svmio".into(), |release| format!("svmio {release:?}"));
    Err(format!(
        "{release} answers there, with version {protocol} of the protocol, and this is svmio {RELEASE:?} with \
         version {PROTOCOL}: install the same svmio on all hosts"
    ))
}

/// The protocol's version and the release; the first one did not tell the latter.
fn versions(said: &str) -> Option<(u32, Option<&str>)> {
    let mut words = said.split(' ');
    let protocol = words.next()?.parse().ok()?;
    Some((protocol, words.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_understood_by_itself_alone() {
        let mut sent = Vec::new();
        send(&mut sent).unwrap();
        sent.extend(b"more");
        let mut rest = &sent[..];
        assert_eq!(check(&receive(&mut rest).unwrap()), Ok(()));
        assert_eq!(rest, b"more");
        for (other, words) in [
            (&b"svmio-store 01\n"[..], &["an older svmio", "version 1 of", "version 8:"][..]),
            (
                b"svmio-store 77 9.8.7\n",
                &["svmio \"9.8.7\"", "version 77", RELEASE, "version 8:", "install the same"],
            ),
            (b"svmio-store 08 9.8.7\n", &["svmio \"9.8.7\"", RELEASE]),
            (b"Welcome\n", &["is not svmio", "\"Welcome\""]),
            (b"svmio-store \xff\x1b[2J\n", &["is not svmio", "\\u{1b}"]),
        ] {
            let message = check(&receive(&mut &other[..]).unwrap()).unwrap_err();
            for word in words {
                assert!(message.contains(word), "{word:?} in {message}");
            }
        }
        assert!(receive(&mut &[b'x'; 1000][..]).unwrap().len() == LONGEST);
        assert!(receive(&mut &b""[..]).is_err());
        assert!(receive(&mut &b"svmio-st"[..]).is_err());
        assert_eq!(receive(&mut &b"No such file"[..]).unwrap(), b"No such file");
    }
}
