//! Data from one to all: bcast.

use super::costs::BcastAlgorithm;
use super::exchange::{shares, spanned};
use super::group::NetworkGroup;
use crate::executor::error::Result;

impl NetworkGroup {
    /// All get `root`'s `data`, which has the same length everywhere.
    ///
    /// # Errors
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn bcast(&mut self, root: usize, data: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        if self.size() == 1 {
            return Ok(());
        }
        match self.settings.choices.bcast.unwrap_or_else(|| self.model().bcast(data.len())) {
            BcastAlgorithm::Binomial => self.bcast_binomially(root, data),
            BcastAlgorithm::Pipelined => self.bcast_pipelined(root, data),
            BcastAlgorithm::ScatterAllgather => self.bcast_by_parts(root, data),
        }
    }

    fn bcast_binomially(&self, root: usize, data: &mut [u8]) -> Result<()> {
        let (place, member) = self.counted_from(root);
        let mut distance = 1;
        // The lowest bit of a place leads to whom it has the data from.
        while place & distance == 0 && distance < self.size() {
            distance *= 2;
        }
        if place > 0 {
            self.receive(member(place - distance), data)?;
        }
        while distance > 1 {
            distance /= 2;
            if place + distance < self.size() {
                self.send(member(place + distance), data)?;
            }
        }
        Ok(())
    }

    fn bcast_pipelined(&self, root: usize, data: &mut [u8]) -> Result<()> {
        let (place, member) = self.counted_from(root);
        for segment in data.chunks_mut(self.settings.segment) {
            if place > 0 {
                self.receive(member(place - 1), segment)?;
            }
            if place + 1 < self.size() {
                self.send(member(place + 1), segment)?;
            }
        }
        Ok(())
    }

    /// The root's data goes down a binomial tree, to each only the parts of those below it; then the parts go around.
    fn bcast_by_parts(&self, root: usize, data: &mut [u8]) -> Result<()> {
        let (place, member) = self.counted_from(root);
        let (size, parts) = (self.size(), shares(data.len(), 1, self.size()));
        let mut distance = 1;
        while place & distance == 0 && distance < size {
            distance *= 2;
        }
        if place > 0 {
            let below = spanned(&parts[place..size.min(place + distance)]);
            self.receive(member(place - distance), &mut data[below])?;
        }
        while distance > 1 {
            distance /= 2;
            if place + distance < size {
                let below = spanned(&parts[place + distance..size.min(place + 2 * distance)]);
                self.send(member(place + distance), &data[below])?;
            }
        }
        // By places, not members: part i is that of the member at place i.
        let (next, before) = (member((place + 1) % size), member((place + size - 1) % size));
        for round in 0..size - 1 {
            let (sent, received) = ((place + size - round) % size, (place + 2 * size - round - 1) % size);
            let bytes = data[parts[sent].clone()].to_vec();
            self.exchange(next, &bytes, before, &mut data[parts[received].clone()])?;
        }
        Ok(())
    }
}
