//! A team's members finding out where their files are: in the one store that they share, in the stores of a cluster
//! that they have joined already, or in those of one that they form now.
//!
//! Each member shows a [`Card`] to all, and all come to the same [`Decision`]:
//!
//! | what the cards say | decision |
//! |---|---|
//! | all joined the same cluster last | that one |
//! | all use one store | none is needed: the store is used by all directly |
//! | else | a new one is formed, of exactly these members |

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use svmio_transport::job::{Exchange, Job, current_node};
use svmio_transport::settings::FabricChoice;
use svmio_transport::{Error as TransportError, Rank, Result as TransportResult};

use crate::accounting;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::joined::{self, Part};
use crate::node::BootId;
use crate::store::{Store, StoreIdentity};

use super::Team;
use super::settings::InForce;

/// Where the files of a team's members are.
#[derive(Clone)]
pub enum Place {
    /// In one store, which all members use for themselves.
    OneNode(Store),
    /// In the stores of a cluster's nodes.
    Nodes {
        /// The cluster.
        cluster: Arc<Cluster>,
        /// This member's store.
        store: Store,
        /// Each member's number in the cluster.
        members: Vec<Rank>,
    },
}

impl Team {
    /// Finds out where the members' files are; succeeds on all of them or on none. A cluster that is formed here is
    /// [kept](crate::joined) for later teams.
    ///
    /// # Errors
    /// [`Error::Misfit`] where nodes and stores do not fit together; [`Error::Settings`], also where no cluster is
    /// needed; [`Error::Fabric`] where one cannot be formed; those of [`Store::from_environment`];
    /// [`Error::Disunited`].
    pub fn meet(&self) -> Result<Place> {
        // Who cannot use his settings shows no card, so that all hear of it.
        let (store, opened) = parted(InForce::get().and_then(|_| Store::from_environment()));
        if self.size() == 1 {
            let store = opened.and(store.ok_or_else(|| disunited("there is no store")))?;
            return Ok(match joined::latest() {
                Some(cluster) => Place::Nodes { members: vec![cluster.rank()], cluster, store },
                None => self.on_one_node(store),
            });
        }
        // Held from now on: what the card says, this member can keep, whoever takes the parts meanwhile.
        let latest = joined::latest();
        let card = store.as_ref().map(|store| Card::own(store, latest.as_deref())).transpose();
        let card = card.map_err(|error| self.located(error));
        let (card, shown) = parted(card);
        let card = card.flatten();
        let all = self.all_gather_equal(&Card::to_bytes(card.as_ref()))?;
        let cards: Option<Vec<Card>> = all.iter().map(|bytes| Card::from_bytes(bytes)).collect();
        // A card is missing where a member has no store, or wrong settings.
        let (Some(cards), Some(store)) = (cards, store) else {
            self.agree(opened.and(shown).map_err(|error| self.located_on_node(error)))?;
            return Err(disunited("a member has no store"));
        };
        // The same on all members: they look at the same cards.
        let cluster = match decide(&cards)? {
            Decision::OneNode => return Ok(self.on_one_node(store)),
            Decision::Latest => {
                latest.ok_or_else(|| disunited("all have joined a cluster that is not there"))?
            }
            Decision::Form { fabric } => self.form(&store, fabric)?,
        };
        // In a new cluster, ranks are the members' numbers.
        let known = cards.iter().all(|card| card.cluster == cluster.id());
        let members = (0u32..).zip(&cards).map(|(i, card)| Rank(if known { card.rank } else { i })).collect();
        Ok(Place::Nodes { cluster, store, members })
    }

    fn on_one_node(&self, store: Store) -> Place {
        accounting::note_one_node(store.node(), self.member(), self.size());
        Place::OneNode(store)
    }

