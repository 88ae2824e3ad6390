//! What the links carry, by iperf3.

use svmio_tests::Hosts;

use crate::wire::{Server, iperf};

/// iperf3's servers, on all hosts, which take what the next host sends.
pub(super) struct Links<'h> {
    hosts: &'h Hosts,
    _servers: Vec<Server>,
}

impl<'h> Links<'h> {
    /// Starts them.
    pub(super) fn new(hosts: &'h Hosts) -> Links<'h> {
        Links { hosts, _servers: (0..hosts.count()).map(|host| Server::start(hosts, host)).collect() }
    }

    /// MB/s that the first `readers` hosts get from the next one, all at the same time, together.
    pub(super) fn megabytes_per_second(&self, readers: usize) -> f64 {
        let next = |reader| (reader + 1) % self.hosts.count();
        std::thread::scope(|scope| {
            let flows: Vec<_> = (0..readers)
                .map(|reader| scope.spawn(move || iperf(self.hosts, next(reader), reader)))
                .collect();
            let got = flows.into_iter().map(|flow| flow.join().expect("its panic is above"));
            got.sum()
        })
    }
}
