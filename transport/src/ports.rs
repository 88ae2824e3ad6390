//! Which ports of this process are open, and which peers wait for the end of what is open there.
//!
//! Who waits for a message of a process that has said nothing to it so far is not known there, and could not be told
//! that nothing comes. So it [says so](Notice::Awaits), once, after a while; the answer tells whether what it waits for
//! is closed already, and if not, it is told [when that happens](Notice::HasClosed). Nothing is connected for that, and
//! nobody has to ask again.
//!
//! A port may be opened again. Those who close one messenger and open the next do so each in their own time, so the
//! messengers that a process opens on a port are numbered: a peer's belongs to the one of the same number, and is not
//! told of the end of an earlier one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::back_end::Respondent;
use crate::units::Rank;

/// What a process says about a port, of which messengers use the segment space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A messenger of that number here waits for the peer's.
    Awaits { space: u32, number: u64 },
    /// The messenger of that number here is closed, and those before it. Also told to those who had no room to be told
    /// otherwise.
    HasClosed { space: u32, number: u64 },
}

impl Notice {
    /// As a question to a peer's respondent.
    pub(crate) fn encode(self) -> [u64; 2] {
        let (kind, space, number) = match self {
            Self::Awaits { space, number } => (1, space, number),
            Self::HasClosed { space, number } => (2, space, number),
        };
        [kind << 32 | u64::from(space), number]
    }

    /// What such a question says, if it is one.
    fn decode([first, number]: [u64; 2]) -> Option<Self> {
        let space = first as u32;
        match first >> 32 {
            1 => Some(Self::Awaits { space, number }),
            2 => Some(Self::HasClosed { space, number }),
            _ => None,
        }
    }
}

/// The answer to one who waits: it will be told.
pub(crate) const WILL_BE_TOLD: u64 = 0;

/// The answer to one who waits for what is closed.
pub(crate) const IS_CLOSED: u64 = 1;

/// An open messenger.
pub(crate) trait Listener: Send + Sync {
    /// The messenger of `peer` that belongs to this one is closed. Must not wait.
    fn peer_has_closed(&self, peer: Rank);
}

/// The ports of a process.
#[derive(Default)]
pub(crate) struct Ports {
    table: Mutex<Table>,
}

/// What there is to know of ports. Most are opened once only, and there may be very many in the life of a process, of
/// which it must be told for ever that they are closed.
#[derive(Default)]
struct Table {
    by_space: HashMap<u32, Port>,
    /// Those that were opened once and are closed, and of which there is nothing else to know: a bit each, 64 spaces
    /// that follow each other in a word.
    closed_once: HashMap<u32, u64>,
}

impl Table {
    /// What there is to know of a port, to be changed; then [settle](Self::settle) is due.
    fn port(&mut self, space: u32) -> &mut Port {
        let was_closed = self.is_closed_once(space);
        if was_closed && let Some(closed) = self.closed_once.get_mut(&(space / u64::BITS)) {
            *closed &= !bit_of(space);
        }
        let opened = u64::from(was_closed);
        self.by_space.entry(space).or_insert_with(|| Port { opened, ..Port::default() })
    }

    /// Makes a bit of a port of which no more is to be known.
    fn settle(&mut self, space: u32) {
        let is_closed_once = |port: &Port| port.opened == 1 && port.open.is_none() && port.waiting.is_empty();
        if self.by_space.get(&space).is_some_and(is_closed_once) {
            self.by_space.remove(&space);
            *self.closed_once.entry(space / u64::BITS).or_default() |= bit_of(space);
        }
    }

    fn is_closed_once(&self, space: u32) -> bool {
        self.closed_once.get(&(space / u64::BITS)).is_some_and(|closed| closed & bit_of(space) != 0)
    }
}

/// A space among the 64 of a word.
fn bit_of(space: u32) -> u64 {
    1 << (space % u64::BITS)
}

#[derive(Default)]
struct Port {
    /// How many messengers were opened: the number of the last one.
    opened: u64,
    /// That one, as long as it is open.
    open: Option<Weak<dyn Listener>>,
    /// Who waits for the end of which one.
    waiting: BTreeMap<Rank, u64>,
}

impl Port {
    /// Whether the messenger of that number is closed, and no later one has come.
    fn is_closed(&self, number: u64) -> bool {
        self.open.is_none() && self.opened >= number
    }

