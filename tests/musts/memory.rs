//! Programs in C that know nothing of MPI share files as memory, on one node and on several, and the tool finds what
//! they stored; what they do wrong, or may not do, is told to them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use svmio_tests::memory_program::{Compiled, MemoryProgram, store_of_node};
use svmio_tests::{Installation, Scratch};

const COUNTS: [(u32, Option<u32>); 4] = [(1, None), (3, None), (2, Some(2)), (4, Some(2))];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/memory").join(name)
}

/// The program of the guide.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../c/examples").join(name)
}

#[test]
fn the_guide_s_program_computes_the_same_however_many_do() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &example("rod.c"), Compiled::C);
    let whole = [(1, None), (2, None), (4, Some(2)), (3, Some(3))].map(|(processes, nodes)| {
        let scratch = Scratch::new();
        let said = program.succeed(&scratch, processes, nodes, &[]);
        assert_eq!(said, format!("{processes} processes, heat 300000.000, in the middle 46.021\n"));
        rod(&scratch, nodes)
    });
    for rod in &whole {
        assert_eq!(rod.len(), 12001 * 8);
        // The last value is a sum of sums, which depends on who has added what.
        assert!(rod[..12000 * 8] == whole[0][..12000 * 8], "the rods differ");
    }
    let cells: Vec<f64> =
        whole[0].chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!((cells[0], cells[5999]), (100.0, 0.0));
}

/// What the tool finds of the rod, by the stores of all nodes.
fn rod(scratch: &Scratch, nodes: Option<u32>) -> Vec<u8> {
    let stores: Vec<PathBuf> = match nodes {
        None => vec![scratch.store().into()],
        Some(nodes) => (0..nodes).map(|node| store_of_node(scratch, node)).collect(),
    };
    cat("svm:/rod", stores)
}

/// What the tool finds of a file, by the stores of its nodes.
fn cat(name: &str, stores: Vec<PathBuf>) -> Vec<u8> {
    let mut command = Command::new(Installation::get().tool());
    command.args(["cat", name]).env("SVMIO_STORES", std::env::join_paths(stores).expect("no colon in names"));
    let output = command.output().expect("the tool can be started");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn messages_pass_through_files_and_through_memory_without_a_name() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("messages.c"), Compiled::C);
    for (processes, nodes) in COUNTS {
        let scratch = Scratch::new();
        for arguments in [&["svm:/boxes"][..], &[]] {
            let said = program.succeed(&scratch, processes, nodes, arguments);
            assert_eq!(said, "all messages came\n", "{processes} on {nodes:?}");
        }
    }
}

#[test]
fn a_job_can_be_left_and_joined_again() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("again.c"), Compiled::C);
    for (processes, nodes) in COUNTS {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "all have met three times\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn programs_in_cxx_and_programs_linked_statically_do_the_same() {
    for how in [Compiled::Cxx, Compiled::Statically] {
        let scratch = Scratch::new();
        let program = MemoryProgram::compile(&scratch, &source("messages.c"), how);
        assert_eq!(program.succeed(&scratch, 2, Some(2), &["boxes"]), "all messages came\n", "{how:?}");
    }
}

#[test]
fn mistakes_are_told_and_harm_nobody() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("refusals.c"), Compiled::C);
    for (processes, nodes) in COUNTS {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(
            said,
            "all is refused that has to be\n".repeat(processes as usize),
            "{processes} on {nodes:?}"
        );
    }
}

#[test]
fn who_is_wrong_in_a_call_of_all_has_nobody_wait() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("refused_together_without_mpi.c"), Compiled::C);
    for (processes, nodes) in [(2, None), (3, None), (4, Some(2))] {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "all are refused together\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn who_may_not_serve_faults_reads_and_writes_instead() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("without_faults.c"), Compiled::C);
    for (processes, nodes) in COUNTS {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "it works without faults\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn mappings_of_one_file_agree_in_a_process_after_a_barrier_of_any() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("mapped_twice.c"), Compiled::C);
    for (processes, nodes) in COUNTS {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "all mappings agree\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn a_file_that_one_makes_for_storing_the_others_map_for_loading() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("one_stores.c"), Compiled::C);
    for (processes, nodes) in [(2, None), (3, None), (2, Some(2)), (4, Some(2))] {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "all see what one stores\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn who_loses_another_process_ends_what_it_has_and_leaves() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("lost_member.c"), Compiled::C);
    for nodes in [1, 3] {
        let scratch = Scratch::new();
        let mut processes = program.start_alone(&scratch, 3, nodes);
        let mut said: Vec<_> = processes
            .iter_mut()
            .map(|process| BufReader::new(process.stdout.take().expect("it is a pipe")).lines())
            .collect();
        for (step, who) in [("all have stored", 0..3), ("all is ended", 0..2)] {
            for (rank, said) in said[who.clone()].iter_mut().enumerate() {
                let line = said.next().map(|line| line.expect("it can be read"));
                assert_eq!(line.as_deref(), Some(step), "rank {rank} of {nodes} nodes");
            }
            for process in &mut processes[who] {
                let told = process.stdin.as_mut().expect("it is a pipe").write_all(b"\n");
                told.expect("it waits to be told");
            }
        }
        for (rank, process) in processes.iter_mut().enumerate() {
            let status = process.wait().expect("it can be waited for");
            let expected = if rank == 2 { (None, Some(9)) } else { (Some(0), None) };
            assert_eq!((status.code(), status.signal()), expected, "rank {rank} of {nodes} nodes");
        }
        let kept = cat("svm:/kept", (0..nodes).map(|node| store_of_node(&scratch, node)).collect());
        let (slab, found) = (64 << 10, |at: usize| kept[at] as char);
        assert_eq!(kept.len(), 3 * slab);
        assert_eq!([found(7), found(slab + 7), found(2 * slab + 7)], ['B', 'A', 'c'], "{nodes} nodes");
        assert_eq!([found(8), found(slab + 8), found(3 * slab - 1)], ['a', 'b', 'c'], "{nodes} nodes");
    }
}

#[test]
fn a_child_that_is_forked_has_nothing_of_a_mapping() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("forked.c"), Compiled::C);
    for (processes, nodes) in COUNTS {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "no child has any of it\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn losses_are_told_and_hold_nobody_up_for_ever() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("losses.c"), Compiled::C);
    assert_eq!(program.succeed(&Scratch::new(), 1, None, &[]), "all losses are told\n");
}

#[test]
fn many_mappings_need_no_more_descriptors_than_are_usual() {
    let scratch = Scratch::new();
    let program = MemoryProgram::compile(&scratch, &source("many.c"), Compiled::C);
    for (processes, nodes) in [(1, None), (2, Some(2))] {
        let said = program.succeed(&Scratch::new(), processes, nodes, &[]);
        assert_eq!(said, "all is mapped\n", "{processes} on {nodes:?}");
    }
}

#[test]
fn the_guide_shows_the_programs_that_are_tried_here() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let guide = read(&root.join("docs/guide.md"));
    for name in ["c/examples/rod.c", "c/examples/rod_mpi.c", "svm/examples/rod.rs"] {
        let source = read(&root.join(name));
        assert!(guide.contains(source.trim_end()), "docs/guide.md does not have {name} as it is");
    }
}
