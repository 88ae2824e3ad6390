//! The directory with mappings that do as they should, in any order.

use proptest::prelude::*;

use super::*;
use crate::units::SegmentIndex;

const PLACES: u64 = 3;
const RANKS: u32 = 4;

fn place(number: u64) -> PagePlace {
    PagePlace { segment: SegmentIndex(0), within: number * 4096 }
}

/// A mapping that does as it should: what it has, wants and was ordered, of each page.
#[derive(Default)]
struct Model {
    /// Whether it may store into it.
    copies: HashMap<PagePlace, bool>,
    /// By which wish it got what it has.
    tickets: HashMap<PagePlace, u64>,
    /// Copies that went, and of which the directory is not told yet.
    gone: Vec<(PagePlace, u64)>,
    wishes: HashMap<PagePlace, Wish>,
    orders: VecDeque<Order>,
    attends: bool,
    is_lost: bool,
}

struct World {
    directory: Directory,
    models: Vec<Model>,
    tickets: u64,
    refused: usize,
}

fn party(rank: usize) -> Party {
    Party { rank: Rank(rank as u32), mapping: 7 }
}

impl Directory {
    /// Of how many pages something is known.
    pub(in crate::cluster::agent) fn pages(&self) -> usize {
        self.pages.len()
    }
}

impl World {
    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Grant { asked, has_bytes } => {
                    let model = &mut self.models[asked.party.rank.index()];
                    assert!(!model.is_lost, "granted to the lost");
                    let place = asked.wish.page;
                    assert_eq!(model.wishes.remove(&place), Some(asked.wish));
                    assert!(has_bytes || model.copies.contains_key(&place), "it has no bytes");
                    model.copies.insert(place, asked.wish.is_exclusive);
                    model.tickets.insert(place, asked.wish.ticket);
                }
                Act::Refuse { asked, .. } => {
                    let model = &mut self.models[asked.party.rank.index()];
                    assert_eq!(model.wishes.remove(&asked.wish.page), Some(asked.wish));
                    model.copies.remove(&asked.wish.page);
                    self.refused += 1;
                }
                Act::Tell { party, orders, .. } => {
                    let model = &mut self.models[party.rank.index()];
                    assert!(model.attends && !orders.is_empty());
                    model.attends = false;
                    model.orders.extend(orders);
                }
                Act::End { .. } | Act::Dismiss { .. } => {}
            }
        }
        for place in (0..PLACES).map(place) {
            let copies = self.models.iter().filter(|model| !model.is_lost);
            let copies: Vec<_> = copies.filter_map(|model| model.copies.get(&place)).collect();
            assert!(copies.len() <= 1 || copies.iter().all(|exclusive| !**exclusive), "{copies:?}");
        }
        self.check_concerns();
    }

    /// That who is to end is found wherever he has a copy, waits or is waited for, and nowhere else.
    fn check_concerns(&self) {
        let of_page = |(place, page): (&PagePlace, &Page)| {
            let awaited = page.serving.iter().flat_map(|serving| serving.awaited.iter().copied());
            let asked =
                page.serving.iter().filter_map(|serving| serving.asked).chain(page.queue.iter().copied());
            let copies = page.copies.iter().map(|(party, _)| party);
            let parties = copies.chain(awaited).chain(asked.map(|asked| asked.party));
            parties.map(|party| (party, *place)).collect::<Vec<_>>()
        };
        let expected: BTreeSet<_> = self.directory.pages.iter().flat_map(of_page).collect();
        assert_eq!(self.directory.concerns.all(), expected);
    }

    fn wish(&mut self, rank: usize, place: PagePlace, is_exclusive: bool) {
        let model = &mut self.models[rank];
        let has = model.copies.get(&place);
        if model.is_lost || model.wishes.contains_key(&place) || has.is_some_and(|has| *has || !is_exclusive)
        {
            return;
        }
        self.tickets += 1;
        let wish = Wish { page: place, is_exclusive, has_copy: has.is_some(), ticket: self.tickets };
        model.wishes.insert(place, wish);
        let acts = self.directory.ask(Asked { party: party(rank), number: self.tickets, wish });
        self.act(acts);
    }

    fn wish_ahead(&mut self, rank: usize, place: PagePlace) {
        let model = &mut self.models[rank];
        if model.is_lost || model.wishes.contains_key(&place) || model.copies.contains_key(&place) {
            return;
        }
        self.tickets += 1;
        if self.directory.ask_ahead(party(rank), place, self.tickets) {
            self.models[rank].copies.insert(place, false);
            self.models[rank].tickets.insert(place, self.tickets);
        }
        self.act(Vec::new());
    }

    /// Obeys one order, or asks for more.
    fn attend(&mut self, rank: usize) {
        let model = &mut self.models[rank];
        if model.is_lost {
            return;
        }
        let acts = if let Some(order) = model.orders.pop_front() {
            let keeps = order.keeps && model.copies.contains_key(&order.page);
            if keeps {
                model.copies.insert(order.page, false);
            } else {
                model.copies.remove(&order.page);
            }
            self.directory.obeyed(party(rank), order.page, keeps)
        } else if !model.attends {
            model.attends = true;
            self.directory.attend(party(rank), 0)
        } else {
            return;
        };
        self.act(acts);
    }

    fn leave(&mut self, rank: usize, place: PagePlace) {
        let model = &mut self.models[rank];
        if model.is_lost || model.wishes.contains_key(&place) {
            return;
        }
        if model.copies.remove(&place) == Some(true) {
            self.directory.surrendered(party(rank), place);
        }
        model.gone.extend(model.tickets.remove(&place).map(|ticket| (place, ticket)));
    }

    /// Tells, late and in any order, of copies that went.
    fn tell_gone(&mut self, rank: usize, which: u64) {
        let model = &mut self.models[rank];
        if !model.is_lost && !model.gone.is_empty() {
            let at = which as usize % model.gone.len();
            let (place, ticket) = model.gone.swap_remove(at);
            self.directory.gone(party(rank), place, ticket);
            self.check_concerns();
        }
    }

    fn lose(&mut self, rank: usize) {
        self.models[rank].is_lost = true;
        let acts = self.directory.lose(Rank(rank as u32));
        self.act(acts);
    }
}