    /// Those who wait for the end of one of those up to `number`, who wait no more then.
    fn take_waiting(&mut self, number: u64) -> Vec<Rank> {
        let mut told = Vec::new();
        self.waiting.retain(|&rank, awaited| {
            let is_later = *awaited > number;
            if !is_later {
                told.push(rank);
            }
            is_later
        });
        told
    }
}

impl Ports {
    /// Somebody opens the port of `space`, and is told what concerns it. Returns which number that has.
    pub(crate) fn open(&self, space: u32, listener: Weak<dyn Listener>) -> u64 {
        let mut table = self.lock();
        let port = table.port(space);
        port.opened += 1;
        port.open = Some(listener);
        port.opened
    }

    /// The messenger of that number is closed. Returns who is to be told.
    pub(crate) fn close(&self, space: u32, number: u64) -> Vec<Rank> {
        let mut table = self.lock();
        let port = table.port(space);
        if port.opened == number {
            port.open = None;
        }
        let told = port.take_waiting(number);
        table.settle(space);
        told
    }

    /// All are closed. Returns who is to be told what.
    pub(crate) fn close_all(&self) -> Vec<(Notice, Vec<Rank>)> {
        let close = |(&space, port): (&u32, &mut Port)| {
            port.open.take()?;
            let number = port.opened;
            Some((Notice::HasClosed { space, number }, port.take_waiting(number)))
        };
        self.lock().by_space.iter_mut().filter_map(close).collect()
    }

    fn hear(&self, peer: Rank, notice: Notice) -> u64 {
        match notice {
            Notice::Awaits { space, number } => {
                let mut table = self.lock();
                let port = table.port(space);
                if port.is_closed(number) {
                    table.settle(space);
                    return IS_CLOSED;
                }
                // What it asked for an earlier one may come late.
                let awaited = port.waiting.entry(peer).or_default();
                *awaited = number.max(*awaited);
            }
            Notice::HasClosed { space, number } => {
                let listener = self.listener(space, number);
                // Without the lock: this may be the last who holds it.
                if let Some(listener) = listener {
                    listener.peer_has_closed(peer);
                }
            }
        }
        WILL_BE_TOLD
    }

    /// The messenger that is open in `space`, if it is of that number or before.
    fn listener(&self, space: u32, number: u64) -> Option<Arc<dyn Listener>> {
        self.lock().by_space.get(&space).filter(|port| port.opened <= number)?.open.as_ref()?.upgrade()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers peers, as long as there is somebody whose ports they are.
pub(crate) struct Doorkeeper(Weak<Ports>);

impl Doorkeeper {
    pub(crate) fn of(ports: &Arc<Ports>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(ports)))
    }
}

