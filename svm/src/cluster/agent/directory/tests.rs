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
    copies: HashMap<PagePlace, bool>,
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
                Act::Dismiss { .. } => {}
            }
        }
        for place in (0..PLACES).map(place) {
            let copies = self.models.iter().filter(|model| !model.is_lost);
            let copies: Vec<_> = copies.filter_map(|model| model.copies.get(&place)).collect();
            assert!(copies.len() <= 1 || copies.iter().all(|exclusive| !**exclusive), "{copies:?}");
        }
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
        steps in prop::collection::vec((0u8..12, 0..RANKS as usize, 0..PLACES, any::<bool>()), 1..300),
        lost in prop::option::of((0usize..300, 0..RANKS as usize)),
    ) {
        let models = (0..RANKS).map(|_| Model::default()).collect();
        let mut world = World { directory: Directory::default(), models, tickets: 0, refused: 0 };
        for (number, (kind, rank, at, is_exclusive)) in steps.into_iter().enumerate() {
            match kind {
                0..5 => world.wish(rank, place(at), is_exclusive),
                5 => world.leave(rank, place(at)),
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
    }
}