#[test]
fn a_mapping_that_ends_is_told_so_once_whenever_it_asks() {
    for asks_before in [true, false] {
        let mut directory = Directory::default();
        let dismissed = vec![Act::Dismiss { party: party(1), number: 5 }];
        if asks_before {
            assert_eq!(directory.attend(party(1), 5), []);
            assert_eq!(directory.withdraw(party(1)), dismissed);
        } else {
            assert_eq!(directory.withdraw(party(1)), []);
            assert_eq!(directory.attend(party(1), 5), dismissed);
        }
        assert!(directory.parties.is_empty() && directory.ended.is_empty());
    }
}

#[test]
fn a_mapping_that_ends_without_having_asked_for_orders_is_not_waited_for() {
    let mut directory = Directory::default();
    let asked = |rank, number| {
        let wish = Wish { page: place(0), is_exclusive: true, has_copy: false, ticket: number };
        Asked { party: party(rank), number, wish }
    };
    assert!(matches!(directory.ask(asked(1, 5))[..], [Act::Grant { .. }]));
    assert_eq!(directory.ask(asked(2, 6)), [], "the first one has not come for its order");
    let granted = Act::Grant { asked: asked(2, 6), has_bytes: true };
    assert_eq!(directory.withdraw(party(1)), [granted]);
    assert_eq!(directory.attend(party(1), 7), [Act::Dismiss { party: party(1), number: 7 }]);
}

#[test]
fn what_was_brought_home_counts_once_and_who_asks_behind_what_is_missing_is_told() {
    let mut directory = Directory::default();
    assert!(!directory.lacks_returns(party(1), 0));
    assert_eq!(directory.attend(party(1), 5), []);
    assert!(directory.lacks_returns(party(1), 1), "the first one is under way");
    assert!(directory.is_new_return(party(1), 1) && directory.is_new_return(party(1), 1));
    directory.note_return(party(1), 1);
    assert!(!directory.is_new_return(party(1), 1));
    assert!(!directory.lacks_returns(party(1), 1));
}

#[test]
fn nothing_is_granted_ahead_of_what_is_another_s_or_waited_for_or_lost() {
    let mut directory = Directory::default();
    let wish = |is_exclusive, ticket| Wish { page: place(0), is_exclusive, has_copy: false, ticket };
    let asked =
        |rank, is_exclusive, number| Asked { party: party(rank), number, wish: wish(is_exclusive, number) };
    assert!(directory.ask_ahead(party(0), place(0), 1), "nobody has it");
    assert!(directory.ask_ahead(party(1), place(0), 2), "another one has a copy for loads");
    assert_eq!(directory.ask(asked(2, true, 3)), [], "two are to give up their copies");
    assert!(!directory.ask_ahead(party(3), place(0), 4), "it is waited for");
    assert_eq!(directory.obeyed(party(0), place(0), false), []);
    let granted = Act::Grant { asked: asked(2, true, 3), has_bytes: true };
    assert_eq!(directory.obeyed(party(1), place(0), false), [granted]);
    assert!(!directory.ask_ahead(party(3), place(0), 5), "it is another's to store into");
    assert_eq!(directory.lose(Rank(2)), []);
    assert!(!directory.ask_ahead(party(3), place(0), 6), "who touches it is told of the loss");
    assert!(matches!(directory.ask(asked(3, false, 7))[..], [Act::Refuse { .. }]));
    assert!(directory.ask_ahead(party(3), place(0), 8), "it has been told");
}

