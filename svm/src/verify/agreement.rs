//! Whether the stores of several nodes agree about a file that these share, and whether its parts are whole.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::finding;
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::object;
use crate::presence::Gate;
use crate::segment;
use crate::state::State;
use crate::store::Store;
use crate::store_set::{Known, StoreSet, merged};
use crate::units::FileId;

use super::Report;

impl StoreSet {
    /// Sees to it that each store that knows the file knows what the newest manifest tells, under the file's name.
    pub(super) fn check_agreement(&self, name: &FileName, id: FileId, report: &mut Report) -> Result<()> {
        let (mut known, mut damaged) = (Vec::new(), Vec::new());
        for store in self.stores() {
            match finding::look(store, id, name) {
                Ok(Some((manifest, survived))) => known.push(Known { store, manifest, survived }),
                Ok(None) if store.lookup(name).is_ok_and(|found| found == id) => {
                    return Err(store.lost_object(name));
                }
                Ok(None) => {}
                Err(error @ Error::CorruptManifest { .. }) => damaged.push((store, error)),
                Err(error) => return Err(error),
            }
        }
        let newest = known.iter().map(|k| &k.manifest).max_by_key(|manifest| manifest.epoch).cloned();
        let Some(newest) = newest else {
            return damaged.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
        };
        for (store, error) in damaged {
            if !repair(store, &newest, report)? {
                return Err(error);
            }
        }
        for Known { store, manifest, .. } in &known {
            // Whoever has it open, or brings it up next, knows more than the newest manifest.
            if manifest.epoch < newest.epoch {
                repair(store, &newest, report)?;
            }
            if matches!(store.lookup(name), Err(Error::NoSuchFile { .. }))
                && store.enter_name(name, id, true)?
            {
                report.repaired.push(store.names().join(name.as_path()));
            }
        }
        Ok(())
    }

    /// Looks at the parts of a file that several nodes share, without disturbing a job that has it open.
    pub(super) fn look_over_parts(&self, name: &FileName, report: &mut Report) -> Result<()> {
        let file = self.open(name)?;
        if let Err(error) = file.check_whole() {
            report.unseen.push((name.clone(), error));
        }
        let known = self.known(file.id(), name)?;
        let Some(manifest) = merged(name, &known)? else { return Ok(()) };
        for (index, home) in manifest.homes() {
            let Some(store) = self.store_of(&manifest.nodes[home as usize]) else { continue };
            let Some(segment) = file.open_segment(index, home)? else { continue };
            let start = manifest.segment_size.start_of(index).0;
            let end = start + manifest.segment_size.bytes();
            // A writer puts its bytes first and grows the file then; and what was not committed may end anywhere.
            let is_settled = known.iter().all(|k| k.survived.is_none()) && !file.is_in_use(home);
            if end > manifest.size && is_settled {
                let beyond = manifest.size.max(start) - start..end - start;
                if !is_zero(&segment, beyond).map_err(|e| {
                    let path = object::path(store.path(), manifest.id).join(object::segment_name(index));
                    Error::io(format!("reading segment {index} of {name}"), &path, e)
                })? {
                    return Err(Error::CorruptManifest {
                        name: name.to_string(),
                        path: object::path(store.path(), manifest.id),
                        reason: format!("bytes beyond its size of {} are not zero", manifest.size),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Puts `newest` in place of a store's manifest. False where that might lose something: somebody has the file open
/// there, or the store has segments of it that `newest` does not tell of.
fn repair(store: &Store, newest: &Manifest, report: &mut Report) -> Result<bool> {
    let path = object::path(store.path(), newest.id);
    let failed = |e: std::io::Error| Error::io(format!("repairing {}", newest.name), &path, e);
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let state = match options.open(path.join(object::STATE)) {
        Ok(state) => state,
        // Removed meanwhile, or not ours to change.
        Err(_) => return Ok(false),
    };
    let gate = Gate::lock(&state).map_err(failed)?;
    if object::is_unlinked(&state).map_err(failed)? || gate.anybody_present().map_err(failed)? {
        return Ok(false);
    }
    let own = newest.position_of(store.node());
    for entry in fs::read_dir(&path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let segment = name.to_str().and_then(object::segment_of);
        if segment.is_some_and(|index| own.is_none() || newest.home_of(index) != own) {
            return Ok(false);
        }
    }
    newest.commit(&path, true)?;
    // What it says is older than that.
    if state.metadata().map_err(failed)?.len() > 0 {
        State::map(state.try_clone().map_err(failed)?).map_err(failed)?.void();
    }
    report.repaired.push(path.join(manifest::FILE_NAME));
    Ok(true)
}

fn is_zero(file: &fs::File, range: std::ops::Range<u64>) -> std::io::Result<bool> {
    let mut rest = range;
    let mut buffer = vec![0u8; 1 << 16];
    while let Some(data) = segment::next_data(file, rest.clone())? {
        let mut at = data.start;
        while at < data.end {
            let length = buffer.len().min((data.end - at) as usize);
            file.read_exact_at(&mut buffer[..length], at)?;
            if buffer[..length].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += length as u64;
        }
        rest.start = data.end;
        if rest.is_empty() {
            break;
        }
    }
    Ok(true)
}
