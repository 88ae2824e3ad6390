//! A process on one of the two nodes: the first measures, the second keeps the file.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use svmio_svm::mapping::{Advice, Mapping, MappingOptions};
use svmio_svm::team::Team;
use svmio_svm::{CacheSettings, Cluster, File, FileName, FileOffset, OpenOptions, Store};
use svmio_transport::job::Job;

use super::bare::{Bare, Kernel, PAGE};
use super::content::{self, word};
use super::peer::{LONGEST_READ, Peer, Window};
use super::placed::Servers;
use super::{Kind, Miss, Part, Plan, Rates, Read, THREADS, Times, Write, Writes};
use crate::interleaved::{in_turn, median};

/// The first argument of such a process.
pub const WORD: &str = "member";

/// What is compared, each of these with servers that are placed alike.
const COMPARED: [Compared; 3] = [
    Compared {
        servers: Servers::Anywhere,
        here: [Kind::Bare, Kind::Zeros],
        there: [Kind::BareAsking, Kind::Remote],
    },
    Compared {
        servers: Servers::Here,
        here: [Kind::BareOnOneCore, Kind::ZerosOnOneCore],
        there: [Kind::BareAskingOnOneCore, Kind::RemoteOnOneCore],
    },
    Compared {
        servers: Servers::Elsewhere,
        here: [Kind::BareOnAnother, Kind::ZerosOnAnother],
        there: [Kind::BareAskingOnAnother, Kind::RemoteOnAnother],
    },
];

/// A bare thread, and a mapping.
struct Compared {
    servers: Servers,
    /// Where no other process is asked.
    here: [Kind; 2],
    /// Where it is.
    there: [Kind; 2],
}

/// The kernel puts so many pages in place where one is touched.
const AROUND: u64 = 16;

