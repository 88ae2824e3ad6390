//! The MPI programs, compiled when a test asks for them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::installation::Installation;
use crate::mpi::Mpi;

/// A compiled program.
#[derive(Debug, Clone)]
pub struct Program {
    /// The MPI that it was compiled for.
    pub mpi: Mpi,
    /// Where it is.
    pub path: PathBuf,
}

impl Program {
    /// `programs/NAME.c` or all of `programs/NAME/`, with `programs/support/`, for an MPI.
    ///
    /// # Panics
    /// Where there is no such program, no compiler, or an error in the program.
    pub fn c(name: &str, mpi: Mpi) -> Program {
        Program::c_of(&sources().join(name), mpi)
    }

    /// `PLACE.c` or all of `PLACE/`, with `programs/support/`, for an MPI.
    ///
    /// # Panics
    /// As [`Program::c`].
    pub fn c_of(place: &Path, mpi: Mpi) -> Program {
        let name = &place.file_name().unwrap_or_default().to_string_lossy();
        let alone = place.with_file_name(format!("{name}.c"));
        let own = if alone.is_file() { vec![alone] } else { files(place, "c") };
        Program::c_with_support(name, mpi, own, files(place, "h"))
    }

    /// `programs/NAME.c` with `programs/OTHER.c` linked into it, and `programs/support/`, for an MPI.
    ///
    /// # Panics
    /// As [`Program::c`].
    pub fn c_linked_with(name: &str, other: &str, mpi: Mpi) -> Program {
        let own = [name, other].map(|name| sources().join(format!("{name}.c")));
        Program::c_with_support(&format!("{name}-{other}"), mpi, own.to_vec(), Vec::new())
    }

    fn c_with_support(name: &str, mpi: Mpi, mut own: Vec<PathBuf>, headers: Vec<PathBuf>) -> Program {
        let headers = [files(&sources().join("support"), "h"), headers].concat();
        let include = format!("-I{}", sources().join("support").display());
        // MPICH's MPI_STATUSES_IGNORE looks to compilers like an array that is too short.
        let odd = "-Wno-stringop-overflow";
        let options = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", odd, "-pthread", &include];
        own.extend(support(mpi, &options));
        compile(name, mpi, &mpi.c_compiler(), &options, &own, &headers)
    }

    /// `PLACE.c` alone, for an MPI, with what `pkg-config` says of svmio's functions for C.
    ///
    /// # Panics
    /// As [`Program::c`].
    pub fn c_that_maps(place: &Path, mpi: Mpi) -> Program {
        let name = &place.file_name().unwrap_or_default().to_string_lossy();
        let installation = Installation::get();
        let flags = installation.flags(&["--cflags", "--libs"]);
        let odd = "-Wno-stringop-overflow";
        // Whatever order they come in, the library is not to be left out.
        let mut options =
            vec!["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", odd, "-Wl,--no-as-needed"];
        options.extend(flags.iter().map(String::as_str));
        let own = [place.with_extension("c")];
        let mut headers = files(place.parent().unwrap_or(Path::new("")), "h");
        headers.push(installation.header());
        compile(name, mpi, &mpi.c_compiler(), &options, &own, &headers)
    }

    /// `programs/NAME.f90` for one of Debian's MPIs.
    ///
    /// # Panics
    /// As [`Program::c`].
    pub fn fortran(name: &str, mpi: Mpi) -> Program {
        let own = [sources().join(format!("{name}.f90"))];
        compile(name, mpi, &mpi.fortran_compiler(), &["-O1", "-g", "-Wall"], &own, &[])
    }

