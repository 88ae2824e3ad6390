//! By which interface the other machines reach rank 0's.
//!
//! A machine may have several, some of which lead nowhere (a bridge for containers has the same address on every
//! machine). Rank 0 listens at all; which of them is the right one for a fabric shows only to those who come from
//! elsewhere. They try rank 0's addresses one after the other, and tell all by the exchange which one answered: rank 0,
//! and the processes beside it, which reach it at any of them, are reached there as well.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::exchange::Exchange;
use super::start::{connect, unaddressed};
use crate::error::{Error, Result};
use crate::units::Rank;

/// How long a process tries rank 0's addresses before it leaves it to the others to find the right one.
const LIMIT: Duration = Duration::from_secs(10);

/// The addresses at which others may reach a listener, which may listen at all interfaces.
pub(super) fn candidates(listener: &TcpListener) -> Result<Vec<SocketAddr>> {
    let ours = listener.local_addr().map_err(unaddressed)?;
    if !ours.ip().is_unspecified() {
        return Ok(vec![ours]);
    }
    let mut addresses: Vec<_> = interfaces()?
        .into_iter()
        .filter(|ip| is_reached_from_elsewhere(ip) && ip.is_ipv4() == ours.is_ipv4())
        .map(|ip| SocketAddr::new(ip, ours.port()))
        .collect();
    if addresses.is_empty() {
        let loopback = match ours {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        addresses.push(SocketAddr::new(loopback, ours.port()));
    }
    Ok(addresses)
}

/// The address to listen at for all interfaces: that of IPv6 only where this machine is reached by no other.
pub(super) fn everywhere() -> Result<IpAddr> {
    let ways: Vec<_> = interfaces()?.into_iter().filter(is_reached_from_elsewhere).collect();
    let is_of_ipv6 = !ways.is_empty() && ways.iter().all(IpAddr::is_ipv6);
    Ok(if is_of_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() })
}

