//! For each of some ranks, a list of other ranks: the rows of a sparse boolean matrix.

use crate::rank::Rank;

/// Rows that are not empty, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peers {
    /// The ranks with a row, and where it begins in `peers`; growing.
    rows: Vec<(Rank, u32)>,
    peers: Vec<Rank>,
}

impl Peers {
    /// From pairs of a rank and one of its peers, sorted.
    pub(crate) fn of_sorted(pairs: impl Iterator<Item = (Rank, Rank)>) -> Self {
        let (mut rows, mut peers) = (Vec::<(Rank, u32)>::new(), Vec::new());
        for (rank, peer) in pairs {
            if rows.last().is_none_or(|&(last, _)| last != rank) {
                rows.push((rank, peers.len() as u32));
            }
            peers.push(peer);
        }
        Self { rows, peers }
    }

    /// The pairs that there are.
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// The row of a rank, in order; empty where there is none.
    pub(crate) fn of(&self, rank: Rank) -> &[Rank] {
        self.rows.binary_search_by_key(&rank, |row| row.0).map_or(&[], |row| self.row(row))
    }

    /// All rows that are not empty.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (Rank, &[Rank])> {
        self.rows.iter().enumerate().map(|(row, &(rank, _))| (rank, self.row(row)))
    }

    fn row(&self, row: usize) -> &[Rank] {
        let end = self.rows.get(row + 1).map_or(self.peers.len(), |next| next.1 as usize);
        &self.peers[self.rows[row].1 as usize..end]
    }
}
