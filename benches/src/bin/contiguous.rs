//! Independent contiguous access: `write_at` and `read_at` in blocks of 4 KiB to 16 MiB, by svmio and by the same
//! MPI's stock drivers, on the same tmpfs. Prints a table in Markdown.

use svmio_benches::interleaved::{REPETITIONS, medians};
use svmio_benches::phase::Phase;
use svmio_tests::{Files, Job, Mpi, Program, Scratch};

const BLOCKS: [(&str, u64); 4] =
    [("4 KiB", 4 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20), ("16 MiB", 16 << 20)];
const BYTES_PER_RANK: u64 = 128 << 20;
const PASSES: u32 = 3;

/// What is compared.
#[derive(Debug, Clone, Copy)]
struct Side {
    name: &'static str,
    prefix: &'static str,
    component: Option<&'static str>,
}

const SVMIO: Side = Side { name: "svmio", prefix: "svm:", component: None };

/// The stock drivers of an MPI, its default first.
fn stock(mpi: Mpi) -> &'static [Side] {
    match mpi {
        Mpi::DebianMpich | Mpi::WheelMpich => &[Side { name: "ufs", prefix: "ufs:", component: None }],
        Mpi::DebianOpenMpi => &[
            Side { name: "ompio", prefix: "", component: Some("ompio") },
            Side { name: "romio321", prefix: "ufs:", component: Some("romio321") },
        ],
        Mpi::WheelOpenMpi => &[Side { name: "ompio", prefix: "", component: Some("ompio") }],
    }
}

fn main() {
    println!("cargo run --release -p svmio-benches --bin contiguous\n");
    println!(
        "MB/s of all ranks together and, beside each stock driver's, how many times as fast svmio is. Each rank has \
         {} MiB of the file for itself. Fresh: the first write; second: the next one, which is the first to touch pages that \
         are there already; rewrite and read: {PASSES} passes more. Medians of {REPETITIONS} runs, interleaved. {}\n",
        BYTES_PER_RANK >> 20,
        tmpfs()
    );
    println!("At the beginning {}.", Phase::now());
    println!(
        "\n| MPI | ranks | block | driver | fresh | ratio | second | ratio | rewrite | ratio | read | ratio |"
    );
    println!("|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for mpi in Mpi::DEBIAN {
        let program = Program::c("contiguous", mpi);
        let sides: Vec<Side> = [SVMIO].into_iter().chain(stock(mpi).iter().copied()).collect();
        for ranks in [1, 2] {
            for (block, bytes) in BLOCKS {
                let speeds = medians(sides.len(), |side| run(&program, ranks, bytes, sides[side]));
                for (side, speed) in sides.iter().zip(&speeds) {
                    print!("| {mpi} | {ranks} | {block} | {} |", side.name);
                    for (own, svmio) in speed.iter().zip(speeds[0]) {
                        let ratio = if side.name == SVMIO.name {
                            String::new()
                        } else {
                            format!("{:.2}", svmio / own)
                        };
                        print!(" {own:.0} | {ratio} |");
                    }
                    println!();
                }
            }
        }
    }
    println!("\nAt the end {}.", Phase::now());
}

/// Fresh write, second write, rewrite and read, MB/s.
fn run(program: &Program, ranks: u32, block: u64, side: Side) -> [f64; 4] {
    let scratch = Scratch::new();
    let name = match side.prefix {
        "svm:" => "svm:/contiguous".to_owned(),
        prefix => format!("{prefix}{}", scratch.file("contiguous").display()),
    };
    let files = if side.prefix == SVMIO.prefix { Files::Svmio } else { Files::Stock };
    let job = Job::new(&scratch, program, ranks).files(files).argument(name).argument(block.to_string());
    let mut job = job.argument(BYTES_PER_RANK.to_string()).argument(PASSES.to_string());
    if let Some(component) = side.component {
        job = job.variable("OMPI_MCA_io", component);
    }
    let output = job.succeed();
    let numbers = output.lines().find_map(|line| line.strip_prefix("MB/s: "));
    let numbers: Vec<f64> = numbers
        .unwrap_or_else(|| panic!("no result in {output}"))
        .split(' ')
        .map(|number| number.parse().unwrap_or_else(|error| panic!("{number}: {error}")))
        .collect();
    numbers.try_into().unwrap_or_else(|numbers| panic!("four numbers are expected, not {numbers:?}"))
}

/// The tmpfs that both sides are on, and the size of its pages.
fn tmpfs() -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let options = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        (fields.next() == Some("/dev/shm")).then(|| fields.nth(1).unwrap_or_default())
    });
    format!("Both on the tmpfs /dev/shm ({}).", options.unwrap_or("not a mount of its own"))
}
