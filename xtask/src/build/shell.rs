//! What an installation has for who types `svmio`: pages for `man`, which looks for them beside a `bin` that is in the
//! path, and the shells' completions, where they look below a `share` of theirs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

const PAGES: &str = "share/man/man1";

const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/svmio"),
    ("zsh", "share/zsh/site-functions/_svmio"),
    ("fish", "share/fish/vendor_completions.d/svmio.fish"),
];

/// Has the tool write them below `prefix`.
pub(super) fn make(tool: &Path, prefix: &Path) -> Result<()> {
    process::run(Command::new(tool).arg("manual").arg(prefix.join(PAGES)))?;
    for (shell, place) in COMPLETIONS {
        let output = Command::new(tool).args(["completions", shell]).stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot start {}", tool.display()))?;
        if !output.status.success() {
            bail!("{} completions {shell}: {}", tool.display(), output.status);
        }
        let (path, folder) = (prefix.join(place), prefix.join(place).with_file_name(""));
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::write(&path, output.stdout).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
