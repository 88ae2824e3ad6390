//! Which of libfabric's providers, and what it is like.

use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use super::OfiSettings;
use super::sys::{self, fi_info, library};
use crate::error::{Error, Result};

/// One network that one provider offers: who, from which address, with which limits.
pub(super) struct Offer(NonNull<fi_info>);

// SAFETY: an owned structure that nobody changes after it was made.
unsafe impl Send for Offer {}
// SAFETY: as above.
unsafe impl Sync for Offer {}

/// Providers that are chosen by themselves, the best first. Those of adapters that write remotely without the
/// target's help come before those that emulate it over sockets; `net` is the leanest of the latter (libfabric calls
/// it `tcp` from 1.18 on, and the older `tcp` needs `ofi_rxm`). Not among them: `shm`, which reaches no other node;
/// `sockets`, which is no longer kept; `udp`, which is lossy; the hooks, which only observe.
const PREFERRED: [&str; 10] =
    ["verbs;ofi_rxm", "cxi", "efa", "opx", "psm3", "psm2", "psm", "net", "tcp", "tcp;ofi_rxm"];

/// The names of the providers that are chosen by themselves, where the machine has them, the best first. Others have
/// to be asked for by name.
pub const PROVIDERS: &[&str] = &PREFERRED;

/// How many of them drive an adapter, which has its own addresses and needs no processor to write.
const WITH_ADAPTER: usize = 7;

impl Offer {
    /// The offer that `settings` ask for, or else the best there is, for a process that others have met at `met_at`;
    /// and the address by which it was found, if by any.
    ///
    /// # Errors
    /// `Provider` where nothing suits.
    pub(super) fn choose(settings: &OfiSettings, met_at: Option<IpAddr>) -> Result<(Self, String)> {
        let name = &settings.provider;
        if !name.is_empty() {
            let address = address(settings, met_at.filter(|_| !drives_adapter(name)));
            let offers = query(settings, Some(name), &address)?;
            let exact = offers.iter().position(|offer| offer.provider() == *name);
            let offer = offers.into_iter().nth(exact.unwrap_or(0));
            let hint = "is it installed, and is the address one of this machine?";
            let offer = offer.ok_or_else(|| nothing(settings, &address, hint))?;
            offer.tell_if_unaddressed(settings);
            return Ok((offer, address));
        }
        let (best, address) = choose_any(settings, met_at, |address| query(settings, None, address))?;
        let best =
            best.ok_or_else(|| nothing(settings, &address, "`fi_info -t FI_EP_RDM` lists what there is"))?;
        best.tell_if_unaddressed(settings);
        Ok((best, address))
    }

    /// Tells that the address that is set is none of this network's.
    fn tell_if_unaddressed(&self, settings: &OfiSettings) {
        if !settings.address.is_empty() && !self.has_ip_addresses() {
            let (address, provider) = (&settings.address, self.provider());
            tracing::warn!(
                address,
                provider,
                "ofi.address has no effect: the provider has no IP addresses; ofi.interface chooses its adapter"
            );
        }
    }

    /// Whether its addresses are those of IP.
    fn has_ip_addresses(&self) -> bool {
        let formats = [sys::FI_SOCKADDR, sys::FI_SOCKADDR_IN, sys::FI_SOCKADDR_IN6];
        formats.contains(&self.address_format())
    }

    /// The provider's name.
    pub(super) fn provider(&self) -> String {
        // SAFETY: an offer has its attributes; the name is a string or missing.
        let name = unsafe { (*self.info().fabric_attr).prov_name };
        if name.is_null() {
            return "?".into();
        }
        // SAFETY: just checked.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// The network's name: an interface, or an adapter's port.
    fn domain(&self) -> String {
        // SAFETY: an offer has its attributes; the name is a string or missing.
        let name = unsafe { (*self.info().domain_attr).name };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: just checked.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// Whether an adapter carries transfers out, so that processors are free meanwhile.
    pub(super) fn has_adapter(&self) -> bool {
        PREFERRED[..WITH_ADAPTER].contains(&self.provider().as_str())
    }

    /// The longest message that need not be kept until it has left, in bytes.
    pub(super) fn inject_size(&self) -> usize {
        // SAFETY: an offer has its attributes.
        unsafe { (*self.info().tx_attr).inject_size }
    }

    /// The longest transfer, in bytes.
    pub(super) fn largest_message(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.info().ep_attr).max_msg_size }
    }