/// Does what the argument behind [`WORD`] says.
///
/// # Panics
/// Where something fails.
pub fn run(arguments: &[String]) {
    let plan = arguments.first().expect("the plan is given");
    let plan: Plan = serde_json::from_str(plan).unwrap_or_else(|error| panic!("{plan}: {error}"));
    let job = Job::from_environment().unwrap_or_else(|error| panic!("joining the job: {error}"));
    let rank = job.rank().0;
    let directory = plan.directory.join(format!("node-{rank}"));
    fs::create_dir_all(&plan.directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let store = Store::open(&directory).expect("a new store opens");
    let cluster =
        Cluster::join(job.fabric().clone(), store, &CacheSettings::default(), &job.settings().messages);
    let cluster = cluster.expect("both join");
    let team = Team::of_cluster(&cluster).expect("both join");
    let peer = Arc::new(Peer::open(job.fabric()));
    let member = Member { is_first: rank == 0, cluster, team, peer };
    match plan.part {
        Part::Faults { rounds, count } => member.tell(|| member.faults(rounds, count)),
        Part::Scan { bytes } => member.tell(|| member.scan(bytes)),
        Part::Random { count } => member.tell(|| member.random(count)),
        Part::Writes { rounds } => member.tell(|| member.writes(rounds)),
        Part::Reads { rounds } => member.tell(|| member.reads(rounds)),
        Part::Misses { rounds } => member.tell(|| member.misses(rounds)),
    }
    let Member { cluster, team, peer, .. } = member;
    drop((team, peer));
    // In this order: the agent is there as long as somebody may need it.
    job.finish().unwrap_or_else(|error| panic!("finishing the job: {error}"));
    cluster.leave();
}

struct Member {
    is_first: bool,
    cluster: Arc<Cluster>,
    team: Team,
    peer: Arc<Peer>,
}

impl Member {
    /// Prints what came of `part`, which both have a part in; only the first one's counts.
    fn tell<T: Serialize>(&self, part: impl FnOnce() -> T) {
        let told = serde_json::to_string(&part()).expect("numbers can be written as JSON");
        self.meet();
        if self.is_first {
            println!("{told}");
        }
    }

    fn meet(&self) {
        self.team.agree(Ok::<(), svmio_svm::Error>(())).expect("both meet");
    }

    /// A file of so many pages, which one of both writes, or nobody. Every page begins with what [`word`] says.
    fn file(&self, name: &str, pages: u64, writer: Option<bool>) -> Arc<File> {
        let name = FileName::new(name).expect("it is a name");
        let options = OpenOptions::read_write().create(true);
        let file = self.team.open_in(&self.cluster, &name, &options).expect("a file can be made");
        if writer == Some(self.is_first) {
            const CHUNK: u64 = 256;
            let mut bytes = Vec::new();
            for first in (0..pages).step_by(CHUNK as usize) {
                bytes.clear();
                for page in first..(first + CHUNK).min(pages) {
                    bytes.extend_from_slice(&word(page, 0).to_le_bytes());
                    bytes.resize(bytes.len().next_multiple_of(PAGE), page as u8);
                }
                file.write_at(FileOffset(first * PAGE as u64), &bytes).expect("it is written");
            }
        }
        self.team.sync(&file).expect("it is synced");
        Arc::new(file)
    }

    /// Has the second one answer until `measure` of the first has ended.
    fn beside<T>(&self, measure: impl FnOnce() -> T) -> Option<T> {
        if self.is_first {
            let measured = measure();
            self.peer.end();
            Some(measured)
        } else {
            self.peer.answer();
            None
        }
    }

    fn faults(&self, rounds: u64, count: u64) -> Option<BTreeMap<Kind, Times>> {
        let pages = rounds * count;
        let remote = self.file("remote", pages, Some(false));
        // Of what the kernel puts in place around a page that is touched, one is touched.
        let few = count.div_ceil(AROUND);
        let own = self.file("own", rounds * few * AROUND, Some(true));
        let empty = self.file("empty", pages, None);
        self.beside(|| {
            let own = Touched::new(&own, rounds * few * AROUND);
            let cached = tempfile::tempfile_in("/dev/shm").expect("there is memory");
            fill(&cached, (rounds * few * AROUND) as usize);
            let kernel = Kernel::new(&cached, (rounds * few * AROUND) as usize);
            let mut times: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
            for round in 0..rounds {
                let mut take = |kind, count: u64, touch: &dyn Fn(u64)| {
                    let times = times.entry(kind).or_default();
                    times.extend((0..count).map(|turn| seconds(|| touch(turn))));
                };
                // In no order, so that nothing follows from one for the next.
                let page = |turn| round * count + turn * 7 % count;
                // Threads have started, and what is first looked for with a page of a segment has been.
                let before = (round * count + count) % pages;
                // Threads anew in each round: those of both sides are put somewhere as often.
                for Compared { servers, here, there } in COMPARED {
                    let (bare, placed) = servers.start(|| Bare::new(count as usize + 1, || {}));
                    bare.touch(count as usize);
                    take(here[0], count, &|turn| _ = black_box(bare.touch(turn as usize)));
                    drop((bare, placed));
                    let (empty, placed) = servers.start(|| Touched::new(&empty, pages));
                    assert_eq!(empty.load(before), 0);
                    take(here[1], count, &|turn| assert_eq!(empty.load(page(turn)), 0));
                    drop((empty, placed));
                    let peer = Arc::clone(&self.peer);
                    let (bare, placed) = servers.start(|| Bare::new(count as usize + 1, move || peer.ask()));
                    bare.touch(count as usize);
                    take(there[0], count, &|turn| _ = black_box(bare.touch(turn as usize)));
                    drop((bare, placed));
                    let (remote, placed) = servers.start(|| Touched::new(&remote, pages));
                    remote.check(before);
                    take(there[1], count, &|turn| remote.check(page(turn)));
                    drop((remote, placed));
                }
                take(Kind::Message, count, &|_| self.peer.ask());
                let first = round * few * AROUND;
                take(Kind::Kernel, few, &|turn| {
                    _ = black_box(kernel.touch((first + turn * AROUND) as usize))
                });
                take(Kind::InPlace, few, &|turn| own.check(first + turn * AROUND));
                let remote = Touched::new(&remote, pages);
                (0..count).for_each(|turn| remote.check(page(turn)));
                take(Kind::Store, count, &|turn| remote.store(page(turn)));
            }
            times.into_iter().map(|(kind, times)| (kind, Times::of(times))).collect()
        })
    }

    /// MB/s, as advised by nobody.
    fn scan(&self, bytes: u64) -> Option<f64> {
        let pages = bytes / PAGE as u64;
        let file = self.file("remote", pages, Some(false));
        self.beside(|| {
            let mapping = Mapping::new(&file, FileOffset(0)..FileOffset(bytes)).expect("it can be mapped");
            let touched = Touched { mapping };
            let seconds = seconds(|| (0..pages).for_each(|page| touched.check(page)));
            bytes as f64 / 1e6 / seconds
        })
    }

    fn random(&self, count: u64) -> Option<Rates> {
        let each = THREADS as u64 * count;
        let file = self.file("remote", 2 * each, Some(false));
        self.beside(|| {
            let touched = Touched::new(&file, 2 * each);
            // A prime that divides none of what there is.
            let page = |turn: u64| turn * 10_007 % (2 * each);
            let go = |first: u64| (first..first + count).for_each(|turn| touched.check(page(turn)));
            let one = count as f64 / seconds(|| go(0));
            let many = each as f64
                / seconds(|| {
                    std::thread::scope(|scope| {
                        for thread in 0..THREADS as u64 {
                            scope.spawn(move || go(each + thread * count));
                        }
                    });
                });
            let one_message = count as f64 / seconds(|| (0..count).for_each(|_| self.peer.ask()));
            let many_messages = each as f64
                / seconds(|| {
                    (0..THREADS).for_each(|_| self.peer.begin());
                    for _ in THREADS as u64..each {
                        self.peer.finish();
                        self.peer.begin();
                    }
                    (0..THREADS).for_each(|_| self.peer.finish());
                });
            Rates { one, many, one_message, many_messages }
        })
    }
}

impl Member {
    fn writes(&self, rounds: usize) -> Option<Writes> {
        /// So much, or so many of them, are written with each size.
        const BYTES: u64 = 8 << 20;
        const COUNT: u64 = 512;
        const LONGEST: usize = 1 << 19;
        /// The most that a write touches.
        const PAGES: u64 = (LONGEST / PAGE) as u64;
        let sizes = (10..=19).map(|power| 1_u64 << power);
        let file = self.file("remote", BYTES / PAGE as u64, Some(false));
        let mut data = vec![7; LONGEST];
        // Where it lies, each write is found to have come.
        let at_home = |[bytes, count, taken]: [u64; 3]| {
            let mut there = vec![0; bytes as usize];
            for turn in 0..count {
                let length = file.read_at(FileOffset(turn * bytes), &mut there).expect("it is read");
                assert_eq!(length, there.len());
                content::check(&there, turn * PAGES, |_| taken);
            }
        };
        let mut taken = 0;
        let mut take = |bytes: u64| {
            let count = COUNT.min(BYTES / bytes);
            taken += 1;
            let all = seconds(|| {
                for turn in 0..count {
                    let data = &mut data[..bytes as usize];
                    content::stamp(data, turn * PAGES, taken);
                    file.write_at(FileOffset(turn * bytes), data).expect("it is written");
                }
                file.flush().expect("it comes home");
            });
            self.peer.have_done([bytes, count, taken]);
            all / count as f64
        };
        let measure = || {
            // Windows are opened, and pages of the cache have memory.
            for way in [Some(u64::MAX), Some(1)] {
                self.cluster.set_long_write(way);
                take(1 << 15);
                take(LONGEST as u64);
            }
            self.cluster.set_long_write(None);
            let mut of_size = |bytes| {
                let ways = [Some(u64::MAX), Some(1), None];
                let times = in_turn(rounds, ways.len(), |way| {
                    self.cluster.set_long_write(ways[way]);
                    take(bytes)
                });
                let [cached, straight, chosen] = [0, 1, 2].map(|way| median(times[way].clone()));
                Write { bytes, cached, straight, chosen }
            };
            let writes = sizes.map(&mut of_size).collect();
            Writes { bound: self.cluster.long_write(), writes }
        };
        self.beside_asked(measure, at_home)
    }

    fn reads(&self, rounds: usize) -> Option<Vec<Read>> {
        const SIZES: [u64; 4] = [4 << 10, 64 << 10, 256 << 10, LONGEST_READ];
        let mut window = self.peer.window(&|| self.meet());
        self.meet();
        let measured = if self.is_first {
            let mut memory = vec![0; LONGEST_READ as usize];
            let mut turn = Window::HELD;
            let mut of_size = |bytes: u64| {
                let times = in_turn(rounds, 2, |way| {
                    let memory = &mut memory[..bytes as usize];
                    if way == 0 {
                        // What was read before is not to pass for this.
                        content::stamp(memory, 0, 0);
                        let taken = seconds(|| window.read(memory));
                        content::check(memory, 0, |_| Window::HELD);
                        return taken;
                    }
                    turn += 1;
                    let taken = seconds(|| self.peer.have_done([bytes, turn, 0]));
                    window.check(bytes, turn);
                    taken
                });
                let [native, written] = [0, 1].map(|way| median(times[way].clone()));
                Read { bytes, native, written }
            };
            let measured = SIZES.map(&mut of_size).to_vec();
            self.peer.end();
            Some(measured)
        } else {
            self.peer.do_as_asked(|[bytes, turn, _]| window.write(bytes as usize, turn));
            None
        };
        self.meet();
        measured
    }

    /// Has the second one do as it is asked until `measure` of the first has ended.
    fn beside_asked<T>(&self, measure: impl FnOnce() -> T, act: impl FnMut([u64; 3])) -> Option<T> {
        if self.is_first {
            let measured = measure();
            self.peer.end();
            Some(measured)
        } else {
            self.peer.do_as_asked(act);
            None
        }
    }

    /// Both take part: between two measurements the second one changes the file, so that nothing of it stays cached, and
    /// the first one looks whether it reads what is there.
    fn misses(&self, rounds: usize) -> Vec<Miss> {
        /// So much, or so many of them, are read with each size.
        const BYTES: u64 = 64 << 20;
        const COUNT: u64 = 256;
        let file = self.file("remote", BYTES / PAGE as u64, Some(false));
        let mut memory = vec![0; 4 << 20];
        let segment = file.segment_size().bytes();
        let mut taken = 0;
        let mut take =
            |bytes: u64, is_in_sequence: bool| {
                taken += 1;
                if !self.is_first {
                    (0..BYTES).step_by(segment as usize).for_each(|at| {
                        file.write_at(FileOffset(at), &word(at / PAGE as u64, taken).to_le_bytes())
                            .expect("it is written");
                    });
                }
                self.team.sync(&file).expect("it is synced");
                let count = COUNT.min(BYTES / bytes);
                let mut read = 0.0;
                for turn in (0..count).filter(|_| self.is_first) {
                    // Of as many as a power of two, half the product of neighbours is each once, at no one distance.
                    let turn = if is_in_sequence { turn } else { turn * (turn + 1) / 2 % (BYTES / bytes) };
                    let part = &mut memory[..bytes as usize];
                    let mut length = 0;
                    read += seconds(|| {
                        length = file.read_at(FileOffset(turn * bytes), part).expect("it is read")
                    });
                    assert_eq!(length, part.len());
                    let pages = segment / PAGE as u64;
                    content::check(part, turn * bytes / PAGE as u64, |page| {
                        if page % pages == 0 { taken } else { 0 }
                    });
                }
                self.meet();
                read / count as f64
            };
        // Segments are opened, and pages of the cache have memory.
        (0..3).for_each(|_| _ = take(4 << 20, true));
        let mut of_size = |bytes, is_in_sequence| {
            let ways = [Some(false), Some(true), None];
            let times = in_turn(rounds, ways.len(), |way| {
                self.cluster.force_native_reads(ways[way]);
                take(bytes, is_in_sequence)
            });
            let [asked, native, chosen] = [0, 1, 2].map(|way| median(times[way].clone()));
            Miss { bytes, is_in_sequence, asked, native, chosen }
        };
        let sizes = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
        let both = sizes.map(|bytes| [false, true].map(|in_sequence| (bytes, in_sequence)));
        both.as_flattened().iter().map(|(bytes, in_sequence)| of_size(*bytes, *in_sequence)).collect()
    }
}

/// A mapping of which pages are touched.
struct Touched {
    mapping: Mapping,
}

impl Touched {
    /// The first pages of a file, of which only what is touched is fetched.
    fn new(file: &Arc<File>, pages: u64) -> Touched {
        let range = FileOffset(0)..FileOffset(pages * PAGE as u64);
        let mapping = MappingOptions::new().map(file, range.clone()).expect("it can be mapped");
        mapping.advise(range, Advice::Random).expect("it is mapped");
        Touched { mapping }
    }

    fn load(&self, page: u64) -> u64 {
        let at = page as usize * PAGE;
        assert!(at + PAGE <= self.mapping.len());
        // SAFETY: it lies in the mapping, and is aligned.
        unsafe { self.mapping.as_ptr().add(at).cast::<u64>().read_volatile() }
    }

    fn check(&self, page: u64) {
        assert_eq!(self.load(page), word(page, 0), "page {page}");
    }

    /// What is there already: other mappings of the file may look later.
    fn store(&self, page: u64) {
        let at = page as usize * PAGE;
        assert!(at + PAGE <= self.mapping.len());
        // SAFETY: as above.
        unsafe { self.mapping.as_mut_ptr().add(at).cast::<u64>().write_volatile(word(page, 0)) }
    }
}

fn seconds(what: impl FnOnce()) -> f64 {
    let started = Instant::now();
    what();
    started.elapsed().as_secs_f64()
}

fn fill(file: &fs::File, pages: usize) {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&vec![1; pages * PAGE], 0).expect("there is memory");
}

impl Times {
    fn of(mut seconds: Vec<f64>) -> Times {
        seconds.sort_by(f64::total_cmp);
        Times { median: seconds[seconds.len() / 2], p99: seconds[seconds.len() * 99 / 100] }
    }
}