#[test]
fn a_lost_process_of_two_mappings_stores_nothing_by_being_lost() {
    for (one, other) in [(1, 2), (2, 1)] {
        let mut directory = Directory::default();
        let of = |mapping| Party { rank: Rank(1), mapping };
        let wish = |is_exclusive, ticket| Wish { page: place(0), is_exclusive, has_copy: false, ticket };
        // One has a copy for loads, for which the other waits.
        assert!(directory.ask_ahead(of(one), place(0), 3));
        let asked = Asked { party: of(other), number: 4, wish: wish(true, 4) };
        assert_eq!(directory.ask(asked), []);
        assert_eq!(directory.lose(Rank(1)), []);
        let asked = Asked { party: party(2), number: 5, wish: wish(false, 5) };
        assert_eq!(directory.ask(asked), [Act::Grant { asked, has_bytes: true }]);
    }
}

#[test]
fn what_a_mapping_was_asked_for_is_waited_for_when_it_ends() {
    let mut directory = Directory::default();
    let wish = |ticket| Wish { page: place(0), is_exclusive: true, has_copy: false, ticket };
    let asked = |rank, number| Asked { party: party(rank), number, wish: wish(number) };
    assert_eq!(directory.ask(asked(1, 5)), [Act::Grant { asked: asked(1, 5), has_bytes: true }]);
    assert_eq!(directory.attend(party(1), 6), []);
    assert!(matches!(&directory.ask(asked(2, 7))[..], [Act::Tell { number: 6, .. }]));
    // What it stored is on its way.
    assert_eq!(directory.withdraw(party(1)), []);
    let granted = Act::Grant { asked: asked(2, 7), has_bytes: true };
    assert_eq!(directory.obeyed(party(1), place(0), false), [granted]);
    assert_eq!(directory.attend(party(1), 8), [Act::Dismiss { party: party(1), number: 8 }]);
}

proptest! {
    #[test]
    fn who_may_store_has_the_only_copy_and_every_wish_is_answered(
        steps in prop::collection::vec((0u8..13, 0..RANKS as usize, 0..PLACES, any::<bool>()), 1..300),
        lost in prop::option::of((0usize..300, 0..RANKS as usize)),
    ) {
        let models = (0..RANKS).map(|_| Model::default()).collect();
        let mut world = World { directory: Directory::default(), models, tickets: 0, refused: 0 };
        for (number, (kind, rank, at, is_exclusive)) in steps.into_iter().enumerate() {
            match kind {
                0..4 => world.wish(rank, place(at), is_exclusive),
                4 => world.wish_ahead(rank, place(at)),
                5 => world.leave(rank, place(at)),
                6 => world.tell_gone(rank, at),
                _ => world.attend(rank),
            }
            if let Some((when, rank)) = lost && when == number {
                world.lose(rank);
            }
        }
        for _ in 0..200 {
            (0..RANKS as usize).for_each(|rank| world.attend(rank));
        }
        for model in world.models.iter().filter(|model| !model.is_lost) {
            prop_assert!(model.wishes.is_empty(), "{:?} waits for ever", model.wishes);
        }
        prop_assert!(world.refused == 0 || lost.is_some());
        for rank in 0..RANKS as usize {
            let _ = world.directory.withdraw(party(rank));
            let _ = world.directory.attend(party(rank), 0);
            world.check_concerns();
        }
        prop_assert!(world.directory.concerns.all().is_empty());
    }
}

#[test]
fn at_the_end_whoever_waits_for_a_page_is_told_before_mappings_are_dismissed() {
    let mut directory = Directory::default();
    let mut number = 0;
    let mut asked = |rank, page| {
        number += 1;
        let wish = Wish { page: place(page), is_exclusive: true, has_copy: false, ticket: number };
        Asked { party: party(rank), number, wish }
    };
    let first = asked(0, 0);
    assert!(matches!(directory.ask(first)[..], [Act::Grant { .. }]));
    assert_eq!(directory.attend(party(0), 50), []);
    // One is served, and waits for the first; the other one is behind it.
    let (served, queued) = (asked(1, 0), asked(2, 0));
    assert!(matches!(directory.ask(served)[..], [Act::Tell { .. }]));
    assert_eq!(directory.ask(queued), []);
    assert_eq!(directory.attend(party(0), 51), []);
    let end = |asked| Act::End { asked };
    let dismissed = Act::Dismiss { party: party(0), number: 51 };
    assert_eq!(directory.end(), [end(served), end(queued), dismissed]);
    assert_eq!(directory.end(), []);
}