impl Respondent for Doorkeeper {
    fn respond(&self, asker: Rank, question: [u64; 2]) -> u64 {
        match (self.0.upgrade(), Notice::decode(question)) {
            (Some(ports), Some(notice)) => ports.hear(asker, notice),
            // Nobody is left who could open one, and nobody to tell it later.
            (None, Some(Notice::Awaits { .. })) => IS_CLOSED,
            (_, None) | (None, Some(Notice::HasClosed { .. })) => WILL_BE_TOLD,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
impl Ports {
    /// How many entries the tables have.
    pub(crate) fn entries(&self) -> usize {
        let table = self.lock();
        table.by_space.len() + table.closed_once.len()
    }

    /// Whether `peer` waits for the end of what is open in `space`, or will be.
    pub(crate) fn is_awaited(&self, space: u32, peer: Rank) -> bool {
        self.lock().by_space.get(&space).is_some_and(|port| port.waiting.contains_key(&peer))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::{Arc, Mutex, Weak};

    use super::{Doorkeeper, IS_CLOSED, Listener, Notice, Ports, WILL_BE_TOLD};
    use crate::back_end::Respondent;
    use crate::units::Rank;

    const SPACE: u32 = u32::MAX;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Rank>>);

    impl Heard {
        fn take(&self) -> Vec<Rank> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl Listener for Heard {
        fn peer_has_closed(&self, peer: Rank) {
            self.0.lock().unwrap().push(peer);
        }
    }

    fn open(ports: &Ports) -> (u64, Arc<Heard>) {
        let heard = Arc::new(Heard::default());
        let listener: Weak<Heard> = Arc::downgrade(&heard);
        (ports.open(SPACE, listener), heard)
    }

    fn awaits(ports: &Ports, rank: u32, number: u64) -> u64 {
        ports.hear(Rank(rank), Notice::Awaits { space: SPACE, number })
    }

    #[test]
    fn who_waits_is_told_of_the_end_of_what_it_waits_for_and_of_no_other() {
        let ports = Ports::default();
        assert_eq!(awaits(&ports, 1, 1), WILL_BE_TOLD, "none was opened yet");
        let (first, _heard) = open(&ports);
        assert_eq!(awaits(&ports, 2, 1), WILL_BE_TOLD);
        assert_eq!(awaits(&ports, 3, 2), WILL_BE_TOLD, "it is ahead");
        assert_eq!(ports.close(SPACE, first), [Rank(1), Rank(2)]);
        assert_eq!(awaits(&ports, 1, 1), IS_CLOSED);
        assert_eq!(awaits(&ports, 3, 2), WILL_BE_TOLD);
        let (second, _heard) = open(&ports);
        assert_eq!(awaits(&ports, 1, 1), WILL_BE_TOLD, "there is one again");
        assert_eq!(
            ports.close_all(),
            [(Notice::HasClosed { space: SPACE, number: second }, vec![Rank(1), Rank(3)])]
        );
        assert!(ports.close_all().is_empty() && ports.close(SPACE, second).is_empty(), "they were told");
        assert_eq!(awaits(&ports, 3, 2), IS_CLOSED);
    }

    #[test]
    fn a_messenger_hears_of_the_end_of_the_one_that_belongs_to_it() {
        let ports = Ports::default();
        let says = |number| ports.hear(Rank(5), Notice::HasClosed { space: SPACE, number });
        says(1);
        let (first, heard) = open(&ports);
        says(1);
        assert_eq!(heard.take(), [Rank(5)]);
        ports.close(SPACE, first);
        says(1);
        let (_, next) = open(&ports);
        says(1);
        assert_eq!((heard.take(), next.take()), (vec![], vec![]), "that was of an earlier one");
        says(2);
        assert_eq!(next.take(), [Rank(5)]);
    }

    #[test]
    fn ports_that_were_opened_once_take_a_bit_each_and_are_known_to_be_closed_all_the_same() {
        let ports = Ports::default();
        let listener: Weak<Heard> = Weak::new();
        for space in 1000..2000 {
            let number = ports.open(space, listener.clone());
            assert_eq!(number, 1);
            assert!(ports.close(space, number).is_empty());
        }
        assert!(ports.entries() <= 1000 / 64 + 2, "{}", ports.entries());
        let awaits = |space, number| ports.hear(Rank(1), Notice::Awaits { space, number });
        for space in 1000..2000 {
            assert_eq!(awaits(space, 1), IS_CLOSED);
        }
        assert!(ports.entries() <= 1000 / 64 + 2, "{}", ports.entries());
        assert_eq!([awaits(999, 1), awaits(2000, 1), awaits(1500, 2)], [WILL_BE_TOLD; 3]);
        assert_eq!(awaits(1501, 1), IS_CLOSED);
        // They go on where they were.
        for space in [1500, 1501] {
            let number = ports.open(space, listener.clone());
            assert_eq!(number, 2);
            assert_eq!(awaits(space, 1), WILL_BE_TOLD, "there is one again");
            assert_eq!(ports.close(space, number), [Rank(1)]);
            assert_eq!(awaits(space, 2), IS_CLOSED);
            assert_eq!(awaits(space, 3), WILL_BE_TOLD);
        }
    }

    #[test]
    fn what_is_no_notice_is_answered_by_nothing_that_matters() {
        let ports = Arc::new(Ports::default());
        let doorkeeper = Doorkeeper::of(&ports);
        for notice in [Notice::Awaits { space: SPACE, number: 7 }, Notice::HasClosed { space: 3, number: 1 }]
        {
            assert_eq!(Notice::decode(notice.encode()), Some(notice));
        }
        for kind in [0, 3, u64::from(u32::MAX)] {
            assert_eq!(doorkeeper.respond(Rank(1), [kind << 32 | 5, 1]), WILL_BE_TOLD);
        }
        assert!(ports.lock().by_space.is_empty());
        drop(ports);
        assert_eq!(
            doorkeeper.respond(Rank(1), Notice::Awaits { space: SPACE, number: 1 }.encode()),
            IS_CLOSED,
            "nobody would tell it later"
        );
    }
}