    /// Which remote writes to one peer arrive in the order in which they were issued: those that are shorter than so
    /// many bytes, each of them. 0 where none do; the largest number, where all do.
    pub(super) fn orders_writes_below(&self) -> usize {
        // SAFETY: as above.
        let (order, below) =
            unsafe { ((*self.info().tx_attr).msg_order, (*self.info().ep_attr).max_order_waw_size) };
        ordered_below(order, below)
    }

    /// Whether messages from one peer complete in the order in which they were sent, long ones too.
    pub(super) fn completes_in_order(&self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.info().rx_attr).comp_order & sys::FI_ORDER_STRICT != 0 }
    }

    /// Whether nothing comes any more into memory whose registration has ended: those whose adapters look the key up
    /// for each packet. Providers of sockets look it up once for each write, `verbs` keeps registrations that have
    /// ended for later, and others do not tell.
    pub(super) fn ends_transfers_with_registrations(&self) -> bool {
        self.provider() == "cxi"
    }

    /// How many sends and receives may be under way at once.
    pub(super) fn queue_lengths(&self) -> (usize, usize) {
        // SAFETY: as above.
        unsafe { ((*self.info().tx_attr).size, (*self.info().rx_attr).size) }
    }

    /// Whether memory registration has a peculiarity, one of the `FI_MR_` words.
    pub(super) fn registers(&self, how: u64) -> bool {
        // SAFETY: as above.
        unsafe { (*self.info().domain_attr).mr_mode as u64 & how != 0 }
    }

    /// Has the provider want more of memory registration than it does: what adapters do.
    #[cfg(test)]
    pub(super) fn demand(&mut self, how: u64) {
        // SAFETY: as above; nobody else has it.
        unsafe { (*(*self.0.as_ptr()).domain_attr).mr_mode |= how as i32 };
    }

    /// How many bytes a registration's key has.
    pub(super) fn key_size(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.info().domain_attr).mr_key_size }
    }

    /// Of which kind the addresses are.
    pub(super) fn address_format(&self) -> u32 {
        self.info().addr_format
    }

    /// The structure, for calls that want it. They do not change it, though their types say they might.
    pub(super) fn as_ptr(&self) -> *mut fi_info {
        self.0.as_ptr()
    }

    fn info(&self) -> &fi_info {
        // SAFETY: owned and valid until dropped.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Ok(library) = library() {
            // SAFETY: owned, and not used after.
            unsafe { (library.freeinfo)(self.0.as_ptr()) };
        }
    }
}

/// What a provider says of the order of writes: that it keeps it at all, and below which size.
fn ordered_below(message_order: u64, write_after_write: usize) -> usize {
    let keeps = message_order & (sys::FI_ORDER_WAW | sys::FI_ORDER_RMA_WAW) != 0;
    if keeps { write_after_write } else { 0 }
}

/// The best of all offers, where no provider is named, for a process that others have met at `met_at`; and the address
/// by which it was found, if by any. `offers` tells what there is at an address, or in all where that is empty.
fn choose_any(
    settings: &OfiSettings,
    met_at: Option<IpAddr>,
    mut offers: impl FnMut(&str) -> Result<Vec<Offer>>,
) -> Result<(Option<Offer>, String)> {
    let adapters = &PREFERRED[..WITH_ADAPTER];
    // An adapter's addresses are not those of the start-up's network, only one that is set may be.
    let set = settings.address.as_str();
    if !set.is_empty() {
        let mut at_it = offers(set)?;
        at_it.retain(Offer::has_ip_addresses);
        if let Some(best) = best(at_it, adapters) {
            return Ok((Some(best), set.to_owned()));
        }
    }
    let mut anywhere = offers("")?;
    // The others have addresses of that kind, and not this one.
    anywhere.retain(|offer| set.is_empty() || !offer.has_ip_addresses());
    if let Some(best) = best(anywhere, adapters) {
        return Ok((Some(best), String::new()));
    }
    let address = address(settings, met_at);
    Ok((best(offers(&address)?, &PREFERRED[WITH_ADAPTER..]), address))
}

