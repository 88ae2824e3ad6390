//! What cargo has made, by its own word: its settings, and its environment, may have it anywhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The files that a run of cargo has made, or found made already.
#[derive(Debug)]
pub(super) struct Made(Vec<PathBuf>);

impl Made {
    /// Runs cargo, which is about to build.
    pub(super) fn by(cargo: &mut Command) -> Result<Self> {
        cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
        let output = cargo.output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("cargo cannot build it, {}; see above", output.status);
        }
        Self::told_in(&String::from_utf8(output.stdout).context("cargo's messages are no text")?)
    }

    fn told_in(messages: &str) -> Result<Self> {
        let mut files = Vec::new();
        for line in messages.lines() {
            let message: Value = serde_json::from_str(line).context("a message of cargo's")?;
            if message["reason"] == "compiler-artifact" {
                let names = message["filenames"].as_array().into_iter().flatten();
                files.extend(names.filter_map(Value::as_str).map(PathBuf::from));
            }
        }
        Ok(Self(files))
    }

    /// The file of that name.
    pub(super) fn file(&self, name: &str) -> Result<&Path> {
        let found = self.0.iter().find(|file| file.file_name().is_some_and(|found| found == name));
        found.map(PathBuf::as_path).with_context(|| format!("cargo has made no {name}"))
    }

    /// The folder of the file of that name.
    pub(super) fn folder_of(&self, name: &str) -> Result<&Path> {
        self.file(name)?.parent().context("a file without a folder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_cargo_says() {
        let messages = r#"{"reason":"compiler-artifact","filenames":["/t/x86/release/liba.so","/t/x86/release/liba.a"]}
{"reason":"build-script-executed","out_dir":"/t/x86/release/build"}
{"reason":"compiler-artifact","filenames":["/t/x86/release/tool"]}
{"reason":"build-finished","success":true}"#;
        let made = Made::told_in(messages).unwrap();
        assert_eq!(made.file("liba.a").unwrap(), Path::new("/t/x86/release/liba.a"));
        assert_eq!(made.folder_of("tool").unwrap(), Path::new("/t/x86/release"));
        assert!(made.file("libb.so").is_err());
        assert!(Made::told_in("Compiling").is_err());
    }
}
