//! Messages between two processes, sent by svmio and by MPIs.

use std::path::Path;

use serde_json::Value;
use svmio_tests::{Files, Installation, Job, Mpi, Program, Scratch};

/// How messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// One to and fro: the seconds are those of half a round trip.
    Pingpong,
    /// Many one after the other: the seconds are those of one.
    Bandwidth,
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Pattern::Pingpong => "pingpong",
            Pattern::Bandwidth => "bandwidth",
        }
    }
}

/// Who sends.
#[derive(Debug, Clone)]
pub enum Sender {
    /// svmio's messages on shared memory.
    Svmio,
    /// An MPI.
    Mpi {
        /// A name for it as it is set.
        name: &'static str,
        /// The program.
        program: Program,
        /// What it is set to by its environment.
        settings: &'static [(&'static str, &'static str)],
    },
}

/// Open MPI's own way through shared memory, and UCX's: it has both, and takes its own unless told otherwise.
const OPEN_MPI: [(&str, &[(&str, &str)]); 2] = [
    ("openmpi (ob1)", &[("OMPI_MCA_pml", "ob1")]),
    (
        "openmpi (ucx)",
        &[
            ("OMPI_MCA_pml", "ucx"),
            // Otherwise it declines where there is no adapter of its own.
            ("OMPI_MCA_pml_ucx_tls", "any"),
            ("OMPI_MCA_pml_ucx_devices", "any"),
        ],
    ),
];

impl Sender {
    /// svmio, then every MPI in each way that it can be set to.
    pub fn all() -> Vec<Sender> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/messages");
        let mpich = Program::c_of(&source, Mpi::DebianMpich);
        let open_mpi = Program::c_of(&source, Mpi::DebianOpenMpi);
        let mut senders = vec![Sender::Svmio, Sender::Mpi { name: "mpich", program: mpich, settings: &[] }];
        senders.extend(OPEN_MPI.map(|(name, settings)| Sender::Mpi {
            name,
            program: open_mpi.clone(),
            settings,
        }));
        senders
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Sender::Svmio => "svmio",
            Sender::Mpi { name, .. } => name,
        }
    }

    /// One run: seconds for each of `sizes`.
    ///
    /// # Panics
    /// Where it fails.
    pub fn run(&self, pattern: Pattern, sizes: &[u64]) -> Vec<f64> {
        match self {
            Sender::Svmio => svmio(pattern, sizes, &["--fabric", "shm", "--repeat", "1"]),
            Sender::Mpi { program, settings, .. } => mpi(program, settings, pattern, sizes),
        }
    }
}

/// One run of svmio's own benchmark with further `options`: seconds for each of `sizes`.
///
/// # Panics
/// Where it fails.
pub fn svmio(pattern: Pattern, sizes: &[u64], options: &[&str]) -> Vec<f64> {
    let list = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let arguments = [&["bench", pattern.name(), "--json", "--sizes", &list], options].concat();
    let result = tool(&arguments);
    let points = result["points"].as_array().unwrap_or_else(|| panic!("no points in {result}"));
    let seconds = sizes.iter().map(|size| {
        let point = points.iter().find(|point| point["size"] == *size);
        let seconds = point.and_then(|point| point["median_seconds"].as_f64());
        seconds.unwrap_or_else(|| panic!("nothing of {size} bytes in {result}"))
    });
    seconds.collect()
}

/// What the tool prints as JSON.
///
/// # Panics
/// Where it fails.
pub fn tool(arguments: &[&str]) -> Value {
    let output = Installation::get().ask(&Scratch::new(), arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "svmio {}: {}\n{errors}", arguments.join(" "), output.status);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("svmio {}: {error}", arguments.join(" ")))
}

fn mpi(program: &Program, settings: &[(&str, &str)], pattern: Pattern, sizes: &[u64]) -> Vec<f64> {
    let scratch = Scratch::new();
    let mut job = Job::new(&scratch, program, 2).files(Files::Stock).argument(pattern.name());
    for size in sizes {
        job = job.argument(size.to_string());
    }
    for (name, value) in settings {
        job = job.variable(name, value);
    }
    let output = job.succeed();
    let seconds = sizes.iter().map(|size| {
        let line = output.lines().find_map(|line| line.strip_prefix(&format!("{size} ")));
        line.and_then(|seconds| seconds.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {size} in {output}"))
    });
    seconds.collect()
}