/// The offer of the provider that comes first in `order`.
fn best(offers: Vec<Offer>, order: &[&str]) -> Option<Offer> {
    let place = |offer: &Offer| order.iter().position(|name| *name == offer.provider());
    offers.into_iter().filter(|offer| place(offer).is_some()).min_by_key(place)
}

/// Whether the provider of this name, or the one that it is a part of, drives an adapter.
fn drives_adapter(name: &str) -> bool {
    PREFERRED[..WITH_ADAPTER].iter().any(|known| core_of(known) == core_of(name))
}

/// A provider's name without those of the utilities that are layered over it.
fn core_of(name: &str) -> &str {
    name.split_once(';').map_or(name, |(core, _)| core)
}

/// The address to look for: what is set, or else where others have met this process, unless an interface is chosen for
/// an address of its own. Empty where it may be any.
fn address(settings: &OfiSettings, met_at: Option<IpAddr>) -> String {
    let met_at = met_at.filter(|_| settings.interface.is_empty());
    match (settings.address.as_str(), met_at) {
        ("", Some(met_at)) => met_at.to_string(),
        (set, _) => set.to_owned(),
    }
}

/// All offers of reliable datagrams with messages in order and remote writes, from an address unless that is empty.
fn query(settings: &OfiSettings, provider: Option<&str>, from: &str) -> Result<Vec<Offer>> {
    let library = library()?;
    let hints = hints(settings, provider)?;
    let address = text(from)?;
    let (node, flags) = match from.is_empty() {
        true => (ptr::null(), 0),
        false => (address.as_ptr(), sys::FI_SOURCE),
    };
    let mut found = ptr::null_mut();
    // SAFETY: valid strings and hints; the list that is found is freed below.
    let answer = unsafe { library.query(node, flags, hints.as_ptr(), &mut found) };
    if answer == -libc::ENODATA {
        return Ok(Vec::new());
    }
    if answer != 0 {
        return Err(nothing(settings, from, &library.describe(answer as isize)));
    }
    let mut offers = Vec::new();
    let mut next = found;
    while !next.is_null() {
        // SAFETY: an entry of the list; a copy is made of it alone.
        let (copy, following) = unsafe { ((library.dupinfo)(next), (*next).next) };
        offers.extend(NonNull::new(copy).map(Offer));
        next = following;
    }
    // SAFETY: the list that `query` made, not used after.
    unsafe { (library.freeinfo)(found) };
    // Not all providers heed the hint.
    offers.retain(|offer| settings.interface.is_empty() || offer.domain() == settings.interface);
    Ok(offers)
}

