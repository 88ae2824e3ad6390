//! Data of all to one, and of one to all, different for each: gather, scatter.

use std::ops::Range;

use super::costs::CollectAlgorithm;
use super::exchange::check_length;
use super::group::NetworkGroup;
use crate::executor::error::Result;

impl NetworkGroup {
    /// `root` gets all members' `own`, which have the same length, one behind the other; elsewhere `into` is not used.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length), [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember);
    /// the fabric's, for a lost member.
    pub fn gather(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        let length = own.len();
        if self.own == root {
            check_length("what is gathered", into.len(), length * self.size())?;
        }
        match self.settings.choices.gather.unwrap_or_else(|| self.model().collect(length)) {
            CollectAlgorithm::Binomial => self.gather_binomially(root, own, into),
            CollectAlgorithm::Linear => {
                let block = |member: usize| member * length..(member + 1) * length;
                self.gather_linearly(root, own, into, block)
            }
        }
    }

    /// `root` gets all members' `own`, each into its block of `into`; elsewhere `into` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gatherv(
        &mut self,
        root: usize,
        own: &[u8],
        into: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        self.check_member(root)?;
        if self.own == root {
            self.check_blocks(blocks, into.len())?;
            check_length("the root's own block", blocks[root].len(), own.len())?;
        }
        self.gather_linearly(root, own, into, |member| blocks[member].clone())
    }

    fn gather_linearly(
        &self,
        root: usize,
        own: &[u8],
        into: &mut [u8],
        block: impl Fn(usize) -> Range<usize>,
    ) -> Result<()> {
        if self.own != root {
            return self.send(root, own);
        }
        into[block(root)].copy_from_slice(own);
        // All are on their way side by side, whoever is received first.
        (1..self.size()).try_for_each(|distance| {
            let (member, _) = self.neighbours(distance);
            self.receive(member, &mut into[block(member)])
        })
    }

    /// Each passes on what it has of those below it in the tree.
    fn gather_binomially(&self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        let (place, member) = self.counted_from(root);
        let (size, length) = (self.size(), own.len());
        let mut held = own.to_vec();
        let mut distance = 1;
        while place & distance == 0 && distance < size {
            if place + distance < size {
                let below = distance.min(size - place - distance);
                let begin = held.len();
                held.resize(begin + below * length, 0);
                self.receive(member(place + distance), &mut held[begin..])?;
            }
            distance *= 2;
        }
        if place > 0 {
            return self.send(member(place - distance), &held);
        }
        if length > 0 {
            for (place, bytes) in held.chunks_exact(length).enumerate() {
                into[member(place) * length..][..length].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// All get their part of `root`'s `data`, which lie one behind the other and are as long as `into`; elsewhere `data`
    /// is not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_member(root)?;
        let length = into.len();
        if self.own == root {
            check_length("what is scattered", data.len(), length * self.size())?;
        }
        match self.settings.choices.scatter.unwrap_or_else(|| self.model().collect(length)) {
            CollectAlgorithm::Binomial => self.scatter_binomially(root, data, into),
            CollectAlgorithm::Linear => {
                self.scatter_linearly(root, data, into, |member| member * length..(member + 1) * length)
            }
        }
    }

    /// All get their block of `root`'s `data`, as long as `into`; elsewhere `data` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`scatter`](Self::scatter).
    pub fn scatterv(
        &mut self,
        root: usize,
        data: &[u8],
        blocks: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<()> {
        self.check_member(root)?;
        if self.own == root {
            self.check_blocks(blocks, data.len())?;
            check_length("the root's own block", blocks[root].len(), into.len())?;
        }
        self.scatter_linearly(root, data, into, |member| blocks[member].clone())
    }

    fn scatter_linearly(
        &self,
        root: usize,
        data: &[u8],
        into: &mut [u8],
        block: impl Fn(usize) -> Range<usize>,
    ) -> Result<()> {
        if self.own != root {
            return self.receive(root, into);
        }
        into.copy_from_slice(&data[block(root)]);
        let others = (1..self.size()).map(|distance| self.neighbours(distance).0);
        Ok(self.messenger.scope(|scope| {
            for member in others {
                scope.send(self.members[member], &data[block(member)])?;
            }
            Ok(())
        })?)
    }

    fn scatter_binomially(&self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        let (place, member) = self.counted_from(root);
        let (size, length) = (self.size(), into.len());
        let mut distance = 1;
        while place & distance == 0 && distance < size {
            distance *= 2;
        }
        let below = distance.min(size - place);
        let mut held = vec![0; below * length];
        if place > 0 {
            self.receive(member(place - distance), &mut held)?;
        } else if length > 0 {
            for (place, bytes) in held.chunks_exact_mut(length).enumerate() {
                bytes.copy_from_slice(&data[member(place) * length..][..length]);
            }
        }
        while distance > 1 {
            distance /= 2;
            if place + distance < size {
                let end = (2 * distance).min(size - place);
                self.send(member(place + distance), &held[distance * length..end * length])?;
            }
        }
        into.copy_from_slice(&held[..length]);
        Ok(())
    }
}
