//! What the programs compute on several nodes is, byte by byte, what a plain loop computes.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::process::Command;

use svmio_examples::{sort, stencil};

/// Runs a program on nodes that this machine plays, and returns its result.
fn result(program: &str, fabric: &str, arguments: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let result = directory.path().join("result");
    // A program that hangs ends as one that fails.
    let mut command = Command::new("timeout");
    command.args(["120", program]).args(arguments).arg("--result").arg(&result);
    command.arg("--nodes").arg(NODES).env("SVMIO_FABRIC", fabric).env_remove("SVMIO_JOB_RANK");
    // A busy machine keeps one waiting for longer than by default, and then that is right, and no defect.
    command.env("SVMIO_WATCHDOG_TIMEOUT", "60s");
    if program == SORT {
        command.arg("--directory").arg(directory.path());
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{}{}", output.status, said[0], said[1]);
    std::fs::read(result).unwrap()
}

const NODES: &str = "4";
const STENCIL: &str = env!("CARGO_BIN_EXE_stencil");
const SORT: &str = env!("CARGO_BIN_EXE_sort");

/// The plate after so many steps, by the book.
fn plate(rows: usize, columns: usize, steps: usize) -> Vec<u8> {
    let row = |row| (0..columns).map(|column| stencil::initial(row, column)).collect();
    let mut plate: Vec<Vec<f64>> = (0..rows).map(row).collect();
    for _ in 0..steps {
        let old = plate.clone();
        for row in 1..rows - 1 {
            for column in 1..columns - 1 {
                let across = old[row][column - 1] + old[row][column + 1];
                plate[row][column] = (old[row - 1][column] + old[row + 1][column] + across) / 4.0;
            }
        }
    }
    plate.concat().into_iter().flat_map(f64::to_ne_bytes).collect()
}

/// Whether a plate comes out right, with neighbours' rows by loads, and by reads.
fn heat_spreads(fabric: &str, [rows, columns, steps]: [usize; 3]) {
    let expected = plate(rows, columns, steps);
    let [rows, columns, steps] = [rows, columns, steps].map(|number| number.to_string());
    for access in ["mapped", "explicit"] {
        let arguments = ["--rows", &rows, "--columns", &columns, "--steps", &steps, "--access", access];
        assert!(result(STENCIL, fabric, &arguments) == expected, "{fabric}: {arguments:?}");
    }
}

#[test]
fn heat_spreads_as_in_a_plain_loop() {
    // Bands of whole segments; such that share pages; more members than some bands have inner rows.
    for size in [[256, 256, 20], [97, 130, 15], [7, 300, 12]] {
        heat_spreads("shm", size);
    }
}

#[test]
fn heat_spreads_over_a_network() {
    heat_spreads("ofi", [128, 512, 9]);
}

/// Whether keys come out right that take so many times the memory that a process may have.
fn keys_are_sorted(fabric: &str, times: usize, accesses: &[&str]) {
    const LIMIT: usize = 1 << 20;
    let keys = times * LIMIT / 8 - 5;
    let mut expected: Vec<u64> = (0..keys).map(sort::key).collect();
    expected.sort();
    let expected: Vec<u8> = expected.into_iter().flat_map(u64::to_ne_bytes).collect();
    let [keys, limit] = [keys, LIMIT].map(|number| number.to_string());
    for access in accesses {
        let arguments = ["--keys", &keys, "--limit", &limit, "--access", access];
        assert!(result(SORT, fabric, &arguments) == expected, "{fabric}: {arguments:?}");
    }
}

#[test]
fn more_keys_than_memory_may_hold_are_sorted() {
    // Four times what all four processes may have together.
    keys_are_sorted("shm", 16, &["mapped", "explicit", "local"]);
}

#[test]
fn keys_are_sorted_over_a_network() {
    // As many times as above where there is time.
    let times = if std::env::var_os("SVMIO_FULL").is_some() { 16 } else { 4 };
    keys_are_sorted("ofi", times, &["mapped", "explicit"]);
}
