//! The program to start: where it is and what kind of file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use rustix::fs::Access;

use super::error::RunError;
use super::mpiexec_line::ProgramLine;
use super::mpiexec_options::OptionMeaning;

/// A program that exists and may be executed.
#[derive(Debug)]
pub(crate) struct Program {
    /// Absolute; symbolic links are kept, since a virtual environment's `python` is one.
    pub(crate) path: PathBuf,
    /// What `mpiexec` is given: the word as typed, but `./name` for a bare name in the current directory,
    /// which not every launcher finds.
    pub(crate) word: OsString,
    pub(crate) kind: ProgramKind,
}

/// What kind of file a program is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// An ELF file that names the dynamic loader which loads it.
    Dynamic { loader: PathBuf },
    /// An ELF file that needs no loader.
    Static,
    /// A text for this interpreter, where its first line names one.
    Script { interpreter: Option<PathBuf> },
}

impl Program {
    /// Finds the program of a line as the launchers do: from the ranks' working directory, or in PATH.
    pub(crate) fn find(line: &ProgramLine) -> Result<Program, RunError> {
        let word = line.program.as_os_str();
        let (path, word) = if word.as_bytes().contains(&b'/') {
            let in_working_directory = line
                .value_of(OptionMeaning::WorkingDirectory)
                .map(|directory| Path::new(directory).join(word));
            let path =
                in_working_directory.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(word));
            (path, word.to_owned())
        } else if let Some(path) = find_in_path(word, line.value_of(OptionMeaning::SearchPath)) {
            (path, word.to_owned())
        } else {
            let here = Path::new(".").join(word);
            (here.clone(), here.into_os_string())
        };
        Program::at(&path, word).map_err(|error| match error {
            RunError::ProgramNotFound { program, .. } if !line.program.as_bytes().contains(&b'/') => {
                let hint = ", neither in PATH nor in the current directory".to_owned();
                RunError::ProgramNotFound {
                    program: program.strip_prefix(".").unwrap_or(&program).to_owned(),
                    hint,
                }
            }
            other => other,
        })
    }

    /// The program in this file.
    pub(crate) fn at(path: &Path, word: OsString) -> Result<Program, RunError> {
        let program = path.to_owned();
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                RunError::ProgramNotFound { program: program.clone(), hint: String::new() }
            }
            _ => RunError::NotExecutable { program: program.clone(), reason: error.to_string() },
        })?;
        if metadata.is_dir() {
            return Err(RunError::NotExecutable { program, reason: "it is a directory".to_owned() });
        }
        if !is_executable(path) {
            let reason = "no permission to execute it (chmod +x?)".to_owned();
            return Err(RunError::NotExecutable { program, reason });
        }
        let path = std::path::absolute(path)
            .map_err(|source| RunError::NoAbsolutePath { path: program.clone(), source })?;
        let kind = ProgramKind::of(&path).map_err(|source| RunError::Unreadable { path: program, source })?;
        Ok(Program { path, word, kind })
    }

    /// The virtual environments (Python's, conda's) that the program runs in: directories that hold `bin`.
    pub(crate) fn virtual_environments(&self) -> Vec<PathBuf> {
        let interpreter = match &self.kind {
            ProgramKind::Script { interpreter } => interpreter.as_deref(),
            ProgramKind::Dynamic { .. } | ProgramKind::Static => None,
        };
        [Some(self.path.as_path()), interpreter]
            .into_iter()
            .flatten()
            .filter_map(|path| path.parent()?.parent())
            .filter(|prefix| prefix.join("pyvenv.cfg").exists() || prefix.join("conda-meta").exists())
            .map(Path::to_owned)
            .collect()
    }
}

impl ProgramKind {
    fn of(path: &Path) -> io::Result<ProgramKind> {
        let cache = ReadCache::new(File::open(path)?);
        // An ELF file that is damaged is the loader's to complain about: it counts as static here.
        Ok(match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => elf_kind::<object::elf::FileHeader64<Endianness>, _>(&cache),
            Ok(FileKind::Elf32) => elf_kind::<object::elf::FileHeader32<Endianness>, _>(&cache),
            _ => ProgramKind::Script { interpreter: interpreter_of_script(path)? },
        })
    }
}

/// Whether this process may execute the file.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

fn find_in_path(name: &OsStr, search_path: Option<&OsStr>) -> Option<PathBuf> {
    let inherited = std::env::var_os("PATH");
    search_path
        .into_iter()
        .chain(inherited.as_deref())
        .find_map(|directories| which::which_in(name, Some(directories), ".").ok())
}

/// The kind of an ELF file: dynamic if a program header names the loader.
fn elf_kind<'data, Elf, R>(data: R) -> ProgramKind
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let loader = || -> object::Result<Option<PathBuf>> {
        let header = Elf::parse(data)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, data)? {
            if let Some(name) = segment.interpreter(endian, data)? {
                return Ok(Some(PathBuf::from(OsStr::from_bytes(name))));
            }
        }
        Ok(None)
    };
    match loader() {
        Ok(Some(loader)) => ProgramKind::Dynamic { loader },
        Ok(None) | Err(_) => ProgramKind::Static,
    }
}

/// The interpreter that a script's `#!` line names, found in PATH if it goes through `env`.
fn interpreter_of_script(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    // The kernel reads no more than 256 bytes of that line either.
    BufReader::new(File::open(path)?.take(256)).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(None) };
    let mut words =
        line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let Some(interpreter) = words.next().map(Path::new) else { return Ok(None) };
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Ok(Some(interpreter.to_owned()));
    }
    let name = words.find(|word| !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'='));
    Ok(name.and_then(|name| which::which(name).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let script = |interpreter: Option<PathBuf>| ProgramKind::Script { interpreter };
        let sh = which::which("sh").unwrap();

        let plain = write("plain", "#!/bin/some/python3 -u\nprint()\n");
        assert_eq!(ProgramKind::of(&plain).unwrap(), script(Some("/bin/some/python3".into())));
        let env = write("env", "#! /usr/bin/env -S A=b sh -x\n");
        assert_eq!(ProgramKind::of(&env).unwrap(), script(Some(sh.clone())));
        assert_eq!(ProgramKind::of(&write("none", "true\n")).unwrap(), script(None));
        assert_eq!(ProgramKind::of(&write("empty", "")).unwrap(), script(None));
        assert!(matches!(ProgramKind::of(&sh).unwrap(), ProgramKind::Dynamic { .. }));
    }

    #[test]
    fn a_virtual_environment_is_one_with_its_mark() {
        let directory = tempfile::tempdir().unwrap();
        let program = Program {
            path: directory.path().join("bin/python3"),
            word: "python3".into(),
            kind: ProgramKind::Script { interpreter: None },
        };
        assert!(program.virtual_environments().is_empty());
        std::fs::write(directory.path().join("pyvenv.cfg"), "").unwrap();
        assert_eq!(program.virtual_environments(), [directory.path()]);
    }
}
