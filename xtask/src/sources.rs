//! Debian's source packages: that of MPICH, whose `src/mpi/romio/test` holds ROMIO's own test programs and whose
//! `test/mpi` those of MPI's functions, and that of HDF5, whose `testpar` has the tests of its parallel part.
//!
//! apt gets a configuration of its own, derived from the machine's: the same archives, but their
//! source packages, with all of apt's state under `target/`. The machine's apt is left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::paths::Paths;
use crate::process;
use crate::stamp::Stamp;

/// A source package, by its name, with an installed package that was built from it.
#[derive(Debug)]
pub(crate) struct Package {
    name: &'static str,
    installed: &'static str,
}

pub(crate) const MPICH: Package = Package { name: "mpich", installed: "libmpich12" };
pub(crate) const HDF5: Package = Package { name: "hdf5", installed: "libhdf5-mpich-dev" };

/// The folder of ROMIO's test programs.
pub(crate) fn romio_tests(paths: &Paths) -> Result<PathBuf> {
    Ok(unpacked(paths, &MPICH, "src/mpi/romio/test")?.join("src/mpi/romio/test"))
}

/// The folder of MPICH's tests, of which `coll` has those of the collectives, and `io` those of MPI-IO.
pub(crate) fn mpich_tests(paths: &Paths) -> Result<PathBuf> {
    Ok(unpacked(paths, &MPICH, "test/mpi")?.join("test/mpi"))
}

/// The folder of HDF5's sources.
pub(crate) fn hdf5(paths: &Paths) -> Result<PathBuf> {
    unpacked(paths, &HDF5, "testpar")
}

/// Fetches and unpacks a source package, once; returns the folder that has `part` in it.
fn unpacked(paths: &Paths, package: &Package, part: &str) -> Result<PathBuf> {
    let folder = paths.sources().join(package.name);
    let version = installed_version(package)?;
    let stamp = Stamp::new(&folder, &version);
    if !stamp.is_current() {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        println!("sources: fetching {} {version}", package.name);
        fetch(&paths.sources().join("apt"), &folder, package, &version)?;
        stamp.write()?;
    }
    let unpacked = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .find(|tree| tree.join(part).is_dir());
    unpacked
        .with_context(|| format!("no {part} below {}; remove that folder and try again", folder.display()))
}

/// The version of the source package that what is installed was built from.
pub(crate) fn installed_version(package: &Package) -> Result<String> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${source:Version}\n", package.installed]);
    // A line for each architecture of which it is installed.
    let told = process::capture(&mut query);
    told.map(|told| told.lines().next().unwrap_or_default().to_owned())
        .with_context(|| format!("{} is not installed; run `cargo xtask setup` first", package.installed))
}

fn fetch(state: &Path, folder: &Path, package: &Package, version: &str) -> Result<()> {
    let apt = PrivateApt::new(state)?;
    let log = state.join("log");
    // One archive that cannot be reached is no failure as long as another has the package.
    let updated = process::run_logged(apt.command().arg("update"), &log);
    let name = package.name;
    let exact = format!("{name}={version}");
    let get = |package: &str| {
        let mut command = apt.command();
        command.args(["source", "--only-source", package]).current_dir(folder);
        process::run_logged(&mut command, &log)
    };
    if let Err(error) = get(&exact) {
        eprintln!("sources: the archives do not have {exact} any more ({error:#}); taking their own");
        get(name).with_context(|| match updated {
            Ok(()) => format!("cannot fetch the source package of {name}"),
            Err(error) => format!("cannot fetch the source package of {name}; before that: {error:#}"),
        })?;
    }
    Ok(())
}

/// An apt whose state is in a folder of ours and whose archives are source archives.
struct PrivateApt {
    state: PathBuf,
}