    /// Forms a cluster of the members. Succeeds on all of them or on none.
    fn form(&self, store: &Store, fabric: FabricChoice) -> Result<Arc<Cluster>> {
        let located = |error: Error| self.located_on_node(error);
        // Every member has had them since before it showed its card.
        let in_force = InForce::get()?;
        let settings = in_force.for_job(fabric);
        let chosen = settings.fabric;
        let formed = Job::by_exchange(&mut ByTeam(self), settings)
            .map_err(|source| Error::Fabric {
                subject: "the ranks of a file cannot form a job".into(),
                source,
            })
            .and_then(|job| {
                // The job ends with a failure, which the others then notice rather than wait for this member.
                let cluster = Cluster::join(
                    job.fabric().clone(),
                    store.clone(),
                    in_force.cache(),
                    &job.settings().messages,
                )?;
                cluster.reach()?;
                Ok(Part { job, cluster })
            });
        let (part, outcome) = parted(formed.map_err(located));
        let agreed = self.agree(outcome);
        match (agreed, part) {
            (Ok(()), Some(part)) => {
                let cluster = joined::keep(part);
                tracing::info!(
                    "a cluster of {} nodes and {} ranks, on fabric {chosen}",
                    cluster.nodes().len(),
                    cluster.size()
                );
                Ok(cluster)
            }
            (outcome, part) => {
                if let Some(part) = part {
                    part.cluster.leave();
                }
                outcome?;
                Err(disunited("the members have agreed on a cluster that is not there"))
            }
        }
    }
}

/// A team as the means by which a job's processes meet.
struct ByTeam<'t>(&'t Team);

impl Exchange for ByTeam<'_> {
    fn rank(&self) -> Rank {
        Rank(self.0.member() as u32)
    }

    fn size(&self) -> u32 {
        self.0.size() as u32
    }

    fn all_gather(&mut self, ours: &[u8]) -> TransportResult<Vec<Vec<u8>>> {
        self.0.all_gather(ours).map_err(|error| TransportError::StartUp { problem: error.to_string() })
    }
}

/// A result's value, and its outcome without it.
fn parted<T>(result: Result<T>) -> (Option<T>, Result<()>) {
    match result {
        Ok(value) => (Some(value), Ok(())),
        Err(error) => (None, Err(error)),
    }
}

fn disunited(problem: &str) -> Error {
    Error::Disunited { problem: problem.into() }
}

/// What a rank shows to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Card {
    store: StoreIdentity,
    /// Of the node's name.
    node: u64,
    /// Of what processes share that can use the `shm` fabric with each other: kernel and network name space, in
    /// which local sockets have their names.
    machine: u64,
    /// The cluster that the rank joined last; 0: none.
    cluster: u64,
    /// The rank in that.
    rank: u32,
}

impl Card {
    const BYTES: usize = 64;

    /// That of a member that has joined `latest` last.
    fn own(store: &Store, latest: Option<&Cluster>) -> Result<Card> {
        Ok(Card {
            store: store.identity(),
            node: own_node(),
            machine: machine(store.identity().boot)?,
            cluster: latest.map_or(0, Cluster::id),
            rank: latest.map_or(0, |cluster| cluster.rank().0),
        })
    }

    /// The card, or what stands for none.
    fn to_bytes(card: Option<&Card>) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        if let Some(card) = card {
            bytes[..16].copy_from_slice(&card.store.boot.0);
            let numbers = [card.store.device, card.store.inode, card.node, card.machine, card.cluster];
            for (i, number) in numbers.into_iter().enumerate() {
                bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&number.to_ne_bytes());
            }
            bytes[56..60].copy_from_slice(&card.rank.to_ne_bytes());
            bytes[60] = 1;
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Card> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let eight =
            |i: usize| u64::from_ne_bytes(bytes[16 + 8 * i..24 + 8 * i].try_into().expect("eight bytes"));
        (bytes[60] == 1).then(|| Card {
            store: StoreIdentity {
                boot: BootId(bytes[..16].try_into().expect("sixteen bytes")),
                device: eight(0),
                inode: eight(1),
            },
            node: eight(2),
            machine: eight(3),
            cluster: eight(4),
            rank: u32::from_ne_bytes(bytes[56..60].try_into().expect("four bytes")),
        })
    }
}

/// The same number for processes of one node.
pub fn own_node() -> u64 {
    hash(&current_node())
}

