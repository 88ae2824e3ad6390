//! A communicator's ranks finding out where they are: on one node, in a cluster that there is, or in one that they
//! form now.
//!
//! Each rank shows a [`Card`] to all, and all come to the same [`Decision`]:
//!
//! | what the cards say | decision |
//! |---|---|
//! | all joined the same cluster last | that one |
//! | all use one store | none is needed: the store is used by all directly |
//! | else | a new one is formed, of exactly these ranks |
//!
//! A communicator's only rank decides for itself.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use svmio_svm::team::Team;
use svmio_svm::{BootId, CacheSettings, Cluster, Store, StoreIdentity};
use svmio_transport::Rank;
use svmio_transport::job::{Job, current_node};
use svmio_transport::settings::{FabricChoice, Origin, Settings};

use crate::abi::{Abi, Comm};
use crate::calls::Mpi;
use crate::clusters::{self, Part};
use crate::exchange::CommunicatorExchange;
use crate::failure::{ErrorClass, Failure, parted};
use crate::venue::{Company, Venue};

/// Where the files of `comm`, whose ranks are `team`, live. Succeeds on all of its ranks or on none.
pub(crate) fn meet<A: Abi>(mpi: &Mpi<A>, comm: Comm<A>, team: &Team) -> Result<Venue, Failure> {
    if team.size() == 1 {
        return Venue::alone();
    }
    let rank = mpi.rank(comm);
    let (store, opened) = parted(Store::from_environment().map_err(Failure::from));
    let card = store.as_ref().map(Card::own).transpose().map_err(|failure| failure.on_rank(rank));
    let (card, shown) = parted(card);
    let card = card.flatten();
    let all = team.all_gather_equal(&Card::to_bytes(card.as_ref()))?;
    let cards: Option<Vec<Card>> = all.iter().map(|bytes| Card::from_bytes(bytes)).collect();
    // A card is missing where a rank has no store.
    let (Some(cards), Some(store)) = (cards, store) else {
        let missing = || Failure::new(ErrorClass::Other, "a rank has no store");
        let mine = opened.and(shown).map_err(|failure| failure.on_node(rank, &current_node()));
        team.agree(mine)?;
        return Err(missing());
    };
    // The same on all ranks: they look at the same cards.
    let cluster = match decide(&cards)? {
        Decision::OneNode => return Ok(Venue::OneNode(store)),
        Decision::Latest(id) => clusters::of(id),
        Decision::Form { fabric } => Some(form(mpi, comm, team, &store, fabric)?),
    };
    let Some(cluster) = cluster else {
        return Err(Failure::new(ErrorClass::Other, "MPI is being finalized"));
    };
    // In a new cluster, ranks are those of the communicator.
    let known = cards.iter().all(|card| card.cluster == cluster.id());
    let ranks = (0u32..).zip(&cards).map(|(i, card)| Rank(if known { card.rank } else { i })).collect();
    Ok(Venue::Cluster(Arc::new(Company::new(cluster, store, rank.unsigned_abs() as usize, ranks))))
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

    fn own(store: &Store) -> Result<Card, Failure> {
        let latest = clusters::latest();
        Ok(Card {
            store: store.identity(),
            node: own_node(),
            machine: machine(store.identity().boot)?,
            cluster: latest.as_ref().map_or(0, |cluster| cluster.id()),
            rank: latest.as_ref().map_or(0, |cluster| cluster.rank().0),
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
pub(crate) fn own_node() -> u64 {
    hash(&current_node())
}

/// The same number for processes that can use the `shm` fabric with each other.
pub(crate) fn machine(boot: BootId) -> Result<u64, Failure> {
    // A process stays where it is.
    static MACHINE: OnceLock<u64> = OnceLock::new();
    if let Some(known) = MACHINE.get() {
        return Ok(*known);
    }
    let network = std::fs::read_link("/proc/self/ns/net").map_err(|problem| {
        let message = format!("looking for the network name space (is /proc mounted?): {problem}");
        Failure::new(ErrorClass::Io, message)
    })?;
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
    /// All use the cluster with this id, which they joined last.
    Latest(u64),
    /// They form a cluster, on this fabric unless the user chose another.
    Form { fabric: FabricChoice },
}

/// What the ranks with these cards do.
///
/// # Errors
/// Where nodes and stores do not fit together: which ranks are concerned, and the way out.
fn decide(cards: &[Card]) -> Result<Decision, Failure> {
    let Some(first) = cards.first() else { return Ok(Decision::OneNode) };
    if first.cluster != 0 && cards.iter().all(|card| card.cluster == first.cluster) {
        return Ok(Decision::Latest(first.cluster));
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
            Some((other, known)) => return Err(misfit(*other, rank, known.node == card.node)),
        }
    }
    let one_machine = cards.iter().all(|card| card.machine == first.machine);
    Ok(Decision::Form { fabric: if one_machine { FabricChoice::Shm } else { FabricChoice::Ofi } })
}

fn misfit(first: usize, second: usize, one_node: bool) -> Failure {
    let message = if one_node {
        format!(
            "ranks {first} and {second} run on one node, but with different stores: give all ranks of a node one \
             SVMIO_STORE, or each emulated node a name of its own by SVMIO_NODE"
        )
    } else {
        format!(
            "ranks {first} and {second} use one store, but say that they run on different nodes: give each node a \
             store of its own by SVMIO_STORE, or one name by SVMIO_NODE"
        )
    };
    Failure::new(ErrorClass::Unsupported, message)
}

/// Forms a cluster of the ranks of `comm`. Succeeds on all of them or on none.
fn form<A: Abi>(
    mpi: &Mpi<A>,
    comm: Comm<A>,
    team: &Team,
    store: &Store,
    fabric: FabricChoice,
) -> Result<Arc<Cluster>, Failure> {
    let rank = mpi.rank(comm);
    let located = |failure: Failure| failure.on_node(rank, &current_node());
    let (settings, outcome) = parted(settings(fabric).map_err(located));
    team.agree(outcome)?;
    let Some((settings, cache)) = settings else {
        return Err(Failure::new(ErrorClass::Other, "the ranks have agreed on settings that are not there"));
    };
    let chosen = settings.fabric;
    let joined = Job::by_exchange(&mut CommunicatorExchange::new(mpi, comm), settings)
        .map_err(|error| because("the ranks of a file cannot form a job", &error))
        .and_then(|job| {
            // The job ends with a failure, which the others then notice rather than wait for this rank.
            let cluster = Cluster::join(job.fabric().clone(), store.clone(), &cache)?;
            cluster.reach()?;
            Ok(Part { job, cluster })
        });
    let (part, outcome) = parted(joined.map_err(located));
    let agreed = team.agree(outcome);
    match (agreed, part) {
        (Ok(()), Some(part)) => {
            let cluster = clusters::keep(part);
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
            Err(Failure::new(ErrorClass::Other, "the ranks have agreed on a cluster that is not there"))
        }
    }
}

/// What is in force for a new cluster, on `fabric` unless the user chose another.
fn settings(fabric: FabricChoice) -> Result<(Settings, CacheSettings), Failure> {
    let mut settings =
        Settings::load().map_err(|error| because("svmio's settings cannot be used", &error))?;
    let is_left_open = settings.effective().iter().any(|setting| {
        setting.section.is_empty() && setting.key == "fabric" && setting.origin == Origin::Default
    });
    if is_left_open {
        settings.fabric = fabric;
    }
    let cache = CacheSettings::from_environment().map_err(|error| {
        Failure::new(ErrorClass::Other, format!("svmio's settings cannot be used: {error}"))
    })?;
    Ok((settings, cache))
}

fn because(what: &str, error: &svmio_transport::Error) -> Failure {
    Failure::new(ErrorClass::Other, format!("{what}: {error}"))
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
        assert_eq!(decide(&[card(1, 2, 3, 0), card(1, 2, 3, 0)]), Ok(Decision::OneNode));
        assert_eq!(decide(&[card(1, 2, 3, 8), card(1, 2, 3, 9)]), Ok(Decision::OneNode));
    }

    #[test]
    fn a_cluster_of_all_is_used_again() {
        assert_eq!(decide(&[card(1, 2, 3, 8), card(4, 5, 6, 8)]), Ok(Decision::Latest(8)));
        assert_eq!(decide(&[card(1, 2, 3, 8), card(1, 2, 3, 8)]), Ok(Decision::Latest(8)));
    }

    #[test]
    fn ranks_of_several_stores_form_a_cluster() {
        let near = decide(&[card(1, 1, 3, 8), card(2, 2, 3, 9)]);
        assert_eq!(near, Ok(Decision::Form { fabric: FabricChoice::Shm }));
        let far = decide(&[card(1, 1, 3, 0), card(2, 2, 4, 0), card(1, 1, 3, 0)]);
        assert_eq!(far, Ok(Decision::Form { fabric: FabricChoice::Ofi }));
    }

    #[test]
    fn nodes_and_stores_that_do_not_fit_are_named() {
        let torn = decide(&[card(1, 1, 3, 0), card(2, 2, 3, 0), card(1, 3, 3, 0)]).expect_err("two stores");
        assert!(torn.message.contains("ranks 0 and 2 run on one node"), "{torn}");
        let shared = decide(&[card(1, 1, 3, 0), card(2, 2, 3, 0), card(3, 2, 3, 0)]).expect_err("one store");
        assert!(shared.message.contains("ranks 1 and 2 use one store"), "{shared}");
    }
}
