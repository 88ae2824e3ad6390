//! The command that starts the job: `mpiexec`, its words and its environment.
//!
//! svmio's library goes into the ranks only: `mpiexec` is told to set LD_PRELOAD for them (`-genv`, `-x`),
//! its own stays as it is. Only the cure for MPICH's waiting goes into the launcher too. All that the ranks
//! need is told by options and not by the launcher's environment alone, which remote shells do not carry to
//! other hosts; what they are not to have is taken out of it, because it reaches the ranks of the launcher's own host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::RunError;
use super::hosts;
use super::launcher::Launcher;
use super::mpi_family::MpiFamily;
use super::mpiexec_line::{MpiexecLine, MpiexecOption};
use super::mpiexec_options::OptionMeaning;
use super::program::Program;
use super::waiting::WaitingCure;

const PRELOAD: &str = "LD_PRELOAD";

/// An environment variable for the ranks.
#[derive(Clone, Debug)]
pub(crate) struct RankVariable {
    pub(crate) name: OsString,
    pub(crate) value: OsString,
}

/// A job's launcher with all that it is given.
#[derive(Debug)]
pub(crate) struct LaunchCommand {
    mpiexec: PathBuf,
    words: Vec<OsString>,
    /// Set for the launcher, beside what it inherits.
    environment: Vec<(OsString, OsString)>,
    /// What it does not inherit: launchers hand their environment on to the ranks of their host.
    withheld: Vec<OsString>,
}

impl LaunchCommand {
    /// Puts the command together.
    ///
    /// `libraries` are those to preload, `variables` svmio's own for the ranks; one that an option of `mpiexec` gives
    /// too, with a value, is left to it, for the programs that it is given to. Those in `withheld` are the launcher's
    /// own and not for the ranks, unless such an option says so.
    pub(crate) fn new(
        launcher: &Launcher,
        line: &MpiexecLine,
        program: &Program,
        libraries: &[PathBuf],
        cure: WaitingCure,
        variables: Vec<RankVariable>,
        withheld: Vec<OsString>,
    ) -> Result<LaunchCommand, RunError> {
        let inherited_preload = std::env::var_os(PRELOAD).filter(|value| !value.is_empty());
        let ours: Vec<&Path> =
            libraries.iter().map(PathBuf::as_path).chain(cure.library.as_deref()).collect();
        let mut environment = Vec::new();
        let preload_for_ranks = preload(&ours, inherited_preload.as_deref());
        // What is added for the ranks, by the name of the variable that it gives.
        let mut added: Vec<(OsString, MpiexecOption)> =
            vec![(PRELOAD.into(), preload_option(launcher.family, &preload_for_ranks))];

        if let Some(library) = &cure.launcher_library {
            environment.push((PRELOAD.into(), preload(&[library], inherited_preload.as_deref())));
        }
        let is_set = |name: &OsStr| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let wished = cure.variables.into_iter().filter(|variable| !is_set(&variable.name));
        for RankVariable { name, value } in wished.chain(variables) {
            // An option that only names it takes the value from the launcher's environment.
            if line.gives_to_all(&name) && !line.hands_on(&name) {
                continue;
            }
            let option = match launcher.family {
                MpiFamily::Mpich => MpiexecOption::added("-genv", [name.clone(), value]),
                // By name only, the value in the launcher's environment: `-x NAME=VALUE` has no quoting.
                MpiFamily::OpenMpi => {
                    environment.push((name.clone(), value));
                    MpiexecOption::added("-x", [name.clone()])
                }
            };
            added.push((name, option));
        }

        let mut words = Vec::new();
        for (index, job_program) in line.programs.iter().enumerate() {
            if index > 0 {
                words.push(":".into());
            }
            // hydra's -genv is for all programs, and the -env of one goes before it; Open MPI's -x is for the one it
            // precedes, where it must not be given a second time.
            let is_for = |name: &OsStr| match launcher.family {
                MpiFamily::Mpich => index == 0,
                MpiFamily::OpenMpi => !job_program.gives_variable(name),
            };
            let for_it = added.iter().filter(|(name, _)| is_for(name));
            words.extend(for_it.flat_map(|(_, option)| option.words()).cloned());
            for option in &job_program.options {
                if launcher.family == MpiFamily::OpenMpi
                    && let Some(translated) = hosts::for_open_mpi(option, job_program, line)
                {
                    words.extend(translated);
                    continue;
                }
                words.extend(with_our_preload(option, &ours, inherited_preload.as_deref()).words().cloned());
            }
            words.push(if index == 0 { program.word.clone() } else { job_program.program.clone() });
            words.extend(job_program.arguments.iter().cloned());
        }
        let withheld = withheld.into_iter().filter(|name| !line.hands_on(name)).collect();
        Ok(LaunchCommand { mpiexec: launcher.path.clone(), words, environment, withheld })
    }

    /// Replaces this process by the launcher; comes back only if that fails.
    pub(crate) fn exec(self) -> RunError {
        let mut command = Command::new(&self.mpiexec);
        for name in &self.withheld {
            command.env_remove(name);
        }
        let source = command.args(&self.words).envs(self.environment).exec();
        RunError::Exec { mpiexec: self.mpiexec, source }
    }

    /// The command as a line for a shell.
    pub(crate) fn to_shell(&self) -> String {
        let unset = self.withheld.iter().flat_map(|name| ["-u".into(), quoted(name)]);
        let unset = (!self.withheld.is_empty()).then(|| "env".into()).into_iter().chain(unset);
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), quoted(value)));
        let words =
            std::iter::once(self.mpiexec.as_os_str()).chain(self.words.iter().map(OsString::as_os_str));
        unset.chain(environment).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
    }
}

/// A value for LD_PRELOAD: our libraries, then what was there.
fn preload(ours: &[&Path], inherited: Option<&OsStr>) -> OsString {
    ours.iter().map(|path| path.as_os_str()).chain(inherited).collect::<Vec<_>>().join(OsStr::new(":"))
}

fn preload_option(family: MpiFamily, value: &OsStr) -> MpiexecOption {
    match family {
        MpiFamily::Mpich => MpiexecOption::added("-genv", [PRELOAD.into(), value.to_owned()]),
        MpiFamily::OpenMpi => MpiexecOption::added("-x", [assignment(value)]),
    }
}

/// The option as it stands, but with our libraries ahead if it gives the ranks an LD_PRELOAD.
fn with_our_preload(option: &MpiexecOption, ours: &[&Path], inherited: Option<&OsStr>) -> MpiexecOption {
    let mut option = option.clone();
    if option.variable() != Some(PRELOAD.as_ref()) {
        return option;
    }
    match (option.meaning, option.values.as_mut_slice()) {
        (OptionMeaning::SetVariable | OptionMeaning::SetVariableOfAll, [_, value]) => {
            *value = preload(ours, Some(value))
        }
        (OptionMeaning::ExportVariable, [word]) => {
            let theirs = word.as_bytes().strip_prefix(b"LD_PRELOAD=").map(OsStr::from_bytes);
            *word = assignment(&preload(ours, theirs.or(inherited)));
        }
        _ => {}
    }
    option
}

fn assignment(value: &OsStr) -> OsString {
    let mut word = OsString::from(PRELOAD);
    word.push("=");
    word.push(value);
    word
}

/// A word as a shell reads it back.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