/// The same number for processes that can use the `shm` fabric with each other; `boot` is that of this machine.
///
/// # Errors
/// Where `/proc` does not tell.
pub fn machine(boot: BootId) -> Result<u64> {
    // A process stays where it is.
    static MACHINE: OnceLock<u64> = OnceLock::new();
    if let Some(known) = MACHINE.get() {
        return Ok(*known);
    }
    let path = Path::new("/proc/self/ns/net");
    let network = std::fs::read_link(path)
        .map_err(|e| Error::io("looking for the network name space (is /proc mounted?)", path, e))?;
    Ok(*MACHINE.get_or_init(|| hash(&(boot.0, network))))
}

/// The same number for the same value in all processes that run this library.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What ranks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// All use one store, directly.
    OneNode,
    /// All use the cluster that they joined last.
    Latest,
    /// They form a cluster, on this fabric unless the user chose another.
    Form { fabric: FabricChoice },
}

/// What the ranks with these cards do.
///
/// # Errors
/// Where nodes and stores do not fit together: which ranks are concerned, and the way out.
fn decide(cards: &[Card]) -> Result<Decision> {
    let Some(first) = cards.first() else { return Ok(Decision::OneNode) };
    if first.cluster != 0 && cards.iter().all(|card| card.cluster == first.cluster) {
        return Ok(Decision::Latest);
    }
    if cards.iter().all(|card| card.store == first.store) {
        return Ok(Decision::OneNode);
    }
    // A node has one store, and a store one node.
    let mut firsts: Vec<(usize, &Card)> = Vec::new();
    for (rank, card) in cards.iter().enumerate() {
        let known = firsts.iter().find(|(_, known)| known.node == card.node || known.store == card.store);
        match known {
            None => firsts.push((rank, card)),
            Some((_, known)) if known.node == card.node && known.store == card.store => {}
            Some((other, known)) if known.node == card.node => {
                return Err(Error::of_two_stores(*other, rank));
            }
            Some((other, _)) => return Err(Error::of_shared_store(*other, rank)),
        }
    }
    let one_machine = cards.iter().all(|card| card.machine == first.machine);
    Ok(Decision::Form { fabric: if one_machine { FabricChoice::Shm } else { FabricChoice::Ofi } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(node: u64, store: u64, machine: u64, cluster: u64) -> Card {
        let store = StoreIdentity { boot: BootId([7; 16]), device: 1, inode: store };
        Card { store, node, machine, cluster, rank: 3 }
    }

    #[test]
    fn cards_survive_the_wire() {
        let card = card(1, 2, 3, 4);
        assert_eq!(Card::from_bytes(&Card::to_bytes(Some(&card))), Some(card));
        assert_eq!(Card::from_bytes(&Card::to_bytes(None)), None);
    }

    #[test]
    fn ranks_of_one_store_need_no_cluster() {
        for clusters in [[0, 0], [8, 9]] {
            let cards = clusters.map(|cluster| card(1, 2, 3, cluster));
            assert_eq!(decide(&cards).unwrap(), Decision::OneNode);
        }
    }

    #[test]
    fn a_cluster_of_all_is_used_again() {
        assert_eq!(decide(&[card(1, 2, 3, 8), card(4, 5, 6, 8)]).unwrap(), Decision::Latest);
        assert_eq!(decide(&[card(1, 2, 3, 8), card(1, 2, 3, 8)]).unwrap(), Decision::Latest);
    }

    #[test]
    fn ranks_of_several_stores_form_a_cluster() {
        let near = decide(&[card(1, 1, 3, 8), card(2, 2, 3, 9)]);
        assert_eq!(near.unwrap(), Decision::Form { fabric: FabricChoice::Shm });
        let far = decide(&[card(1, 1, 3, 0), card(2, 2, 4, 0), card(1, 1, 3, 0)]);
        assert_eq!(far.unwrap(), Decision::Form { fabric: FabricChoice::Ofi });
    }

    #[test]
    fn nodes_and_stores_that_do_not_fit_are_named() {
        let torn = decide(&[card(1, 1, 3, 0), card(2, 2, 3, 0), card(1, 3, 3, 0)])
            .expect_err("two stores")
            .to_string();
        assert!(torn.contains("ranks 0 and 2 run on one node"), "{torn}");
        let shared = decide(&[card(1, 1, 3, 0), card(2, 2, 3, 0), card(3, 2, 3, 0)])
            .expect_err("one store")
            .to_string();
        assert!(shared.contains("ranks 1 and 2 use one store"), "{shared}");
    }
}
