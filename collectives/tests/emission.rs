//! What is emitted compiles, and holds every thread until all have come.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::path::Path;
use std::process::Command;

use svmio_collectives::{Algorithm, EmissionError, Language, Schedule, Signal};

/// Barriers of different shapes: name, ranks.
const BARRIERS: [(&str, u32); 7] = [
    ("linear", 5),
    ("tree:3", 7),
    ("dissemination", 6),
    ("hsb:2,3", 8),
    ("nx:3", 7),
    ("x1tree", 6),
    ("two-level:3:nx2:3", 8),
];

fn schedule(algorithm: &str, ranks: u32) -> Schedule {
    algorithm.parse::<Algorithm>().unwrap().schedule(ranks).unwrap()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_barrier_in_c_holds_threads() {
    let folder = tempfile::tempdir().unwrap();
    let language = Language::C { prefix: "hybrid".into() };
    for (algorithm, ranks) in BARRIERS {
        let (source, program) = (folder.path().join("barrier.c"), folder.path().join("barrier"));
        let barrier = schedule(algorithm, ranks).emit(&language).unwrap();
        std::fs::write(&source, barrier + include_str!("emitted/threads.c")).unwrap();
        let warnings = ["-Wall", "-Wextra", "-Werror", "-std=c11"];
        run(Command::new("cc").args(warnings).args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source));
        run(&mut Command::new(&program));
    }
}

#[test]
fn a_barrier_in_rust_holds_threads() {
    let folder = tempfile::tempdir().unwrap();
    // One program with all of them: the compiler takes longer to start than to compile.
    let mut source = include_str!("emitted/threads.rs").to_owned();
    let mut calls = String::new();
    for (number, (algorithm, ranks)) in BARRIERS.into_iter().enumerate() {
        let file = folder.path().join(format!("barrier_{number}.rs"));
        std::fs::write(file, schedule(algorithm, ranks).emit(&Language::Rust).unwrap()).unwrap();
        source += &format!("mod barrier_{number};\n");
        calls += &format!(
            "    holds(barrier_{number}::RANKS, &barrier_{number}::Memory::new(), barrier_{number}::wait);\n"
        );
    }
    source += &format!("fn main() {{\n{calls}}}\n");
    let (main, program) = (folder.path().join("main.rs"), folder.path().join("main"));
    std::fs::write(&main, source).unwrap();
    compile_rust(&main, &program, &["-D", "warnings"]);
    run(&mut Command::new(&program));
}

fn compile_rust(source: &Path, program: &Path, warnings: &[&str]) {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    run(Command::new(compiler)
        .args(["--edition", "2024", "-O"])
        .args(warnings)
        .arg("-o")
        .arg(program)
        .arg(source));
}

#[test]
fn a_barrier_of_one_is_a_barrier_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = schedule("linear", 1).emit(&Language::Rust).unwrap();
    let file = folder.path().join("main.rs");
    std::fs::write(&file, source + "fn main() { for _ in 0..RANKS { wait(&Memory::default(), 0); } }\n")
        .unwrap();
    let program = folder.path().join("main");
    // Nobody signals: most of it is not used.
    compile_rust(&file, &program, &[]);
    run(&mut Command::new(&program));
}

#[test]
fn what_is_no_barrier_is_not_written() {
    let half = Schedule::new(2, [vec![Signal::new(0, 1)]]).unwrap();
    assert_eq!(half.emit(&Language::Rust), Err(EmissionError::NoBarrier));
    for prefix in ["", "3x", "a-b", "a b", "ä"] {
        let refused = schedule("linear", 2).emit(&Language::C { prefix: prefix.into() });
        assert_eq!(refused, Err(EmissionError::Prefix { prefix: prefix.into() }));
    }
}