/// Whether an address of an interface may lead here from another machine. One of a link of IPv6 does not say by which
/// link.
fn is_reached_from_elsewhere(ip: &IpAddr) -> bool {
    !ip.is_loopback() && !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// In which order this process is to try rank 0's `addresses`, and at which of them other machines reach rank 0's, as
/// far as that is known. Where there is only one, there is nothing to find out; else all agree by the exchange.
///
/// # Errors
/// The exchange's own.
pub(super) fn agree(
    exchange: &mut dyn Exchange,
    mut addresses: Vec<SocketAddr>,
) -> Result<(Vec<SocketAddr>, Option<IpAddr>)> {
    if addresses.len() < 2 {
        return Ok((addresses, None));
    }
    let found = if exchange.rank() == Rank(0) { None } else { find(&addresses) };
    let vote = match found {
        Some(Found { index, is_elsewhere: true }) => vec![index as u8],
        _ => Vec::new(),
    };
    let votes = exchange.all_gather(&vote)?;
    let known = elect(&addresses, &votes);
    if let Some(Found { index, .. }) = found {
        // It answered: the others need not be waited for again.
        addresses[..=index].rotate_right(1);
    }
    Ok((addresses, known))
}

/// Which of rank 0's addresses answered.
struct Found {
    index: usize,
    /// Whether from another machine.
    is_elsewhere: bool,
}

fn find(addresses: &[SocketAddr]) -> Option<Found> {
    let deadline = Instant::now() + LIMIT;
    // More than a byte counts, no machine has.
    for (index, at) in addresses.iter().enumerate().take(usize::from(u8::MAX)) {
        if let Ok(stream) = connect(&at.to_string(), deadline)
            && let Ok(ours) = stream.local_addr()
        {
            return Some(Found { index, is_elsewhere: ours.ip() != at.ip() });
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    None
}

/// The address for which most have voted; of several, that which comes first.
fn elect(addresses: &[SocketAddr], votes: &[Vec<u8>]) -> Option<IpAddr> {
    let mut counts = HashMap::new();
    for index in votes.iter().filter_map(|vote| vote.first()) {
        *counts.entry(usize::from(*index)).or_insert(0_usize) += 1;
    }
    let (index, _) = counts.into_iter().max_by_key(|(index, count)| (*count, std::cmp::Reverse(*index)))?;
    addresses.get(index).map(SocketAddr::ip)
}

/// At which address this process is reached by the others, given its connection to rank 0: where that leaves from, or
/// on rank 0's machine, where it says nothing of the way to others, `known`.
///
/// # Errors
/// `System`.
pub(super) fn reached_at(to_master: &TcpStream, known: Option<IpAddr>) -> Result<IpAddr> {
    let ours = to_master.local_addr().map_err(unaddressed)?.ip();
    let theirs = to_master.peer_addr().map_err(unaddressed)?.ip();
    match known {
        // What answers there on another machine, which has the same address, is not rank 0.
        Some(known) if ours == theirs && interfaces()?.contains(&known) => Ok(known),
        _ => Ok(ours),
    }
}

fn interfaces() -> Result<Vec<IpAddr>> {
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|problem| Error::system("asking for the network interfaces", problem))?;
    Ok(interfaces.iter().map(if_addrs::Interface::ip).collect())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// An exchange in which the others have said already what they say.
    struct Said {
        rank: Rank,
        said: Vec<Vec<u8>>,
        rounds: u32,
    }

    impl Exchange for Said {
        fn rank(&self) -> Rank {
            self.rank
        }

        fn size(&self) -> u32 {
            self.said.len() as u32
        }

        fn all_gather(&mut self, ours: &[u8]) -> Result<Vec<Vec<u8>>> {
            self.rounds += 1;
            self.said[self.rank.index()] = ours.to_vec();
            Ok(self.said.clone())
        }
    }

    fn exchange(rank: u32, said: &[&[u8]]) -> Said {
        Said { rank: Rank(rank), said: said.iter().map(|said| said.to_vec()).collect(), rounds: 0 }
    }

    /// An address at which nobody listens, and one at which `listener` does. To the kernel, these are this machine's
    /// own, but connections to it leave from 127.0.0.1: as from elsewhere.
    fn deaf_and_open(listener: &TcpListener) -> [SocketAddr; 2] {
        let port = listener.local_addr().unwrap().port();
        [2, 3].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), port)))
    }

    #[test]
    fn rank_0_is_reached_where_others_reached_it_not_at_its_first_interface() {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 3), 0)).unwrap();
        let addresses = deaf_and_open(&listener);
        let mut theirs = exchange(1, &[&[], &[], &[1], &[0], &[]]);
        let (order, known) = agree(&mut theirs, addresses.to_vec()).unwrap();
        assert_eq!(order, [addresses[1], addresses[0]]);
        assert_eq!(known, Some(addresses[1].ip()));
        assert_eq!(theirs.said[1], [1]);
        let mut ours = exchange(0, &[&[], &[1], &[1], &[0], &[]]);
        assert_eq!(agree(&mut ours, addresses.to_vec()).unwrap(), (addresses.to_vec(), known));
    }

    #[test]
    fn who_is_beside_rank_0_has_no_vote_and_goes_by_the_others() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let [deaf, _] = deaf_and_open(&listener);
        let own = listener.local_addr().unwrap();
        let mut beside = exchange(1, &[&[], &[]]);
        assert_eq!(agree(&mut beside, vec![own, deaf]).unwrap(), (vec![own, deaf], None));
        assert!(beside.said[1].is_empty());
        let stream = TcpStream::connect(own).unwrap();
        let another = interfaces().unwrap().into_iter().find(|ip| *ip != own.ip()).unwrap_or(own.ip());
        assert_eq!(reached_at(&stream, Some(another)).unwrap(), another);
        // One that this machine does not have says nothing of it.
        assert_eq!(reached_at(&stream, Some(Ipv4Addr::new(192, 0, 2, 1).into())).unwrap(), own.ip());
    }

    #[test]
    fn with_one_address_there_is_nothing_to_agree_on() {
        let only = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        let mut exchange = exchange(0, &[&[]]);
        assert_eq!(agree(&mut exchange, vec![only]).unwrap(), (vec![only], None));
        assert_eq!(exchange.rounds, 0);
    }
}
