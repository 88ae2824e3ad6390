//! How a member hears that another one of its team has withdrawn, where lines cannot tell.

use std::sync::atomic::Ordering;

use svmio_transport::LocalSegment;
use svmio_transport::back_end::Backing;

use super::error::Result;
use super::team::Team;
use crate::executor::Error;

/// The segment in which a member is told.
const SEGMENT: u32 = 2;

/// Its bytes: a word, with the number of who has withdrawn, from 1 on, and of how many barriers it knows that all came.
const LENGTH: u64 = size_of::<u64>() as u64;

/// How many bits of the word tell the member.
const MEMBER: u32 = 24;

/// Where a member of a team is told that another one has withdrawn. Nobody connects to it before there is that to tell.
#[derive(Debug)]
pub(super) struct Notice {
    team: Team,
    word: LocalSegment,
}

impl Notice {
    /// This member's.
    ///
    /// # Errors
    /// The fabric's.
    pub(super) fn open(team: &Team) -> Result<Self> {
        let backing = Backing::Anonymous { length: LENGTH };
        let word = team.fabric().create(team.segment(SEGMENT), &backing)?;
        Ok(Self { team: team.clone(), word })
    }

    /// That no member is lost, or has withdrawn without knowing that all came to the barrier of number `awaited`, from 1 on:
    /// who does know has come, and whatever tells the others may just come later.
    ///
    /// # Errors
    /// [`Error::Refused`] that names the member; the fabric's.
    pub(super) fn check(&self, awaited: u64) -> Result<()> {
        self.team.check()?;
        // Relaxed: the word is all that there is to see.
        match self.word.memory().word64(0)?.load(Ordering::Relaxed) {
            0 => Ok(()),
            word if word >> MEMBER >= awaited => Ok(()),
            word => {
                let member = (word & ((1 << MEMBER) - 1)) as usize;
                let reason = "it has left the group".to_owned();
                Err(Error::Refused { member: member.saturating_sub(1), reason }.into())
            }
        }
    }

    /// Tells all others that this member withdraws, which knows of that many barriers that all came.
    pub(super) fn give(&self, completed: u64) {
        let fabric = self.team.fabric();
        let word = (completed << MEMBER | (self.team.own() as u64 + 1)).to_ne_bytes();
        for (member, &rank) in self.team.members().iter().enumerate() {
            if member != self.team.own() {
                // Who cannot be reached is lost, or has left itself.
                let _ = fabric
                    .connect(rank, self.team.segment(SEGMENT))
                    .and_then(|segment| fabric.write_checked(rank, || segment.write(0, &word)));
            }
        }
    }
}