impl PrivateApt {
    fn new(state: &Path) -> Result<Self> {
        let parts = state.join("sources.list.d");
        for folder in [parts.clone(), state.join("lists/partial"), state.join("cache/archives/partial")] {
            fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let release = release_codename()?;
        let machine = Path::new("/etc/apt");
        let mut lines = String::new();
        let mut stanzas = String::new();
        let mut files = vec![machine.join("sources.list")];
        if let Ok(entries) = fs::read_dir(machine.join("sources.list.d")) {
            files.extend(entries.flatten().map(|entry| entry.path()));
        }
        files.sort();
        for file in files {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("list") => lines.push_str(&source_lines(&text, &release)),
                Some("sources") => stanzas.push_str(&source_stanzas(&text, &release)),
                _ => {}
            }
        }
        if lines.is_empty() && stanzas.is_empty() {
            bail!("apt's configuration names no archive of this system's release ({release})");
        }
        for (name, text) in [("derived.list", lines), ("derived.sources", stanzas)] {
            let file = parts.join(name);
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(Self { state: state.to_path_buf() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        for (key, value) in [
            ("Dir::Etc::sourcelist", "/dev/null".to_owned()),
            ("Dir::Etc::sourceparts", self.state.join("sources.list.d").display().to_string()),
            ("Dir::State::lists", self.state.join("lists").display().to_string()),
            ("Dir::Cache", self.state.join("cache").display().to_string()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        // apt's own download user may not enter our folders; what it fetches is signed anyway.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "--quiet"]);
        command
    }
}

fn release_codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    text.lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .context("/etc/os-release has no VERSION_CODENAME")
}

/// Whether an archive's suite belongs to the system's release: `NAME`, `NAME-updates`, ...
fn is_of_release(suite: &str, release: &str) -> bool {
    suite.strip_prefix(release).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/']))
}

/// The one-line entries of `text` for binary packages of this release, as ones for source packages.
fn source_lines(text: &str, release: &str) -> String {
    let mut derived = String::new();
    for line in text.lines().map(str::trim) {
        let Some(rest) = line.strip_prefix("deb ").map(str::trim_start) else { continue };
        // Options stand in brackets before the address; the suite follows the address.
        let address = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, after)| after),
            None => rest,
        };
        if address.split_whitespace().nth(1).is_some_and(|suite| is_of_release(suite, release)) {
            derived.push_str(&format!("deb-src {rest}\n"));
        }
    }
    derived
}

/// The same for the stanzas of a `.sources` file.
fn source_stanzas(text: &str, release: &str) -> String {
    let mut derived = String::new();
    for stanza in text.split("\n\n") {
        let fields: Vec<&str> = stanza.lines().filter(|line| !line.starts_with('#')).collect();
        let value = |name: &str| {
            fields.iter().find_map(|field| {
                let (key, value) = field.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let ours = value("Suites")
            .is_some_and(|suites| suites.split_whitespace().any(|suite| is_of_release(suite, release)));
        let binary = value("Types").is_some_and(|types| types.split_whitespace().any(|t| t == "deb"));
        let enabled = value("Enabled").is_none_or(|enabled| enabled != "no");
        if !(ours && binary && enabled) {
            continue;
        }
        for field in fields {
            if field.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case("Types")) {
                derived.push_str("Types: deb-src\n");
            } else {
                derived.push_str(field);
                derived.push('\n');
            }
        }
        derived.push('\n');
    }
    derived
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_release_become_source_lines() {
        let text = "# a comment\n\
            deb http://archive.example/debian bookworm main\n\
            deb [arch=amd64 signed-by=/k.gpg] https://other.example x-bookworm main\n\
            deb [signed-by=/k.gpg] http://archive.example/s bookworm-security main contrib\n\
            deb-src http://archive.example/debian bookworm main\n";
        assert_eq!(
            source_lines(text, "bookworm"),
            "deb-src http://archive.example/debian bookworm main\n\
             deb-src [signed-by=/k.gpg] http://archive.example/s bookworm-security main contrib\n"
        );
    }

    #[test]
    fn stanzas_of_the_release_become_source_stanzas() {
        let text = "Types: deb\n# note\nURIs: http://a.example/debian\nSuites: trixie trixie-updates\n\
            Components: main\nSigned-By: /k.gpg\n\n\
            Types: deb\nURIs: http://b.example\nSuites: nodistro\nComponents: main\n\n\
            Enabled: no\nTypes: deb\nURIs: http://c.example\nSuites: trixie\nComponents: main\n";
        assert_eq!(
            source_stanzas(text, "trixie"),
            "Types: deb-src\nURIs: http://a.example/debian\nSuites: trixie trixie-updates\n\
             Components: main\nSigned-By: /k.gpg\n\n"
        );
    }
}
