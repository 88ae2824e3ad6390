//! Members on several nodes telling each other how long a file has become.
//!
//! A node sees at once how long its own members make a file, and what others do when it [refreshes](File::refresh). Until
//! then it may also not have heard that somebody, through another handle perhaps, has made the file shorter. What it would
//! tell then is how long the file was before that, and those who have heard would have the file grow again. So members
//! tell the number of truncations, too, and leave everything as it is where they have not heard of the same ones: then
//! those who are behind know how long the file is when they have refreshed. What a node was told before the truncation,
//! and has not flushed, it tells the master at its next flush as if it had written that itself: who cuts by one handle
//! what was written by another one has the other one synced first, as MPI wants it.

use crate::error::Result;
use crate::file::File;

use super::agreement::MOST;
use super::{Team, Tellable};

/// How many numbers tell how long a file is.
const NUMBERS: usize = 3;

impl Team {
    /// Ends what all have written to the file, of which `mine` is this member's outcome: all know how long the file is
    /// then, though not yet what the others wrote. MPI does not promise that much, but programs that ask for the size
    /// expect it.
    ///
    /// # Errors
    /// `mine` of one of the members; as [`Team::sync`].
    pub fn end_of_write<E: Tellable>(&self, file: &File, mine: Result<(), E>) -> Result<(), E> {
        self.agree_with_size(file, mine, []).map(|[]| ())
    }

    /// As [`Team::agree_on`]; all know how long the file is then, if they have heard of the same truncations.
    ///
    /// # Errors
    /// As [`Team::agree_on`].
    pub fn agree_with_size<E: Tellable, const N: usize>(
        &self,
        file: &File,
        mine: Result<(), E>,
        numbers: [i64; N],
    ) -> Result<[i64; N], E> {
        const { assert!(N + NUMBERS <= MOST) };
        if !file.is_shared_by_nodes() {
            return self.agree_on(mine, numbers);
        }
        let (size, truncations) = file.size_and_truncations();
        let [size, truncations] = [size, truncations].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let mut all = [0; MOST];
        let all = &mut all[..N + NUMBERS];
        all[..N].copy_from_slice(&numbers);
        all[N..].copy_from_slice(&[size, truncations, -truncations]);
        self.agree_over(mine, all)?;
        // The largest is the smallest, too, where all have heard of the same.
        if all[N + 1] == -all[N + 2] {
            file.note_size(all[N].unsigned_abs(), all[N + 1].unsigned_abs());
        }
        Ok(std::array::from_fn(|at| all[at]))
    }
}
