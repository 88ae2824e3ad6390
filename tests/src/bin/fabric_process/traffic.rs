//! Messages of all protocols between all, and writes, chains, additions and reads in each other's segments, until a
//! peer is lost and every survivor knows it.
//!
//! In each round every rank does its part in every other's segment, and sends it a header and a message. The header
//! tells whether its sender knows of a loss; when all who are left do, all end after the same round. So the survivors go
//! on with each other for a while, whatever the lost one was in the middle of.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use svmio_tests::Random;
use svmio_tests::fabric_job::now;
use svmio_transport::job::Job;
use svmio_transport::message::{Messenger, Mode, Port, Request};
use svmio_transport::{Capabilities, Dma, Error, Rank, Result};

use crate::pattern::{first_wrong, message};
use crate::reports::Reports;
use crate::segments::{Segments, Wrong};

/// The number of the round, and whether the sender knows of a loss.
const HEADER: usize = 16;

/// Under way is who has done so many rounds, unless another number is asked for: then all are connected.
const READY: u64 = 2;

/// `traffic SEED [ROUNDS [READY]]`.
pub(crate) fn run(job: Job, reports: &Reports, words: &[&str]) -> Value {
    let number = |at: usize| words.get(at).map(|word| word.parse::<u64>().expect("a number"));
    let seed = number(0).expect("traffic SEED [ROUNDS [READY]]");
    let limit = number(1).unwrap_or(u64::MAX);
    let ready = number(2).unwrap_or(READY);
    if ready == 0 {
        reports.ready();
    }
    let messages = &job.settings().messages;
    let messenger = Messenger::open(job.fabric(), Port::FIRST, messages).expect("a port can be opened");
    let mut segments = Segments::new(job.fabric(), seed);
    let mut traffic = Traffic {
        messenger: &messenger,
        segments: &mut segments,
        rank: job.rank(),
        modes: modes(job.fabric().capabilities()),
        seed,
        peers: job.membership().ranks().filter(|rank| *rank != job.rank()).collect(),
        losses: BTreeMap::new(),
        ending: None,
        unexpected: Vec::new(),
    };
    let mut rounds = 0;
    while rounds < limit {
        let is_over = traffic.round(rounds);
        rounds += 1;
        if rounds == ready {
            reports.ready();
        }
        if is_over {
            break;
        }
    }
    let Traffic { losses, ending, unexpected, .. } = traffic;
    let statistics = job.fabric().statistics();
    drop(messenger);
    let finish = if unexpected.is_empty() {
        job.finish().err().map(|error| error.to_string())
    } else {
        // The others are told that this process is lost, and do not wait for it.
        drop(job);
        Some("it did not finish".into())
    };
    // Until now others may have been writing there.
    drop(segments);
    let losses: Vec<_> = losses
        .into_iter()
        .map(|(rank, noticed)| json!({ "rank": rank, "error": noticed.error, "at": noticed.at }))
        .collect();
    json!({
        "rounds": rounds,
        "losses": losses,
        "ending": ending.map(|noticed| json!({ "error": noticed.error, "at": noticed.at })),
        "unexpected": unexpected,
        "statistics": statistics,
        "finish": finish,
    })
}

/// Which modes this fabric has.
fn modes(capabilities: &Capabilities) -> Vec<Mode> {
    let mut modes = vec![Mode::Automatic, Mode::Short, Mode::Eager, Mode::RendezvousStores];
    if capabilities.dma != Dma::None {
        modes.push(Mode::RendezvousStaged);
        if capabilities.registers_user_memory {
            modes.extend([Mode::RendezvousHalfStaged, Mode::RendezvousDirect]);
        }
    }
    modes
}

struct Traffic<'a> {
    messenger: &'a Messenger,
    segments: &'a mut Segments,
    rank: Rank,
    modes: Vec<Mode>,
    seed: u64,
    /// Who is left.
    peers: Vec<Rank>,
    losses: BTreeMap<Rank, Noticed>,
    ending: Option<Noticed>,
    unexpected: Vec<String>,
}

/// What an operation told, and when.
struct Noticed {
    error: String,
    at: u64,
}

/// What is exchanged with one peer in a round.
struct Exchange {
    peer: Rank,
    mode: Mode,
    /// Of the message that comes, as both know it.
    key: u64,
    header: [u8; HEADER],
    message: Vec<u8>,
    header_in: [u8; HEADER],
    message_in: Vec<u8>,
}

