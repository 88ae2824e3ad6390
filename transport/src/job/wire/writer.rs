//! Frames into bytes.

use std::net::IpAddr;

use super::{
    Entry, Frame, Hello, LARGEST_FABRIC, LARGEST_NODE, LARGEST_TEXT, MAGIC, Purpose, Registration, VERSION,
};

impl Frame {
    /// Appends the frame to `to`. Texts that are too long are cut.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend([0; 4]);
        self.write_body(to);
        let length = (to.len() - start - 4) as u32;
        to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn write_body(&self, to: &mut Vec<u8>) {
        match self {
            Self::Challenge { nonce } => {
                to.push(0);
                write_opening(to);
                to.extend(nonce.0);
            }
            Self::Hello { hello, nonce, proof } => {
                to.push(1);
                write_opening(to);
                to.extend(nonce.0);
                to.extend(proof.0);
                hello.encode(to);
            }
            Self::Welcome { proof } => {
                to.push(2);
                to.extend(proof.0);
            }
            Self::Refusal { problem } => write_text(to, 3, problem),
            Self::Table(entries) => {
                to.push(4);
                to.extend((entries.len() as u32).to_le_bytes());
                entries.iter().for_each(|entry| write_entry(to, entry));
            }
            Self::Failed { problem } => write_text(to, 5, problem),
            Self::Heartbeat => to.push(6),
            Self::Lost { rank, reason, had_finished } => {
                to.push(7);
                to.extend(rank.0.to_le_bytes());
                to.push(u8::from(*had_finished));
                write_bytes(to, cut(reason, LARGEST_TEXT).as_bytes());
            }
            Self::Finished { rank } => {
                to.push(8);
                to.extend(rank.0.to_le_bytes());
            }
            Self::Ending { reason, signal } => {
                to.extend([9, signal.unwrap_or(0)]);
                write_bytes(to, cut(reason, LARGEST_TEXT).as_bytes());
            }
            Self::Lead => to.push(10),
            Self::Leave { reason } => write_text(to, 11, reason),
            Self::Farewell => to.push(12),
            Self::Expelled { reason } => write_text(to, 13, reason),
            Self::Abandoned { reason } => write_text(to, 14, reason),
            Self::Knock { rank, process } => {
                to.push(15);
                write_opening(to);
                to.extend(rank.0.to_le_bytes());
                to.extend(process.to_le_bytes());
            }
        }
    }
}

impl Hello {
    /// Appends the bytes that are proved as well as sent.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend(self.rank.0.to_le_bytes());
        to.extend(self.size.to_le_bytes());
        match &self.purpose {
            Purpose::Register(Registration { process, fabric, entry, problem }) => {
                to.push(0);
                to.extend(process.to_le_bytes());
                write_bytes(to, cut(fabric, LARGEST_FABRIC).as_bytes());
                write_entry(to, entry);
                to.push(u8::from(problem.is_some()));
                if let Some(problem) = problem {
                    write_bytes(to, cut(problem, LARGEST_TEXT).as_bytes());
                }
            }
            Purpose::Follow => to.push(1),
            Purpose::Probe => to.push(2),
        }
    }
}

fn write_opening(to: &mut Vec<u8>) {
    to.extend(MAGIC);
    to.extend(VERSION.to_le_bytes());
}

fn write_text(to: &mut Vec<u8>, kind: u8, text: &str) {
    to.push(kind);
    write_bytes(to, cut(text, LARGEST_TEXT).as_bytes());
}

fn write_entry(to: &mut Vec<u8>, entry: &Entry) {
    write_bytes(to, cut(&entry.node, LARGEST_NODE).as_bytes());
    match entry.control.ip() {
        IpAddr::V4(ip) => {
            to.push(4);
            to.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            to.push(6);
            to.extend(ip.octets());
        }
    }
    to.extend(entry.control.port().to_le_bytes());
    write_bytes(to, &entry.address);
}

fn write_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u32).to_le_bytes());
    to.extend(bytes);
}

fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
