//! Programs that map svmio's files and know nothing of MPI: compiled with what `pkg-config` says, run by `svmio start`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::installation::Installation;
use crate::job::PATIENCE;
use crate::processes;
use crate::scratch::Scratch;

/// How a program is compiled and linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiled {
    /// As C11, with the shared library.
    C,
    /// As C++17, likewise.
    Cxx,
    /// As C11, with the static library.
    Statically,
}

/// A program that maps files.
#[derive(Debug)]
pub struct MemoryProgram(PathBuf);

impl MemoryProgram {
    /// Compiles the C source `source` into a scratch directory.
    ///
    /// # Panics
    /// Where there is no compiler, or an error in the program.
    pub fn compile(scratch: &Scratch, source: &Path, how: Compiled) -> MemoryProgram {
        let installation = Installation::get();
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let path = scratch.file(&format!("{name}-{how:?}"));
        let (compiler, dialect) = match how {
            Compiled::C | Compiled::Statically => ("cc", ["-std=c11", "-x", "c"]),
            Compiled::Cxx => ("c++", ["-std=c++17", "-x", "c++"]),
        };
        let mut command = Command::new(compiler);
        command.args(dialect).args([
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-D_DEFAULT_SOURCE",
        ]);
        command.args(installation.flags(&["--cflags"])).arg(source).args(["-x", "none", "-o"]).arg(&path);
        if how == Compiled::Statically {
            // What comes after the library's own place and name are those that it needs.
            let needed = installation.flags(&["--static", "--libs-only-l"]);
            command.arg(installation.static_library());
            command.args(needed.iter().filter(|library| *library != "-lsvmio"));
        } else {
            command.args(installation.flags(&["--libs"]));
        }
        let output = command.output();
        let output = output.unwrap_or_else(|error| panic!("{compiler}: {error} (run `cargo xtask setup`)"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "compiling {name}: {}\n{errors}", output.status);
        MemoryProgram(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Runs `processes` of it, with the store of a scratch directory or, on several nodes, those beside it; returns
    /// what they wrote.
    ///
    /// # Panics
    /// Where one fails, or they take longer than a minute.
    pub fn succeed(
        &self,
        scratch: &Scratch,
        processes: u32,
        nodes: Option<u32>,
        arguments: &[&str],
    ) -> String {
        self.output_of(&[], scratch, processes, nodes, arguments).0
    }

    /// The same with `--stats`; returns what they told on standard error.
    ///
    /// # Panics
    /// Likewise.
    pub fn statistics(&self, scratch: &Scratch, processes: u32, nodes: Option<u32>) -> String {
        self.output_of(&["--stats"], scratch, processes, nodes, &[]).1
    }

    /// Starts `processes` of it by the environment alone, dealt out to nodes as `svmio start --nodes` does: nobody ends
    /// the others where one ends. Returns them by rank; what they are told and tell goes by pipes.
    ///
    /// # Panics
    /// Where one cannot be started.
    pub fn start_alone(&self, scratch: &Scratch, processes: u32, nodes: u32) -> Vec<Child> {
        // Rank 0 listens here as soon as this is dropped.
        let place = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let place = place.expect("there is a free port");
        (0..processes)
            .map(|rank| {
                let mut command = Command::new("timeout");
                command.args(["--kill-after=5", "60"]).arg(&self.0);
                command.env("SVMIO_STORE", store_of_node(scratch, rank % nodes));
                command.env("SVMIO_NODE", format!("n{}", rank % nodes)).env(PATIENCE.0, PATIENCE.1);
                command.env("SVMIO_JOB_MASTER", place.to_string()).env("SVMIO_JOB_SECRET", "5a".repeat(32));
                command.env("SVMIO_JOB_RANK", rank.to_string()).env("SVMIO_JOB_SIZE", processes.to_string());
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                processes::end_with_us(&mut command);
                command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
            })
            .collect()
    }

    fn output_of(
        &self,
        options: &[&str],
        scratch: &Scratch,
        processes: u32,
        nodes: Option<u32>,
        arguments: &[&str],
    ) -> (String, String) {
        let output = self.run(options, scratch, processes, nodes, arguments);
        let [said, complaint] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let title = format!("{} {arguments:?}, {processes} on {nodes:?} nodes", self.0.display());
        assert!(output.status.success(), "{title}: {}\n{said}\n{complaint}", output.status);
        (said, complaint)
    }

    fn run(
        &self,
        options: &[&str],
        scratch: &Scratch,
        processes: u32,
        nodes: Option<u32>,
        arguments: &[&str],
    ) -> Output {
        let mut command = Command::new("timeout");
        command.env(PATIENCE.0, PATIENCE.1);
        command.args(["--kill-after=5", "60"]).arg(Installation::get().tool()).arg("start").args(options);
        command.arg("-n").arg(processes.to_string()).arg("--store").arg(scratch.store());
        command.args(nodes.map(|nodes| format!("--nodes={nodes}"))).arg("--").arg(&self.0).args(arguments);
        processes::end_with_us(&mut command);
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}

/// The store of a node that `svmio start --nodes` plays.
pub fn store_of_node(scratch: &Scratch, node: u32) -> PathBuf {
    let mut name = scratch.store().as_os_str().to_owned();
    name.push(format!("-n{node}"));
    name.into()
}
