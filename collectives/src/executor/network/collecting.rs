//! Data of all to one, and of one to all, different for each: gather, scatter.

use std::ops::Range;

use super::group::NetworkGroup;
use crate::collective::CollectAlgorithm;
use crate::executor::arguments::{check_count, check_length};
use crate::executor::blocks::{Given, Room, Row, apart, apart_mut};
use crate::executor::error::Result;

impl NetworkGroup {
    /// `root` gets all members' `own`, which have the same length, one behind the other; elsewhere `into` is not used.
    ///
    /// # Errors
    /// [`Error::Length`](crate::executor::Error::Length),
    /// [`Error::NoSuchMember`](crate::executor::Error::NoSuchMember); the fabric's, for a lost member.
    pub fn gather(&mut self, root: usize, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            let length = own.len();
            if group.own == root {
                check_length("what is gathered", into.len(), length * group.size())?;
            }
            match group.settings.choices.gather.unwrap_or_else(|| group.model().collect(length)) {
                CollectAlgorithm::Binomial => group.gather_binomially(root, own, into),
                CollectAlgorithm::Linear => {
                    group.gather_linearly(root, own, &mut Row { bytes: into, length })
                }
            }
        })
    }

    /// `root` gets all members' `own`, each into its block of `into`; elsewhere `into` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather); also for blocks that lie over each other.
    pub fn gatherv(
        &mut self,
        root: usize,
        own: &[u8],
        into: &mut [u8],
        blocks: &[Range<usize>],
    ) -> Result<()> {
        self.attempt(|group| {
            let mut apart = if group.own == root { apart_mut(into, blocks)? } else { Vec::new() };
            group.gather_blocks(root, own, &mut apart)
        })
    }

    /// The same, where each block is memory by itself; elsewhere than at `root` there are none.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_blocks(&mut self, root: usize, own: &[u8], blocks: &mut [&mut [u8]]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            if group.own == root {
                check_count(blocks.len(), group.size())?;
                check_length("the root's own block", blocks[root].len(), own.len())?;
            }
            group.gather_linearly(root, own, blocks)
        })
    }

    fn gather_linearly(&self, root: usize, own: &[u8], blocks: &mut (impl Room + ?Sized)) -> Result<()> {
        if self.own != root {
            return self.send(root, own);
        }
        blocks.of(root).copy_from_slice(own);
        // All are on their way side by side, whoever is received first.
        (1..self.size()).try_for_each(|distance| {
            let (member, _) = self.neighbours(distance);
            self.receive(member, blocks.of(member))
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

    /// All get their part of `root`'s `data`, which lie one behind the other and are as long as `into`; elsewhere
    /// `data` is not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter(&mut self, root: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            let length = into.len();
            if group.own == root {
                check_length("what is scattered", data.len(), length * group.size())?;
            }
            match group.settings.choices.scatter.unwrap_or_else(|| group.model().collect(length)) {
                CollectAlgorithm::Binomial => group.scatter_binomially(root, data, into),
                CollectAlgorithm::Linear => group.scatter_linearly(root, &Row { bytes: data, length }, into),
            }
        })
    }

    /// All get their block of `root`'s `data`, as long as `into`; elsewhere `data` and `blocks` are not used.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatterv(
        &mut self,
        root: usize,
        data: &[u8],
        blocks: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<()> {
        self.attempt(|group| {
            let apart = if group.own == root { apart(data, blocks)? } else { Vec::new() };
            group.scatter_blocks(root, &apart, into)
        })
    }

    /// The same, where each block is memory by itself; elsewhere than at `root` there are none.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter_blocks(&mut self, root: usize, blocks: &[&[u8]], into: &mut [u8]) -> Result<()> {
        self.attempt(|group| {
            group.check_member(root)?;
            if group.own == root {
                check_count(blocks.len(), group.size())?;
                check_length("the root's own block", blocks[root].len(), into.len())?;
            }
            group.scatter_linearly(root, blocks, into)
        })
    }

    fn scatter_linearly(&self, root: usize, blocks: &(impl Given + ?Sized), into: &mut [u8]) -> Result<()> {
        if self.own != root {
            return self.receive(root, into);
        }
        into.copy_from_slice(blocks.of(root));
        let others = (1..self.size()).map(|distance| self.neighbours(distance).0);
        let messages: Vec<(usize, &[u8])> = others.map(|member| (member, blocks.of(member))).collect();
        self.messages.send_each(&messages)
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