    /// The example NAME of `mpiio/file`, a Rust program that uses the crate `mpi`, for one of Debian's MPIs.
    ///
    /// # Panics
    /// As [`Program::c`].
    pub fn rust(name: &str, mpi: Mpi) -> Program {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("mpiio").join("file");
        let folders = ["src", "src/sys", &format!("examples/{name}")].map(|folder| package.join(folder));
        let mut sources: Vec<PathBuf> = folders.iter().flat_map(|folder| files(folder, "rs")).collect();
        sources.extend(["Cargo.toml", "Cargo.lock"].map(|name| package.join(name)));
        made_once(name, mpi, &(), &sources, |made| {
            let cargo = |words: &[&str]| {
                let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
                cargo.args(words).current_dir(&package).env("MPICC", mpi.c_compiler());
                run(cargo.arg("--target-dir").arg(rust_programs()), name, mpi);
            };
            // It does not ask for which MPI it was built before; all else serves both.
            cargo(&["clean", "--quiet", "--package", "mpi-sys"]);
            cargo(&["build", "--quiet", "--example", name]);
            let example = rust_programs().join("debug").join("examples").join(name);
            fs::copy(&example, made).unwrap_or_else(|error| panic!("{}: {error}", example.display()));
        })
    }

    /// `programs/NAME.c` as a library to be preloaded into programs of an MPI.
    ///
    /// # Panics
    /// As [`Program::c`].
    pub fn library(name: &str, mpi: Mpi) -> Program {
        let own = [sources().join(format!("{name}.c"))];
        let options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
        compile(name, mpi, &mpi.c_compiler(), &options, &own, &[])
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// What all programs share, as object files. Linkers know them by what is in them.
fn support(mpi: Mpi, options: &[&str]) -> Vec<PathBuf> {
    let place = sources().join("support");
    let headers = files(&place, "h");
    let options = [options, &["-c"]].concat();
    let object = |source: PathBuf| {
        let name = format!("support-{}", source.file_stem().unwrap_or_default().to_string_lossy());
        compile(&name, mpi, &mpi.c_compiler(), &options, &[source], &headers).path
    };
    files(&place, "c").into_iter().map(object).collect()
}

/// Compiles unless this very text was compiled before.
fn compile(
    name: &str,
    mpi: Mpi,
    compiler: &Path,
    options: &[&str],
    sources: &[PathBuf],
    headers: &[PathBuf],
) -> Program {
    let all = [sources, headers].concat();
    made_once(name, mpi, &(compiler, options), &all, |made| {
        let mut command = Command::new(compiler);
        command.args(options).args(sources).arg("-o").arg(made);
        run(command.current_dir(made.parent().unwrap_or(Path::new("."))), name, mpi);
    })
}

/// Has `make` make a program, unless one was made before of this very text in this very way.
fn made_once(
    name: &str,
    mpi: Mpi,
    way: &impl Hash,
    sources: &[PathBuf],
    make: impl FnOnce(&Path),
) -> Program {
    // One after the other: the tests of a process run side by side and want the same programs.
    static MAKING: Mutex<()> = Mutex::new(());
    let _turn = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = made().join(mpi.name());
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut text = DefaultHasher::new();
    way.hash(&mut text);
    for file in sources {
        fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).hash(&mut text);
    }
    let path = directory.join(format!("{name}-{:016x}", text.finish()));
    if !path.exists() {
        let unfinished = directory.join(format!("{name}-{}", std::process::id()));
        make(&unfinished);
        fs::rename(&unfinished, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    Program { mpi, path }
}

/// Runs what compiles a program.
fn run(command: &mut Command, name: &str, mpi: Mpi) {
    let compiler = Path::new(command.get_program()).to_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "compiling {name} for {mpi}: {}\n{errors}", output.status);
}

/// A directory beside the test programs that cargo made.
fn made() -> PathBuf {
    profile().join("mpi-programs")
}

/// Where cargo makes programs that use the crate `mpi`; there the check has looked through them, too.
fn rust_programs() -> PathBuf {
    profile().with_file_name("rust-programs")
}

fn profile() -> PathBuf {
    let own = std::env::current_exe().expect("a process has a path to its program");
    own.parent().and_then(Path::parent).expect("cargo keeps tests in target/PROFILE/deps").to_owned()
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory can be read to its end").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}
