//! Messages to peers: posted at once by whoever can wait for room, queued by whoever cannot.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::adapter::{Adapter, Target, Token};
use super::endpoint::{Address, Endpoint, Posted};
use super::peers::{Outgoing, Peer};
use super::questions::Asked;
use super::wire::{self, Header, Message};
use crate::back_end::Piece;
use crate::error::{Error, Result};
use crate::units::Interrupt;

impl Adapter {
    /// Sends a message, as soon as there is room.
    ///
    /// # Errors
    /// `PeerLost`; `Ending`; `Provider` where this process lacks for long what it takes to reach the peer.
    pub(super) fn tell(&self, peer: &Peer, message: &Message<'_>) -> Result<()> {
        self.send(peer, message.is_numbered(), false, message.length(), |header, bytes| {
            message.encode(header, bytes);
        })
    }

    /// Sends an answer from within the reading of completions, where nobody waits: it leaves at once or when there
    /// is room.
    pub(super) fn answer(&self, endpoint: &Endpoint<Token>, peer: &Peer, message: &Message<'_>) {
        let mut outgoing = peer.outgoing();
        if outgoing.is_given_up {
            return;
        }
        let header = self.header(peer, outgoing.sent);
        if outgoing.answers.is_empty() {
            let posted = self.address(endpoint, peer, &mut outgoing).and_then(|address| {
                let fill = |bytes: &mut [u8]| message.encode(&header, bytes);
                endpoint.send(
                    address,
                    message.length(),
                    Token::Message { to: peer.rank, is_numbered: false },
                    fill,
                )
            });
            outgoing.is_short = matches!(posted, Ok(Posted::Short(_)));
            match posted {
                // What is unfit will not leave later. Whoever waits for it asks again, or is told that nothing comes.
                Ok(Posted::Yes | Posted::Unfit(_)) => return,
                Ok(Posted::Busy | Posted::Short(_)) => {}
                Err(error) => {
                    drop(outgoing);
                    self.lose(peer, &error);
                    return;
                }
            }
        }
        self.answer_later(peer, &mut outgoing, message);
    }

