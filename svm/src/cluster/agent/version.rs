//! How often a segment was changed, and by whom: told to those who ask, and to those who read by themselves.

use std::collections::HashMap;

use svmio_transport::SharedMemory;

use crate::cluster::NodeIndex;
use crate::cluster::version_word::Words;

use super::published::Row;

/// How often a segment was changed, and how often by whom: a node's own changes are no news to it.
#[derive(Debug)]
pub(super) struct Version<M = SharedMemory> {
    all: u64,
    by: HashMap<NodeIndex, u64>,
    /// Where others read it.
    row: Option<Row<M>>,
}

impl<M> Default for Version<M> {
    fn default() -> Self {
        Version { all: 0, by: HashMap::new(), row: None }
    }
}

impl<M: Words> Version<M> {
    /// How often it was changed, by whomever.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// Changes by others than `node`.
    pub(super) fn seen_by(&self, node: NodeIndex) -> u64 {
        self.all - self.by.get(&node).copied().unwrap_or_default()
    }

    /// Counts a change by `node`, whose bytes are there.
    pub(super) fn add(&mut self, node: NodeIndex) {
        self.all += 1;
        *self.by.entry(node).or_default() += 1;
        self.tell();
    }

    /// Counts changes of which nobody knows how many there were, and by whom.
    pub(super) fn add_unknown(&mut self) {
        self.all += 1;
        self.tell();
    }

    /// Where others read it, if they do.
    pub(super) fn row(&self) -> Option<&Row<M>> {
        self.row.as_ref()
    }

    /// Has others read it there from now on, or nowhere.
    pub(super) fn set_row(&mut self, row: Option<Row<M>>) {
        self.row = row;
        self.tell();
    }

