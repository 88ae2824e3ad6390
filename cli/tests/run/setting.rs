//! What the tests run with: an installation of svmio, the compilers, commands.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A family of MPI libraries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Mpich,
    OpenMpi,
}

pub(crate) const FAMILIES: [Family; 2] = [Family::Mpich, Family::OpenMpi];

impl Family {
    pub(crate) fn directory(self) -> &'static str {
        match self {
            Family::Mpich => "mpich",
            Family::OpenMpi => "openmpi",
        }
    }

    /// What the family's launcher needs to start more ranks than there are cores.
    pub(crate) fn launcher_options(self) -> &'static [&'static str] {
        match self {
            Family::Mpich => &[],
            Family::OpenMpi => &["--oversubscribe"],
        }
    }

    /// Compiles `tests/programs/<name>.c` with the family's compiler.
    pub(crate) fn compile(self, name: &str, directory: &Path) -> PathBuf {
        let compiler = format!("mpicc.{}", self.directory());
        let program = directory.join(format!("{name}.{}", self.directory()));
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
        let status = Command::new(&compiler).arg("-O1").arg(source).arg("-o").arg(&program).status();
        let status = status.unwrap_or_else(|error| {
            panic!(
                "{compiler}: {error}: install Debian's libmpich-dev and mpich, libopenmpi-dev and openmpi-bin"
            )
        });
        assert!(status.success(), "{compiler} {name}.c");
        program
    }
}

/// An installation of svmio, made once for this test process.
pub(crate) fn installation() -> &'static Path {
    static INSTALLATION: OnceLock<PathBuf> = OnceLock::new();
    INSTALLATION.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-installation");
        if prefix.exists() {
            fs::remove_dir_all(&prefix).unwrap();
        }
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_svmio"), prefix.join("bin/svmio")).unwrap();
        for family in FAMILIES {
            let directory = prefix.join("lib").join(family.directory());
            fs::create_dir_all(&directory).unwrap();
            let library = directory.join("libsvmio_mpi.so");
            let status =
                Command::new("cc").args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(library).status();
            assert!(status.expect("cc: install gcc").success());
        }
        fs::copy(yield_library(), prefix.join("lib/libsvmio_yield.so")).unwrap();
        prefix
    })
}

/// Has cargo build the yield library, and asks it where that is.
fn yield_library() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "svmio-yield", "--message-format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo build --package svmio-yield");
    let messages = String::from_utf8(output.stdout).unwrap();
    let files: Vec<PathBuf> = messages
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter_map(|message| message["filenames"].as_array().cloned())
        .flatten()
        .map(|file| PathBuf::from(file.as_str().unwrap()))
        .filter(|file| file.file_name().is_some_and(|name| name == "libsvmio_yield.so"))
        .collect();
    files.first().expect("cargo names libsvmio_yield.so").clone()
}

/// `svmio run`, in an environment where Open MPI starts ranks and nothing else matters.
pub(crate) fn svmio_run() -> Command {
    let mut command = starting_ranks(installation().join("bin/svmio"));
    command.arg("run");
    for name in ["LD_PRELOAD", "MPI4PY_LIBMPI", "SVMIO_LIBDIR", "SVMIO_STORE", "SVMIO_CLAIM"] {
        command.env_remove(name);
    }
    command
}

/// A command that starts ranks itself or has others start them: with Open MPI root may, and its directory of sessions
/// is the test's own. Of two launchers of 4.1 that make the same one at once, or of which one removes it, one fails.
pub(crate) fn starting_ranks(program: impl AsRef<OsStr>) -> Command {
    thread_local! {
        static SESSIONS: TempDir = tempfile::tempdir().unwrap();
    }
    let mut command = Command::new(program);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    SESSIONS.with(|sessions| command.env("TMPDIR", sessions.path()));
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that has to succeed.
pub(crate) fn stdout_of(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{}\n{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// The value of `name=` in a line of `show_rank`.
pub(crate) fn field<'line>(line: &'line str, name: &str) -> &'line str {
    let prefix = format!("{name}=");
    line.split(' ')
        .find_map(|word| word.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// An executable script in the directory that runs its arguments.
pub(crate) fn wrapper(directory: &TempDir) -> PathBuf {
    let script = directory.path().join("wrapper");
    fs::write(&script, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}