    /// Sends an answer when there is room.
    pub(super) fn answer_later(&self, peer: &Peer, outgoing: &mut Outgoing, message: &Message<'_>) {
        let mut bytes = vec![0; message.length()];
        message.encode(&self.header(peer, outgoing.sent), &mut bytes);
        if outgoing.answers.is_empty() {
            outgoing.waits_since = Some(Instant::now());
        }
        outgoing.answers.push_back(bytes);
        self.waiting_answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends what answers there is room for now.
    pub(super) fn send_waiting_answers(&self, endpoint: &Endpoint<Token>) {
        if self.waiting_answers.load(Ordering::Relaxed) == 0 {
            return;
        }
        for peer in &self.peers {
            let mut outgoing = peer.outgoing();
            while let Some(answer) = outgoing.answers.pop_front() {
                let posted = self.address(endpoint, peer, &mut outgoing).and_then(|address| {
                    let fill = |bytes: &mut [u8]| bytes.copy_from_slice(&answer);
                    endpoint.send(
                        address,
                        answer.len(),
                        Token::Message { to: peer.rank, is_numbered: false },
                        fill,
                    )
                });
                outgoing.is_short = matches!(posted, Ok(Posted::Short(_)));
                if matches!(posted, Ok(Posted::Busy | Posted::Short(_))) {
                    outgoing.answers.push_front(answer);
                    break;
                }
                outgoing.waits_since = Some(Instant::now());
                self.waiting_answers.fetch_sub(1, Ordering::Relaxed);
                if let Err(error) = posted {
                    drop(outgoing);
                    self.lose(peer, &error);
                    break;
                }
            }
        }
    }

    /// Writes pieces by messages: in order, in as few as hold them. The last one triggers `interrupt`.
    ///
    /// # Errors
    /// `PeerLost`; `Ending`; `Provider` where this process lacks for long what it takes to reach the peer.
    pub(super) fn write_by_messages(
        &self,
        peer: &Peer,
        target: &Target,
        pieces: &[Piece<'_>],
        interrupt: Option<Interrupt>,
    ) -> Result<()> {
        let room = peer.message_bytes - write_header(interrupt);
        let mut parts: Vec<(u64, &[u8])> = Vec::with_capacity(pieces.len());
        let mut used = 0;
        for piece in pieces {
            let (mut place, mut rest) = (target.memory.place(piece.offset), piece.bytes);
            while !rest.is_empty() {
                // A piece that fits into a message of its own is not divided for the sake of filling this one.
                let wanted = wire::PIECE_HEADER + rest.len().min(room - wire::PIECE_HEADER);
                if used + wanted > room {
                    self.send_write(peer, target, &parts, used, None)?;
                    parts.clear();
                    used = 0;
                }
                let (part, after) = rest.split_at(wanted - wire::PIECE_HEADER);
                parts.push((place, part));
                used += wanted;
                place = place.wrapping_add(part.len() as u64);
                rest = after;
            }
        }
        if parts.is_empty() && interrupt.is_none() {
            return Ok(());
        }
        self.send_write(peer, target, &parts, used, interrupt)
    }

    fn send_write(
        &self,
        peer: &Peer,
        target: &Target,
        parts: &[(u64, &[u8])],
        used: usize,
        interrupt: Option<Interrupt>,
    ) -> Result<()> {
        let length = write_header(interrupt) + used;
        let is_silent = wire::is_silent_write(length, parts.len(), interrupt);
        self.send(peer, true, is_silent, length, |header, bytes| {
            wire::encode_write(header, interrupt, target.memory.key, parts.iter().copied(), bytes);
        })
    }

    /// Returns when the peer has applied all messages that it was sent, or refused them.
    ///
    /// # Errors
    /// As for [`tell`](Self::tell); `TimedOut`.
    pub(super) fn settle(&self, peer: &Peer) -> Result<()> {
        let sent = peer.outgoing().sent;
        if peer.has_applied(sent) {
            return Ok(());
        }
        let (message, limit) = (Message::Barrier, self.settings.answer_limit());
        let asked = Asked { message, doing: "a store barrier with", limit };
        self.ask_again_until(peer, &asked, || peer.has_applied(sent).then_some(()))
    }

    fn send(
        &self,
        peer: &Peer,
        is_numbered: bool,
        is_silent: bool,
        length: usize,
        fill: impl Fn(&Header, &mut [u8]),
    ) -> Result<()> {
        self.insist(peer.rank, || {
            self.with_endpoint(|endpoint| {
                let mut outgoing = peer.outgoing();
                if !is_silent {
                    // The message wakes by arriving. Acquire: it leaves after what has landed.
                    peer.has_landed.swap(false, Ordering::Acquire);
                }
                let number = outgoing.sent + u64::from(is_numbered);
                let header = self.header(peer, number);
                let address = self.address(endpoint, peer, &mut outgoing)?;
                let token = Token::Message { to: peer.rank, is_numbered };
                let posted = endpoint.send(address, length, token, |bytes| fill(&header, bytes));
                match &posted {
                    Ok(Posted::Yes) => {
                        outgoing.sent = number;
                        if is_silent {
                            peer.has_landed.store(true, Ordering::Release);
                        }
                    }
                    Ok(Posted::Busy | Posted::Short(_)) => {}
                    Ok(Posted::Unfit(_)) => {
                        drop(outgoing);
                        // Whoever sends it is told. Should it be over the peer, that is asked.
                        self.doubt(endpoint, peer.rank, None);
                    }
                    Err(error) => {
                        drop(outgoing);
                        self.lose(peer, error);
                        self.membership.check(peer.rank)?;
                    }
                }
                posted
            })
        })
    }

    /// The provider's name for a peer, which it learns when it is first needed.
    ///
    /// # Errors
    /// `PeerLost`; `Provider`.
    pub(super) fn address(
        &self,
        endpoint: &Endpoint<Token>,
        peer: &Peer,
        outgoing: &mut Outgoing,
    ) -> Result<Address> {
        if let Some(address) = outgoing.address {
            return Ok(address);
        }
        if outgoing.is_given_up {
            self.membership.check(peer.rank)?;
        }
        let address = endpoint.insert(peer.rank, &peer.name)?;
        outgoing.address = Some(address);
        Ok(address)
    }

    /// Posts a message that is repeated if it is lost, as [`post_anyway`](Self::post_anyway) does; returns whether the
    /// provider took it.
    pub(super) fn post_repeated(
        &self,
        endpoint: &Endpoint<Token>,
        peer: &Peer,
        outgoing: &mut Outgoing,
        message: &Message<'_>,
    ) -> bool {
        let header = self.header(peer, outgoing.sent);
        let fill = |bytes: &mut [u8]| message.encode(&header, bytes);
        self.post_anyway(endpoint, peer, outgoing, |address| {
            endpoint.send(address, message.length(), Token::Repeated(peer.rank), fill)
        })
    }

    /// Has `post` post something to a peer that may have been given up, or have left: that it fails does not make the
    /// peer lost. Returns whether the provider took it.
    pub(super) fn post_anyway(
        &self,
        endpoint: &Endpoint<Token>,
        peer: &Peer,
        outgoing: &mut Outgoing,
        post: impl FnOnce(Address) -> Result<Posted>,
    ) -> bool {
        let known = outgoing.address;
        let Ok(address) = known.map_or_else(|| endpoint.insert(peer.rank, &peer.name), Ok) else {
            return false;
        };
        let posted = post(address);
        outgoing.is_short = matches!(posted, Ok(Posted::Short(_)));
        if outgoing.is_given_up {
            // Nothing else goes there any more. The provider knows the connection by the peer's name.
            endpoint.remove(address);
        } else {
            outgoing.address = Some(address);
        }
        matches!(posted, Ok(Posted::Yes))
    }

    /// The provider says that a peer cannot be reached. Reliable as it is, it has tried all that can be tried.
    pub(super) fn lose(&self, peer: &Peer, error: &Error) {
        peer.note_failure();
        peer.has_parted.store(true, Ordering::Relaxed);
        let problem = match error {
            Error::Provider { problem, .. } => problem.clone(),
            other => other.to_string(),
        };
        let provider = &self.capabilities.provider;
        self.membership.declare_lost(peer.rank, format!("its connection failed ({provider}): {problem}"));
    }

    /// What a message to `peer` with this number begins with.
    pub(super) fn header(&self, peer: &Peer, number: u64) -> Header {
        Header { sender: self.rank(), tag: self.tag, number, applied: peer.incoming().tell_applied() }
    }
}

/// Bytes before the pieces of a write that triggers `interrupt`.
fn write_header(interrupt: Option<Interrupt>) -> usize {
    wire::WRITE_HEADER + interrupt.map_or(0, |_| wire::INTERRUPT)
}
