//! A store without space gives an error on every rank that is told so, and keeps what it has.

use svmio_tests::mounts::{in_own_mounts, tmpfs};
use svmio_tests::{Installation, Job, Mpi, Program, Reports, Scratch};

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
                let lines = &lines[of(way)..of(way) + 5];
                let told = format!("rank {rank}, {way}: {lines:?}");
                let [outcome, rounds, after @ ..] = lines else { unreachable!("{told}") };
                assert_eq!(outcome.result, "MPI_ERR_NO_SPACE", "{told}");
                assert!(outcome.message.contains("/full"), "{told}");
                assert!(outcome.message.contains("no space left"), "{told}");
                // Not before there was something in the store.
                assert!(rounds.result.parse::<u32>().is_ok_and(|rounds| rounds >= 15), "{told}");
                for after in after {
                    assert!(["MPI_SUCCESS", "MPI_ERR_NO_SPACE"].contains(&&*after.result), "{told}");
                }
                // What could not be made durable is not called so. (Shared pointers' files make room when they go.)
                let [sync, close, _] = after else { unreachable!("{told}") };
                assert!(
                    sync.result == close.result || way.contains("shared") || way.contains("ordered"),
                    "{told}"
                );
            }
        }
        Installation::get().verify(&scratch);
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
