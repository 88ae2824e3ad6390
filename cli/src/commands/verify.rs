//! `svmio verify`: is every file whole?

use clap::Args;
use serde::Serialize;
use svmio_svm::{Report, StoreSet};

use super::error::CommandError;
use super::output::{Output, counted};
use super::record::RecordedPath;
use super::store_option::StoreOption;
use super::store_path::{Found, StorePath};
use super::{Outcome, after_help};

const EXAMPLES: &str = after_help!(
    "  svmio verify                   the whole store; also reclaims what killed programs left behind
  svmio verify /results          one directory
  svmio verify /results/step1.h5
  svmio verify --store /mnt/a/store --store /mnt/b/store   two nodes' stores, and that they agree
  svmio verify --json | jq -r '.damaged[].path'

Looks at each file's manifest and segments: readable, complete, of the right sizes, nothing beyond the
end. What a program wrote is not known here: this finds lost storage, not wrong results. Of files that
several nodes share, the stores that are given are compared: an older or damaged manifest is replaced by
the newest one, if nobody has the file open there. A file with parts in stores that are not given is told as not
seen whole, with what is missing; that is no failure. Where svmio cp -f was killed, the older file is restored or
removed, by what all of the stores that it copied to tell. What is left in some stores of a file that was removed from
others is reclaimed."
);

const FIELDS: &str = "\
A JSON object instead; it has
  clean      whether nothing is damaged, no record either, and every directory could be read
  checked    the paths of the files that were looked at
  damaged    for each damaged file its path (with path_bytes as of svmio ls --json) and the error
  reclaimed  what killed programs left behind, or who removed files without some of their nodes, and was removed
  repaired   if any: what one node's store lacked, or had in an older form, and has now from another's; and where an
             older file was restored that a killed svmio cp had set aside
  put_aside  if any: for each segment that the newest manifest of its file does not tell of its path (segment) and
             the file's: it was left as it is
  damaged_records  if any: records of older files that were being replaced, which cannot be read: leftovers were left
             as they are
  unread     if any: for each directory that may not be read its path, and why not (error): what is below was not looked
             at, and leftovers were left as they are
  unreclaimed  if leftovers were left as they are: the path of a file whose name is damaged
  unseen     if any: for each file with parts on nodes whose stores were not given its path, and which (error)";

/// The arguments of `svmio verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArguments {
    #[arg(long, help = "A JSON object instead", long_help = FIELDS)]
    json: bool,

    #[command(flatten)]
    store: StoreOption,

    /// The directory or file [default: /]
    #[arg(value_parser = StorePath::parser())]
    path: Option<StorePath>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Findings {
    clean: bool,
    checked: Vec<String>,
    damaged: Vec<Damage>,
    reclaimed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repaired: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    put_aside: Vec<Aside>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged_records: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Damage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreclaimed: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unseen: Vec<Damage>,
}

#[derive(Debug, Serialize)]
struct Aside {
    #[serde(flatten)]
    path: RecordedPath,
    segment: String,
}

#[derive(Debug, Serialize)]
struct Damage {
    #[serde(flatten)]
    path: RecordedPath,
    error: String,
}

/// Looks the store, or a part of it, over.
pub(crate) fn verify(arguments: &VerifyArguments) -> Result<Outcome, CommandError> {
    let stores = arguments.store.open()?;
    let path = arguments.path.clone().unwrap_or_else(StorePath::root);
    let findings = Findings::from(look(&stores, &path)?);
    let mut output = Output::new()?;
    if arguments.json {
        output.json(&findings)?;
    } else {
        for damage in &findings.damaged {
            output.line(format!("damaged: {}: {}", damage.path, damage.error))?;
        }
        for unseen in &findings.unseen {
            output.line(format!("not seen whole: {}", unseen.error))?;
        }
        for repaired in &findings.repaired {
            output.line(format!("repaired: {repaired}"))?;
        }
        for aside in &findings.put_aside {
            output.line(format!(
                "put aside: {}: the newest manifest does not tell of {}: open the file in a job of all its nodes, \
                 which takes it up or drops it",
                aside.path, aside.segment
            ))?;
        }
        for record in &findings.damaged_records {
            output.line(format!(
                "damaged record: {record}: it tells of an older file that was being replaced: look at your files, and \
                 remove it; leftovers are not reclaimed until then"
            ))?;
        }
        for unread in &findings.unread {
            output.line(format!(
                "not read: {}: {}; leftovers are not reclaimed until it can be",
                unread.path, unread.error
            ))?;
        }
        if let Some(name) = &findings.unreclaimed {
            output.line(format!(
                "leftovers not reclaimed: what {name} led to looks like one: remove that file, or put its name back"
            ))?;
        }
        for leftover in &findings.reclaimed {
            output.line(format!("reclaimed: {leftover}"))?;
        }
        let unseen = match findings.unseen.len() {
            0 => String::new(),
            files => format!(", {files} not seen whole"),
        };
        let unread = match findings.unread.len() as u64 {
            0 => String::new(),
            1 => ", 1 directory not read".to_owned(),
            directories => format!(", {directories} directories not read"),
        };
        output.line(format!(
            "{} checked, {} damaged, {} reclaimed{unseen}{unread}",
            counted(findings.checked.len() as u64, "file"),
            findings.damaged.len(),
            counted(findings.reclaimed.len() as u64, "leftover")
        ))?;
    }
    output.finish()?;
    Ok(if findings.clean { Outcome::Fine } else { Outcome::Troubled })
}

fn look(stores: &StoreSet, path: &StorePath) -> Result<Report, CommandError> {
    Ok(match path.find(stores)? {
        Found::Directory(directory) => stores.verify(&directory)?,
        Found::File(name) => stores.verify_file(&name),
    })
}

impl From<Report> for Findings {
    fn from(report: Report) -> Findings {
        let damage = |(name, error): &(svmio_svm::FileName, svmio_svm::Error)| Damage {
            path: RecordedPath::of(name.as_path()),
            error: error.to_string(),
        };
        Findings {
            clean: report.is_clean(),
            checked: report.files.iter().map(ToString::to_string).collect(),
            damaged: report.damaged.iter().map(damage).collect(),
            reclaimed: report.reclaimed.iter().map(|path| path.display().to_string()).collect(),
            repaired: report.repaired.iter().map(|path| path.display().to_string()).collect(),
            put_aside: report
                .put_aside
                .iter()
                .map(|(name, path)| Aside {
                    path: RecordedPath::of(name.as_path()),
                    segment: path.display().to_string(),
                })
                .collect(),
            damaged_records: report.damaged_records.iter().map(|path| path.display().to_string()).collect(),
            unread: report
                .unread
                .iter()
                .map(|(name, error)| Damage {
                    path: RecordedPath::of(name.as_path()),
                    error: error.to_string(),
                })
                .collect(),
            unreclaimed: report.unreclaimed.as_ref().map(ToString::to_string),
            unseen: report.unseen.iter().map(damage).collect(),
        }
    }
}
