//! A store without space gives an error on every rank that is told so, and keeps what it has.

use svmio_tests::mounts::{in_own_mounts, tmpfs};
use svmio_tests::report::Line;
use svmio_tests::{Installation, Job, Mpi, Nodes, Program, Reports, Scratch};

const RANKS: u32 = 3;

fn full_store(mpi: Mpi) {
    full_store_where("shared", mpi);
    full_store_where("own", mpi);
}

/// With that hint for what a collective access returns.
fn full_store_where(returned: &str, mpi: Mpi) {
    let program = Program::c("full_store", mpi);
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.store()).expect("the scratch directory can be written to");
    in_own_mounts(|| {
        tmpfs(scratch.store(), 8 << 20);
        let reports = Reports::new(&scratch, "reports");
        let job = Job::new(&scratch, &program, RANKS).variable("SVMIO_OUTCOME", returned);
        job.argument(reports.path()).argument("svm:/full").succeed();
        let ways = [
            "write_at",
            "write_at, strided",
            "write_at_all",
            "write_at_all, strided",
            "iwrite_at",
            "iwrite_at_all",
            "write_shared",
            "write_ordered",
            "preallocate",
        ];
        for (rank, lines) in reports.read(RANKS).iter().enumerate() {
            let of =
                |way: &str| lines.iter().position(|line| line.what == way).expect("each way is reported");
            for way in ways {
                let lines = &lines[of(way)..of(way) + 6];
                let told = format!("rank {rank}, {way}: {lines:?}");
                let [outcome, rounds, after @ ..] = lines else { unreachable!("{told}") };
                assert_eq!(outcome.result, "MPI_ERR_NO_SPACE", "{told}");
                assert!(outcome.message.contains("/full"), "{told}");
                assert!(outcome.message.contains("no space left"), "{told}");
                // Not before there was something in the store.
                assert!(rounds.result.parse::<u32>().is_ok_and(|rounds| rounds >= 15), "{told}");
                // What was written before is synced and closed all the same.
                assert!(after.iter().all(|line| line.result == "MPI_SUCCESS"), "{told}");
            }
        }
        Installation::get().verify(&scratch);
    });
}

/// To two of the ranks the store is another node's, and has to take all of the file. What they write may be on its way
/// when the call returns: all ranks are told by the sync and the close, whoever's bytes found no room. (That what a call
/// has written is there where these succeed, the program itself sees to.)
fn full_store_of_another_node(mpi: Mpi) {
    const WAYS: [&str; 3] = ["write_at", "write_at_all", "iwrite_at_all"];
    let program = Program::c("full_store", mpi);
    let (nodes, scratch) = (Nodes::Emulated(2), Scratch::new());
    let full = nodes.store(&scratch, 1);
    std::fs::create_dir(&full).expect("the scratch directory can be written to");
    in_own_mounts(|| {
        tmpfs(&full, 4 << 20);
        let reports = Reports::new(&scratch, "reports");
        let job = Job::new(&scratch, &program, RANKS).over(nodes);
        let job = job.variable("SVMIO_PLACEMENT", format!("node={}", nodes.name(1)));
        let job = job.argument(reports.path()).argument("svm:/full").argument("10");
        WAYS.into_iter().fold(job, |job, way| job.argument(way)).succeed();
        let told = reports.read(RANKS);
        for way in WAYS {
            let of_rank = |lines: &[Line]| {
                let at = lines.iter().position(|line| line.what == way).expect("each way is reported");
                lines[at..at + 6].to_vec()
            };
            let all: Vec<Vec<Line>> = told.iter().map(|lines| of_rank(lines)).collect();
            let heard_at_once = all.iter().any(|lines| lines[0].result == "MPI_ERR_NO_SPACE");
            let is_full = |line: &Line| {
                let store = full.to_string_lossy();
                let names = |word: &&str| line.message.contains(*word);
                line.result == "MPI_ERR_NO_SPACE"
                    && ["/full", "no space left in", "node n1", &store].iter().all(names)
            };
            for at in [2, 3] {
                // Where the write itself has failed, nothing may be left that finds no room.
                let is_fine = |line: &Line| heard_at_once && line.result == "MPI_SUCCESS";
                let lines: Vec<_> = all.iter().map(|lines| &lines[at]).collect();
                let as_one = lines.iter().all(|line| is_full(line)) || lines.iter().all(|line| is_fine(line));
                assert!(as_one, "{way}: {all:?}");
            }
        }
        let verified = nodes.verified(&scratch);
        assert!(verified.contains("0 damaged, 0 leftovers reclaimed"), "{verified}");
    });
}

#[test]
fn mpich() {
    full_store(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    full_store(Mpi::DebianOpenMpi);
}

#[test]
fn mpich_5() {
    full_store(Mpi::WheelMpich);
}

#[test]
fn openmpi_5() {
    full_store(Mpi::WheelOpenMpi);
}

#[test]
fn mpich_of_another_node() {
    full_store_of_another_node(Mpi::DebianMpich);
}

#[test]
fn openmpi_of_another_node() {
    full_store_of_another_node(Mpi::DebianOpenMpi);
}