    fn tell(&self) {
        if let Some(row) = &self.row {
            row.tell(|node| self.seen_by(node));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;
    use crate::cluster::version_word;

    const NODES: u32 = 3;

    /// Words of this process.
    #[derive(Clone, Default)]
    struct Own(Arc<[AtomicU64; 2 * NODES as usize]>);

    impl Words for Own {
        type Word = AtomicU64;

        fn word(&self, at: u64) -> svmio_transport::Result<&AtomicU64> {
            assert!(at.is_multiple_of(8));
            Ok(&self.0[at as usize / 8])
        }
    }

    proptest! {
        #[test]
        fn who_reads_it_and_who_asks_for_it_find_the_same(
            changes in prop::collection::vec(prop::option::of(0..NODES + 1), 0..50),
            from in 0..50usize,
        ) {
            let (mut version, own) = (Version::default(), Own::default());
            let (mut before, mut counts) = ([0; NODES as usize], [0; NODES as usize]);
            for (number, by) in changes.into_iter().enumerate() {
                if number == from {
                    version.set_row(Some(Row::new(own.clone(), 7, 8 * u64::from(NODES), NODES)));
                }
                match by {
                    // One more than there are: by a mapping, which is news to all.
                    Some(node) => version.add(NodeIndex(node)),
                    None => version.add_unknown(),
                }
                for node in 0..NODES {
                    counts[node as usize] += u64::from(by != Some(node));
                    prop_assert_eq!(version.seen_by(NodeIndex(node)), counts[node as usize]);
                    if number >= from {
                        let (table, at) = version.row().unwrap().word_of(NodeIndex(node));
                        let told = version_word::take(&own, at).unwrap();
                        prop_assert_eq!((table, told), (7, counts[node as usize]));
                        prop_assert!(told >= before[node as usize], "it shrinks");
                        before[node as usize] = told;
                    }
                }
            }
            // The first row is another segment's.
            prop_assert!(own.0[..NODES as usize].iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
        }
    }
}

/// All interleavings of those who change a segment with one who reads it by himself.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;
    use crate::cluster::version_word::{self, Word};

    const HOME: NodeIndex = NodeIndex(0);
    const WRITER: NodeIndex = NodeIndex(1);
    const READER: NodeIndex = NodeIndex(2);

    /// Words that loom looks at.
    #[derive(Clone, Default)]
    struct Explored(Arc<[AtomicU64; 3]>);

    impl Words for Explored {
        type Word = AtomicU64;

        fn word(&self, at: u64) -> svmio_transport::Result<&AtomicU64> {
            Ok(&self.0[at as usize / 8])
        }
    }

    impl Word for AtomicU64 {
        fn store(&self, value: u64, order: Ordering) {
            AtomicU64::store(self, value, order);
        }

        fn load(&self, order: Ordering) -> u64 {
            AtomicU64::load(self, order)
        }
    }

    struct Home {
        words: Explored,
        version: Mutex<Version<Explored>>,
        /// Of a process of the home, for its agent: it has changed something.
        mark: AtomicU64,
        /// What was stored for another node, and what a process of the home stored by itself.
        bytes: [AtomicU64; 2],
    }

    impl Home {
        fn new() -> Home {
            let (words, mut version) = (Explored::default(), Version::default());
            version.set_row(Some(Row::new(words.clone(), 0, 0, 3)));
            let (version, mark, bytes) = (Mutex::new(version), AtomicU64::default(), Default::default());
            Home { words, version, mark, bytes }
        }

        /// The agent, for another node.
        fn store_for_writer(&self) {
            self.bytes[0].store(1, Ordering::Relaxed);
            self.version.lock().expect("nobody panics").add(WRITER);
        }

        /// As the state's mark does.
        fn store_here(&self) {
            self.bytes[1].store(1, Ordering::Relaxed);
            self.mark.store(1, Ordering::Release);
        }

        /// What the agent tells who asks, and which bytes that counts.
        fn ask(&self) -> (u64, [u64; 2]) {
            let mut version = self.version.lock().expect("nobody panics");
            if self.mark.swap(0, Ordering::Acquire) != 0 {
                version.add(HOME);
            }
            let of = |node| version.by.get(&node).copied().unwrap_or_default();
            (version.seen_by(READER), [of(WRITER), of(HOME)])
        }

        /// What a reader takes with which version.
        fn read(&self) -> (u64, [u64; 2]) {
            let (_, at) = Row::new(self.words.clone(), 0, 0, 3).word_of(READER);
            let version = version_word::take(&self.words, at).expect("there is one");
            (version, [0, 1].map(|byte| self.bytes[byte].load(Ordering::Relaxed)))
        }
    }

    /// In all interleavings, or with at most so many preemptions.
    fn check(preemptions: Option<usize>, others: &'static [fn(&Home)]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.check(move || {
            let home = Arc::new(Home::new());
            let act = |act: &fn(&Home)| {
                let (home, act) = (Arc::clone(&home), *act);
                thread::spawn(move || act(&home))
            };
            let others: Vec<_> = others.iter().map(act).collect();
            let (version, found) = home.read();
            let (current, counted) = home.ask();
            // Else the page is dropped.
            if version >= current {
                let is_there = found.iter().zip(&counted).all(|(found, counted)| found >= counted);
                assert!(is_there, "{found:?} is kept as version {version}, where {counted:?} are counted");
            }
            others.into_iter().for_each(|other| other.join().expect("it ends"));
            // All is over: what is fetched with the version of now is kept, and has all.
            let (current, _) = home.ask();
            assert_eq!(home.read(), (current, [1, 1]));
        });
    }

    #[test]
    fn a_page_that_is_kept_has_what_its_version_counts() {
        check(None, &[Home::store_for_writer, Home::store_here]);
    }

    #[test]
    fn also_where_others_ask_meanwhile() {
        // The soak goes through all of them.
        let preemptions =
            if std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1") { None } else { Some(2) };
        let others: &[fn(&Home)] = &[
            |home| {
                home.store_for_writer();
                home.store_here();
            },
            |home| {
                home.ask();
            },
        ];
        check(preemptions, others);
    }
}