/// What svmio needs of a provider.
fn hints(settings: &OfiSettings, provider: Option<&str>) -> Result<Offer> {
    let library = library()?;
    let provider = provider.map(text).transpose()?;
    let interface = text(&settings.interface)?;
    // SAFETY: of nothing, the library makes an empty structure with all its parts.
    let hints =
        NonNull::new(unsafe { (library.dupinfo)(ptr::null()) }).map(Offer).ok_or_else(|| Error::Memory {
            what: "a question to libfabric".into(),
            length: size_of::<fi_info>() as u64,
            source: std::sync::Arc::new(std::io::ErrorKind::OutOfMemory.into()),
        })?;
    // SAFETY: the structure is ours alone and has its parts; the strings are copies by `strdup`, which the library
    // frees with it.
    unsafe {
        let info = &mut *hints.as_ptr();
        info.caps = sys::FI_MSG | sys::FI_RMA;
        // Contexts of operations lie in structures of ours with room for the provider's own words.
        info.mode = sys::FI_CONTEXT | sys::FI_CONTEXT2;
        (*info.ep_attr).type_ = sys::fi_ep_type_FI_EP_RDM;
        (*info.domain_attr).threading = sys::fi_threading_FI_THREAD_SAFE;
        (*info.domain_attr).resource_mgmt = sys::fi_resource_mgmt_FI_RM_ENABLED;
        (*info.domain_attr).mr_mode = (sys::FI_MR_LOCAL
            | sys::FI_MR_VIRT_ADDR
            | sys::FI_MR_ALLOCATED
            | sys::FI_MR_PROV_KEY
            | sys::FI_MR_ENDPOINT) as i32;
        (*info.tx_attr).msg_order = sys::FI_ORDER_SAS;
        (*info.rx_attr).msg_order = sys::FI_ORDER_SAS;
        if let Some(provider) = provider {
            (*info.fabric_attr).prov_name = libc::strdup(provider.as_ptr());
        }
        if !settings.interface.is_empty() {
            (*info.domain_attr).name = libc::strdup(interface.as_ptr());
        }
    }
    Ok(hints)
}

fn text(setting: &str) -> Result<CString> {
    CString::new(setting).map_err(|_| Error::Setting {
        place: "ofi".into(),
        problem: format!("{setting:?} contains a zero byte"),
    })
}

