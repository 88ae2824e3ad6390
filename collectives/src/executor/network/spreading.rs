//! Data from one to all: bcast.

use std::ops::Range;

use super::exchange::{shares, spanned};
use super::group::NetworkGroup;
use crate::collective::BcastAlgorithm;
use crate::executor::error::Result;

impl NetworkGroup {
    /// All get `root`'s `data`, which has the same length everywhere.
    ///
    /// # Errors
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn bcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            if group.own == root {
                return group.bcast_from(data);
            }
            match group.bcast_algorithm(data.len()) {
                BcastAlgorithm::Binomial => {
                    let (above, _) = group.above(root);
                    group.receive(above, data)?;
                    group.send_below(root, |_, _| &*data)
                }
                BcastAlgorithm::Pipelined => {
                    let (place, member) = group.counted_from(root);
                    for segment in data.chunks_mut(group.settings.segment) {
                        group.receive(member(place - 1), segment)?;
                        if place + 1 < group.size() {
                            group.send(member(place + 1), segment)?;
                        }
                    }
                    Ok(())
                }
                BcastAlgorithm::ScatterAllgather => {
                    let parts = shares(data.len(), 1, group.size());
                    let (place, _) = group.counted_from(root);
                    let (above, distance) = group.above(root);
                    let below = spanned(&parts[place..group.size().min(place + distance)]);
                    group.receive(above, &mut data[below])?;
                    group.send_below(root, |from, to| &data[spanned(&parts[from..to])])?;
                    group.pass_around(root, |Passing { next, before, sent, received }| {
                        let bytes = data[parts[sent].clone()].to_vec();
                        group.exchange(next, &bytes, before, &mut data[parts[received].clone()])
                    })
                }
            }
        })
    }

    /// [`bcast`](Self::bcast) as its root, which is this member, and only reads.
    ///
    /// # Errors
    /// As [`bcast`](Self::bcast).
    pub fn bcast_from(&mut self, data: &[u8]) -> Result<()> {
        self.attempt(|group| {
            if group.size() == 1 {
                return Ok(());
            }
            let root = group.own;
            match group.bcast_algorithm(data.len()) {
                BcastAlgorithm::Binomial => group.send_below(root, |_, _| data),
                BcastAlgorithm::Pipelined => {
                    let (next, _) = group.neighbours(1);
                    data.chunks(group.settings.segment).try_for_each(|segment| group.send(next, segment))
                }
                BcastAlgorithm::ScatterAllgather => {
                    let parts = shares(data.len(), 1, group.size());
                    group.send_below(root, |from, to| &data[spanned(&parts[from..to])])?;
                    // What comes around is here already.
                    let mut passing = vec![0; parts.iter().map(Range::len).max().unwrap_or(0)];
                    group.pass_around(root, |Passing { next, before, sent, received }| {
                        let known = &mut passing[..parts[received].len()];
                        group.exchange(next, &data[parts[sent].clone()], before, known)
                    })
                }
            }
        })
    }

    fn bcast_algorithm(&self, length: usize) -> BcastAlgorithm {
        self.settings.choices.bcast.unwrap_or_else(|| self.model().bcast(length))
    }

    /// From whom this member, which is not the root, gets something in the binomial tree, and how many places are below
    /// it at most, its own one included.
    fn above(&self, root: usize) -> (usize, usize) {
        let (place, member) = self.counted_from(root);
        // The lowest bit of a place leads to whom it has the data from.
        let distance = 1 << place.trailing_zeros();
        (member(place - distance), distance)
    }

    /// Sends to those below this member in the binomial tree what is for the places from the first on, up to the
    /// second.
    fn send_below<'d>(&self, root: usize, data: impl Fn(usize, usize) -> &'d [u8]) -> Result<()> {
        let (place, member) = self.counted_from(root);
        let size = self.size();
        let mut distance = if place == 0 { size.next_power_of_two() } else { 1 << place.trailing_zeros() };
        while distance > 1 {
            distance /= 2;
            let to = place + distance;
            if to < size {
                self.send(member(to), data(to, size.min(to + distance)))?;
            }
        }
        Ok(())
    }

    /// Has `step` pass each part on, round by round.
    fn pass_around(&self, root: usize, mut step: impl FnMut(Passing) -> Result<()>) -> Result<()> {
        let (place, member) = self.counted_from(root);
        let size = self.size();
        let (next, before) = (member((place + 1) % size), member((place + size - 1) % size));
        (0..size - 1).try_for_each(|round| {
            let (sent, received) = ((place + size - round) % size, (place + 2 * size - round - 1) % size);
            step(Passing { next, before, sent, received })
        })
    }
}

/// A round in which parts go around. Part *i* is that of the member at place *i*.
#[derive(Debug)]
struct Passing {
    /// Which member gets a part, and which one gives one.
    next: usize,
    before: usize,
    /// Which part goes, and which one comes.
    sent: usize,
    received: usize,
}
