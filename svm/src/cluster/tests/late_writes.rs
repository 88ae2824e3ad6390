//! Homes whose writes into others' caches come late, if nothing fetches them.

use std::os::unix::fs::FileExt;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::Duration;

use svmio_transport::faulty::{FaultPlan, Faulty};
use svmio_transport::message::MessageSettings;
use svmio_transport::{Fabric, Rank};

use super::super::wire::{Part, Request};
use super::{PAGE, SEGMENT, job};
use crate::cache::{Fetch, PageKey, PageNumber};
use crate::{
    CacheSettings, Cluster, FileName, FileOffset, NodeIndex, OpenOptions, SegmentIndex, SegmentSize,
};

#[test]
fn what_a_home_wrote_before_it_failed_has_arrived_when_it_says_so() {
    let (_directory, stores) = job::stores(2);
    let (mut fabrics, _) = job::fabrics_of(&stores.iter().collect::<Vec<_>>());
    let plan = FaultPlan { late: 1.0, late_by: Duration::from_millis(20), ..FaultPlan::default() };
    fabrics[1] = Fabric::new(Faulty::new(Arc::clone(fabrics[1].back_end()), plan));
    let (together, introduction, place) = (Barrier::new(2), OnceLock::new(), OnceLock::new());
    let run = |fabric: &Fabric, store| {
        let cache = CacheSettings { page: PAGE, capacity: 16 * PAGE };
        let cluster = Cluster::join(fabric.clone(), store, &cache, &MessageSettings::default()).unwrap();
        let size = SegmentSize::new(SEGMENT).unwrap();
        let options = OpenOptions::read_write().create(true).segment_size(Some(size));
        if cluster.rank() == Rank(0) {
            let name = FileName::new("f").unwrap();
            let nodes = [NodeIndex(0), NodeIndex(1)];
            introduction.set(cluster.open(&name, &options, &nodes).unwrap()).unwrap();
        }
        together.wait();
        let file = cluster.attach(introduction.get().unwrap(), &options).unwrap();
        if cluster.rank() == Rank(1) {
            file.write_at(FileOffset(0), &[7; PAGE as usize]).unwrap();
            together.wait();
            together.wait();
            let agent = cluster.agent.as_ref().unwrap();
            let part = |bytes| Part::one(SegmentIndex(0), 0, bytes);
            let too_long = part(CacheSettings::LARGEST_PAGE as u32 + 1);
            let pages = vec![(part(PAGE as u32), *place.get().unwrap()), (too_long, 0)];
            let failed = agent.serve_for(Rank(0), &Request::Fetch { file: file.id(), pages });
            assert!(failed.is_err(), "{failed:?}");
            together.wait();
        } else {
            together.wait();
            let key = PageKey { file: file.id(), page: PageNumber(0) };
            let Ok(Fetch::Begun(ticket)) = cluster.cache.begin_fetch(&key) else {
                panic!("the page is not there")
            };
            place.set(ticket.offset).unwrap();
            together.wait();
            together.wait();
            let mut page = [0; PAGE as usize];
            cluster.cache.file().read_exact_at(&mut page, ticket.offset).unwrap();
            assert!(page == [7; PAGE as usize], "it is still to arrive");
            cluster.cache.abandon_fetch(ticket, false).unwrap();
        }
        together.wait();
        cluster.leave();
    };
    job::watched(Duration::from_secs(60), &"late writes", || {
        std::thread::scope(|scope| {
            for (fabric, store) in fabrics.iter().zip(&stores) {
                scope.spawn(|| run(fabric, store.clone()));
            }
        });
    });
}