impl Traffic<'_> {
    /// One round; true when it was the last.
    fn round(&mut self, round: u64) -> bool {
        let knows = !self.losses.is_empty();
        // Before the messages: who has the last one of a round may look at all that was written in it.
        for (peer, result) in self.segments.round(round, &self.peers) {
            self.judge(round, peer, result);
        }
        let mut exchanges: Vec<_> =
            self.peers.iter().map(|peer| self.exchange(*peer, round, knows)).collect();
        let mut results = Vec::new();
        let (entered, told) = (&mut exchanges, &mut results);
        let scope = self.messenger.scope(move |scope| {
            let mut requests = Vec::new();
            for exchange in entered {
                let Exchange { peer, mode, header, message, header_in, message_in, .. } = exchange;
                let lengths = [HEADER, message_in.len(), HEADER, message.len()];
                let begun = [
                    scope.receive(*peer, header_in),
                    scope.receive(*peer, message_in),
                    scope.send_by(Mode::Short, *peer, header),
                    scope.send_by(*mode, *peer, message),
                ];
                requests
                    .extend(begun.into_iter().zip(lengths).map(|(request, length)| (*peer, request, length)));
            }
            for (peer, request, length) in requests {
                told.push((peer, request.and_then(Request::wait), length));
            }
            Ok(())
        });
        // What the operations told tells more; but nothing may be wrong that none of them told.
        if let Err(error) = scope
            && results.iter().all(|(_, result, _)| result.is_ok())
        {
            self.unexpected
                .push(format!("round {round}: all requests are fine, but not their scope: {error}"));
        }
        for (peer, result, length) in results {
            let result = match result {
                Ok(got) if got == length => Ok(()),
                Ok(got) => Err(Wrong::Gave(format!("{got} bytes for {length}"))),
                Err(error) => Err(Wrong::Failed(error)),
            };
            self.judge(round, peer, result);
        }
        let left = exchanges.iter().filter(|exchange| !self.losses.contains_key(&exchange.peer));
        let mut all_know = knows;
        for exchange in left {
            all_know &= exchange.header_in[8..] == 1_u64.to_ne_bytes();
            let sent_in = u64::from_ne_bytes(exchange.header_in[..8].try_into().expect("eight bytes"));
            let wrong = first_wrong(exchange.key, &exchange.message_in);
            if self.ending.is_none() && (sent_in != round || wrong.is_some()) {
                let Exchange { peer, message_in, .. } = exchange;
                let length = message_in.len();
                self.unexpected.push(format!(
                    "round {round}: from rank {peer} a header of round {sent_in}; of {length} bytes wrong: {wrong:?}"
                ));
            }
            let looked = self.segments.look(round, exchange.peer);
            if let (None, Err(Wrong::Gave(wrong))) = (&self.ending, looked) {
                self.unexpected.push(format!("round {round}, with rank {}: {wrong}", exchange.peer));
            }
        }
        self.peers.retain(|peer| !self.losses.contains_key(peer));
        all_know || self.ending.is_some() || !self.unexpected.is_empty()
    }

    fn exchange(&self, peer: Rank, round: u64, knows: bool) -> Exchange {
        let (key, length, mode) = self.plan(round, self.rank, peer);
        let (key_in, length_in, _) = self.plan(round, peer, self.rank);
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&round.to_ne_bytes());
        header[8..].copy_from_slice(&u64::from(knows).to_ne_bytes());
        Exchange {
            peer,
            mode,
            key: key_in,
            header,
            message: message(key, length),
            header_in: [0; HEADER],
            message_in: vec![0; length_in],
        }
    }

    /// Key, length and mode of the message of one rank to another in a round.
    fn plan(&self, round: u64, from: Rank, to: Rank) -> (u64, usize, Mode) {
        let seed = self.seed << 40 ^ round << 16 ^ u64::from(from.0) << 8 ^ u64::from(to.0);
        let mut random = Random::new(seed);
        let most = [64, 64, 64, 2 << 10, 2 << 10, 40 << 10, 40 << 10, 600 << 10][random.below(8) as usize];
        let length = random.below(most) as usize;
        let mode = self.modes[random.below(self.modes.len() as u64) as usize];
        (random.below(u64::MAX), length, mode)
    }

    fn judge(&mut self, round: u64, peer: Rank, result: Result<(), Wrong>) {
        let error = match result {
            Ok(()) => return,
            Err(Wrong::Gave(wrong)) => {
                self.unexpected.push(format!("round {round}, with rank {peer}: {wrong}"));
                return;
            }
            Err(Wrong::Failed(error)) => error,
        };
        let noticed = Noticed { error: error.to_string(), at: now() };
        match &error {
            Error::Ending { .. } => {
                self.ending.get_or_insert(noticed);
            }
            Error::PeerLost { rank, .. } if *rank == peer => {
                self.losses.entry(peer).or_insert(noticed);
            }
            _ => self.unexpected.push(format!("round {round}, with rank {peer}: {error}")),
        }
    }
}
