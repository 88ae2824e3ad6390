//! What each kind of consistency promises, by the smallest programs that could find it broken, hundreds of times and
//! with `SVMIO_FULL=1` thousands of times: by ranks that are threads here, by real processes in `processes`.

pub(super) mod entry;
pub(super) mod release;
pub(super) mod strict;

use svmio_svm::Cluster;
use svmio_svm::team::Team;

use super::*;

/// One of those who run a program together.
pub(super) struct Rank<'t> {
    pub(super) rank: u64,
    pub(super) size: u64,
    pub(super) team: &'t Team,
    pub(super) cluster: &'t Arc<Cluster>,
}

/// A program that all ranks run on a file of their own.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// With fewer ranks it is none.
    pub(super) least: u64,
    pub(super) run: fn(&Rank<'_>, &Arc<File>),
}

impl Rank<'_> {
    /// Waits until all ranks have come to this point.
    pub(super) fn meet(&self) {
        self.team.agree::<svmio_svm::Error>(Ok(())).expect("all come");
    }

    /// Runs a program on a new file.
    pub(super) fn run(&self, program: &Program) {
        if self.size < program.least {
            return;
        }
        let name = FileName::new(program.name).expect("it is a name");
        let options = small_segments().temporary(true);
        let file = self.team.open_in(self.cluster, &name, &options).expect("the file opens on all nodes");
        let file = Arc::new(file);
        (program.run)(self, &file);
        self.meet();
        self.team.close(&file, false).expect("all close it");
        drop(file);
        self.meet();
    }
}

/// Runs programs by ranks that are threads, dealt out to four nodes.
fn in_threads(ranks: usize, programs: &[Program]) {
    let (_directory, stores) = job::stores(4);
    job::run((0..ranks).map(|rank| &stores[rank % 4]), &cache(), |process| {
        let (rank, size) = (u64::from(process.rank()), ranks as u64);
        let rank = Rank { rank, size, team: &process.team, cluster: &process.cluster };
        programs.iter().for_each(|program| rank.run(program));
    });
}

/// How many rounds: thousands where there is time, fewer where each rank is a process, or over a network, and has more
/// to wait for.
fn rounds(few: u64) -> u64 {
    let waits_longer = || {
        let is_set = |variable| std::env::var_os(variable).is_some();
        is_set(super::processes::PLAN) || is_set("SVMIO_TEST_FABRIC")
    };
    match job::is_full() {
        true => (few * 20).max(2000),
        false if waits_longer() => few / 2,
        false => few,
    }
}
