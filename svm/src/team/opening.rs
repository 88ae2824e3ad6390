//! Opening: the first member finds or makes the file and introduces it to the others, which attach it. So the name is
//! looked up once, exclusive creation works, and all see the same file even if its name changes hands.

use std::sync::Arc;

use crate::cluster::{Cluster, Introduction, NodeIndex};
use crate::error::{Error, Result};
use crate::file::File;
use crate::name::FileName;
use crate::open_options::OpenOptions;

use super::{Team, Tellable};

/// What the first member comes to.
#[derive(Debug)]
pub enum Found<T> {
    /// The file, open, and what the others have to know.
    Here(T, Vec<u8>),
    /// It is to be [staged](crate::staging), which all have a part in.
    Elsewhere,
}

/// What opening a file takes.
pub trait Opening {
    /// What a member has when it is open.
    type Opened;
    /// What may go wrong.
    type Error: Tellable;

    /// Finds or makes the file, and opens it, unless it is elsewhere; by the first member.
    ///
    /// # Errors
    /// What keeps it from that; nothing is left open then.
    fn find(&mut self) -> Result<Found<Self::Opened>, Self::Error>;

    /// Stages the file that the first member has found elsewhere; by all. Returns what there is to be given up, too.
    ///
    /// # Errors
    /// What went wrong for one of them, on all; nothing is left open then.
    fn stage(&mut self, _team: &Team) -> Result<(Self::Opened, Vec<u8>), Self::Error> {
        Err(Error::Disunited { problem: "nobody knows how to stage a file".into() }.into())
    }

    /// Opens what the first member has found; by the others.
    ///
    /// # Errors
    /// What keeps them from that.
    fn attach(&mut self, introduction: &[u8]) -> Result<Self::Opened, Self::Error>;

    /// Whatever else has to be done by all of them.
    ///
    /// # Errors
    /// What keeps them from that.
    fn complete(&mut self, opened: Self::Opened) -> Result<Self::Opened, Self::Error> {
        Ok(opened)
    }

    /// Not all have been able to open it: the first member gives it up.
    fn give_up(&mut self, introduction: &[u8]);
}

/// What is told to the others begins with one of these.
const HERE: u8 = 0;
const ELSEWHERE: u8 = 1;

impl Team {
    /// Opens a file on all members, or on none; returns the largest of each number, too.
    ///
    /// # Errors
    /// What went wrong for one of them, on all.
    pub fn open<O: Opening, const N: usize>(
        &self,
        opening: &mut O,
        numbers: [i64; N],
    ) -> Result<(O::Opened, [i64; N]), O::Error> {
        let (found, told) = match self.member() {
            0 => match opening.find() {
                Ok(Found::Here(opened, introduction)) => {
                    let told = [&[HERE], &introduction[..]].concat();
                    (Some((opened, introduction)), Ok(told))
                }
                Ok(Found::Elsewhere) => (None, Ok(vec![ELSEWHERE])),
                Err(error) => (None, Err(error)),
            },
            _ => (None, Ok(Vec::new())),
        };
        let told = self.told(0, told).inspect_err(|_| {
            if let Some((_, introduction)) = &found {
                opening.give_up(introduction);
            }
        })?;
        let (opened, introduction) = match (told.split_first(), found) {
            (Some((&ELSEWHERE, _)), _) => opening.stage(self).map(|(opened, told)| (Ok(opened), told))?,
            (_, Some((opened, introduction))) => (Ok(opened), introduction),
            (introduction, None) => {
                let introduction = introduction.map_or(&[][..], |(_, introduction)| introduction);
                (opening.attach(introduction), introduction.to_vec())
            }
        };
        let (opened, mine) = match opened.and_then(|opened| opening.complete(opened)) {
            Ok(opened) => (Some(opened), Ok(())),
            Err(error) => (None, Err(error)),
        };
        match (self.agree_on(mine, numbers), opened) {
            (Ok(numbers), Some(opened)) => Ok((opened, numbers)),
            (Ok(_), None) => Err(Error::Disunited { problem: "a failure was not told".into() }.into()),
            (Err(error), _) => {
                if self.member() == 0 {
                    opening.give_up(&introduction);
                }
                Err(error)
            }
        }
    }

    /// Opens or makes a file for all nodes of the cluster whose processes the members are.
    ///
    /// # Errors
    /// Those of [`Cluster::open`] and [`Cluster::attach`], on all members.
    pub fn open_in(&self, cluster: &Arc<Cluster>, name: &FileName, options: &OpenOptions) -> Result<File> {
        let opened = self.open(&mut InCluster { team: self, cluster, name, options }, []);
        opened.map(|(file, [])| file).map_err(|error| error.over(name.to_string(), self.member()))
    }
}

struct InCluster<'o> {
    team: &'o Team,
    cluster: &'o Arc<Cluster>,
    name: &'o FileName,
    options: &'o OpenOptions,
}

impl Opening for InCluster<'_> {
    type Opened = File;
    type Error = Error;

    fn find(&mut self) -> Result<Found<File>> {
        let nodes: Vec<_> = (0..).take(self.cluster.nodes().len()).map(NodeIndex).collect();
        let introduction = self.cluster.open(self.name, self.options, &nodes)?.to_bytes();
        match self.attach(&introduction) {
            Ok(file) => Ok(Found::Here(file, introduction)),
            Err(error) => {
                self.give_up(&introduction);
                Err(error)
            }
        }
    }

    fn attach(&mut self, introduction: &[u8]) -> Result<File> {
        let attached = Introduction::from_bytes(introduction)
            .and_then(|introduction| self.cluster.attach(&introduction, self.options));
        attached.map_err(|error| self.team.located_on_node(error))
    }

    fn give_up(&mut self, introduction: &[u8]) {
        let given_up = Introduction::from_bytes(introduction)
            .and_then(|introduction| self.cluster.give_up(&introduction));
        if let Err(error) = given_up {
            tracing::warn!("{}: it is held open until the job ends: {error}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::Gathering;

    /// What the first member opens, and what it gave up.
    #[derive(Default)]
    struct Noting {
        given_up: Vec<Vec<u8>>,
    }

    impl Opening for Noting {
        type Opened = ();
        type Error = Error;

        fn find(&mut self) -> Result<Found<()>> {
            Ok(Found::Here((), b"here".to_vec()))
        }

        fn attach(&mut self, _introduction: &[u8]) -> Result<()> {
            Ok(())
        }

        fn give_up(&mut self, introduction: &[u8]) {
            self.given_up.push(introduction.to_vec());
        }
    }

    #[test]
    fn what_the_first_member_cannot_tell_of_it_gives_up() {
        let cut_off = |_: &[u8], _: &mut [u8]| Err("cut off".into());
        let team = Team::new(0, 2, Box::new(Gathering::new(2, cut_off)));
        let mut opening = Noting::default();
        let error = team.open(&mut opening, []).map(|((), [])| ()).unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
        assert_eq!(opening.given_up, [b"here"]);
    }
}