fn nothing(settings: &OfiSettings, address: &str, way_out: &str) -> Error {
    let or_any = |setting: &str| if setting.is_empty() { "any".into() } else { format!("{setting:?}") };
    Error::Provider {
        doing: format!(
            "looking for a network with ordered messages and remote writes (address {}, interface {})",
            or_any(address),
            or_any(&settings.interface),
        ),
        provider: if settings.provider.is_empty() { "any" } else { &settings.provider }.into(),
        problem: format!("there is none; {way_out}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::{Offer, address, choose_any, drives_adapter, hints, ordered_below};
    use crate::ofi::OfiSettings;
    use crate::ofi::sys;

    fn choose(provider: &str, address: &str) -> crate::Result<Offer> {
        let settings =
            OfiSettings { provider: provider.into(), address: address.into(), ..OfiSettings::default() };
        Offer::choose(&settings, None).map(|(offer, _)| offer)
    }

    #[test]
    fn a_provider_is_found_by_itself_and_by_name() {
        let offer = choose("", "127.0.0.1").unwrap();
        assert!(offer.inject_size() > 0 && offer.largest_message() >= 1 << 20, "{}", offer.provider());
        assert_eq!(choose("tcp;ofi_rxm", "127.0.0.1").unwrap().provider(), "tcp;ofi_rxm");
    }

    #[test]
    fn what_is_not_there_is_told_by_name() {
        let problem = choose("carrier-pigeon", "").err().unwrap().to_string();
        assert!(problem.contains("carrier-pigeon"), "{problem}");
        let settings = OfiSettings { interface: "nowhere0".into(), ..OfiSettings::default() };
        let problem = Offer::choose(&settings, None).err().unwrap().to_string();
        assert!(problem.contains("nowhere0"), "{problem}");
    }

    /// An offer of `provider` from the port `interface`.
    fn offer(provider: &str, interface: &str, format: u32) -> Offer {
        let settings = OfiSettings { interface: interface.into(), ..OfiSettings::default() };
        let offer = hints(&settings, Some(provider)).unwrap();
        // SAFETY: a structure that nobody else has.
        unsafe { (*offer.as_ptr()).addr_format = format };
        offer
    }

    /// What is chosen where `set` is `ofi.address`, on a machine with these offers, each with its address.
    fn choose_among(set: &str, machine: &[(&str, &str, u32, &str)]) -> (String, String, String) {
        let settings = OfiSettings { address: set.into(), ..OfiSettings::default() };
        let met_at = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        let (found, at) = choose_any(&settings, met_at, |wanted| {
            let there = machine.iter().filter(|(.., address)| wanted.is_empty() || wanted == *address);
            Ok(there.map(|(provider, port, format, _)| offer(provider, port, *format)).collect())
        })
        .unwrap();
        let found = found.unwrap();
        (found.provider(), found.domain(), at)
    }

    #[test]
    fn an_address_chooses_among_adapters_and_is_not_dropped_for_one() {
        let chosen = |provider: &str, port: &str, at: &str| (provider.into(), port.into(), at.into());
        let machine = [
            ("tcp;ofi_rxm", "eth0", sys::FI_SOCKADDR_IN, "10.0.0.1"),
            ("tcp;ofi_rxm", "lo", sys::FI_SOCKADDR_IN, "127.0.0.1"),
            ("verbs;ofi_rxm", "mlx5_0", sys::FI_SOCKADDR_IN, "192.168.0.1"),
            ("verbs;ofi_rxm", "mlx5_1", sys::FI_SOCKADDR_IN, "192.168.1.1"),
        ];
        assert_eq!(choose_among("", &machine), chosen("verbs;ofi_rxm", "mlx5_0", ""));
        for (port, at) in [("mlx5_0", "192.168.0.1"), ("mlx5_1", "192.168.1.1")] {
            assert_eq!(choose_among(at, &machine), chosen("verbs;ofi_rxm", port, at));
        }
        // One that no adapter has is one of the sockets.
        assert_eq!(choose_among("10.0.0.1", &machine), chosen("tcp;ofi_rxm", "eth0", "10.0.0.1"));

        // To adapters whose addresses are others it says nothing, neither for them nor against them.
        let other = [("cxi", "cxi0", sys::FI_FORMAT_UNSPEC, "0x1"), machine[0], machine[1]];
        for set in ["", "10.0.0.1"] {
            assert_eq!(choose_among(set, &other), chosen("cxi", "cxi0", ""));
        }
        assert_eq!(choose_among("", &machine[..2]), chosen("tcp;ofi_rxm", "lo", "127.0.0.1"));
    }

    #[test]
    fn writes_are_in_order_below_the_size_that_the_provider_says() {
        for order in [sys::FI_ORDER_WAW, sys::FI_ORDER_RMA_WAW] {
            // `psm3` keeps the order of short ones, sockets that of all.
            assert_eq!([4096, usize::MAX, 0].map(|below| ordered_below(order, below)), [4096, usize::MAX, 0]);
        }
        assert_eq!(ordered_below(sys::FI_ORDER_SAS, usize::MAX), 0);
    }

    #[test]
    fn where_others_have_met_this_process_is_no_address_of_an_adapter() {
        for name in ["verbs;ofi_rxm", "verbs", "cxi", "efa", "psm3"] {
            assert!(drives_adapter(name), "{name}");
        }
        for name in ["net", "tcp", "tcp;ofi_rxm", "shm", "verbose"] {
            assert!(!drives_adapter(name), "{name}");
        }
        // A provider of sockets is looked for there; what is set goes before.
        let met_at = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        let named = |provider: &str| OfiSettings { provider: provider.into(), ..OfiSettings::default() };
        for provider in ["tcp;ofi_rxm", ""] {
            let (_, found_at) = Offer::choose(&named(provider), met_at).unwrap();
            assert!(["127.0.0.1", ""].contains(&found_at.as_str()), "{provider}: {found_at}");
        }
        let set = OfiSettings { address: "10.0.0.1".into(), ..named("verbs;ofi_rxm") };
        assert_eq!(address(&set, met_at), "10.0.0.1");
        let interface = OfiSettings { interface: "eth0".into(), ..OfiSettings::default() };
        assert_eq!(address(&interface, met_at), "");
        // That no adapter is there is not put down to that address.
        let problem = Offer::choose(&named("verbs;ofi_rxm"), met_at).err();
        assert!(problem.is_none_or(|problem| problem.to_string().contains("address any")));
    }
}
