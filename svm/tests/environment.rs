//! Every variable that any part of svmio reads is known: else the program that is given it would be warned of it.

use std::fs;
use std::path::Path;

use svmio_svm::environment::is_known;

/// Behind these, in Rust and C, stands the name of a variable that is read.
const READINGS: [&str; 6] = ["var(\"", "var_os(\"", "from_env(\"", "getenv(\"", "&str = \"", "&CStr = c\""];

/// Calls `each` with the text of every source file below a directory, but for what is built there.
fn sources(directory: &Path, each: &mut dyn FnMut(&Path, &str)) {
    let entries = fs::read_dir(directory).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                sources(&path, each);
            }
        } else if ["rs", "c", "h"].iter().any(|own| path.extension().is_some_and(|found| found == *own)) {
            let text = fs::read_to_string(&path);
            each(&path, &text.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
}

#[test]
fn every_variable_that_is_read_is_known() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut read = 0;
    sources(workspace, &mut |path, text| {
        for reading in READINGS {
            let names = text.match_indices(reading).map(|(at, _)| &text[at + reading.len()..]);
            let names = names.filter_map(|rest| rest.split('"').next());
            // What ends so is what several begin with.
            for name in names.filter(|name| name.starts_with("SVMIO_") && !name.ends_with('_')) {
                read += 1;
                assert!(is_known(name), "{} reads {name}, of which svmio would warn", path.display());
            }
        }
    });
    assert!(read > 40, "{read} variables are found: the sources are written differently now");
}
