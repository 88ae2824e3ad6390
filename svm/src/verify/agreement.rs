//! Whether the stores of several nodes agree about a file that these share, and whether its parts are whole.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::manifest::{self, Manifest};
use crate::name::FileName;
use crate::object;
use crate::presence::Gate;
use crate::recovery::make_claimed;
use crate::state::State;
use crate::store::Store;
use crate::store_set::{Known, Member, StoreSet, merged};
use crate::stored_file::Piece;
use crate::units::FileId;

use super::Report;

impl StoreSet {
    /// Has each store in which the name of the file `id` is empty, and that has its object, have it again.
    ///
    /// # Errors
    /// Of a store that has no such object: the name may have been another file's.
    pub(super) fn write_names_again(&self, name: &FileName, id: FileId, report: &mut Report) -> Result<()> {
        for member in self.members() {
            if let Err(error @ Error::Unwritten { .. }) = member.lookup(name) {
                report.repaired.push(member.enter_name(name, id)?.ok_or(error)?);
            }
        }
        Ok(())
    }

    /// Whether `name` leads to one file in all stores that have it.
    pub(super) fn is_whole_name(&self, name: &FileName) -> bool {
        let is_damaged = |member: Member<'_>| {
            matches!(
                member.lookup(name),
                Err(Error::CorruptManifest { .. } | Error::Unwritten { .. } | Error::Access { .. })
            )
        };
        self.lookup(name).is_ok() && !self.members().any(is_damaged)
    }

    /// Sees to it that each store that knows the file knows what the newest manifest tells, under the file's name.
    pub(super) fn check_agreement(&self, name: &FileName, id: FileId, report: &mut Report) -> Result<()> {
        let (mut known, mut damaged) = (Vec::new(), Vec::new());
        for member in self.members() {
            match member.look(id, name) {
                Ok(Some((manifest, survived))) => known.push(Known { member, manifest, survived }),
                Ok(None) if member.lookup(name).is_ok_and(|found| found == id) => {
                    return Err(member.lost_object(name));
                }
                Ok(None) => {}
                Err(error @ Error::CorruptManifest { .. }) => damaged.push((member, error)),
                Err(error) => return Err(error),
            }
        }
        let newest = known.iter().map(|k| &k.manifest).max_by_key(|manifest| manifest.epoch).cloned();
        let Some(newest) = newest else {
            return damaged.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
        };
        for (member, error) in damaged {
            match member.repair(None, &newest)? {
                Repair::Done(path) => report.repaired.push(path),
                Repair::Undone | Repair::Against(_) => return Err(error),
            }
        }
        for Known { member, manifest, .. } in &known {
            // Whoever has it open, or brings it up next, knows more than the newest manifest.
            if manifest.epoch < newest.epoch {
                match member.repair(Some(manifest), &newest)? {
                    Repair::Done(path) => report.repaired.push(path),
                    Repair::Undone => {}
                    Repair::Against(segment) => report.put_aside.push((name.clone(), segment)),
                }
            }
            if matches!(member.lookup(name), Err(Error::NoSuchFile { .. })) {
                report.repaired.extend(member.enter_name(name, id)?);
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
        for (home, segments) in file.by_home() {
            file.part_of(home).map_or(Ok(()), |part| part.check(&segments))?;
        }
        for (index, home) in manifest.homes() {
            let Some(part) = file.part_of(home) else { continue };
            let start = manifest.segment_size.start_of(index).0;
            let end = start + manifest.segment_size.bytes();
            // A writer puts its bytes first and grows the file then; and what was not committed may end anywhere.
            let is_settled = known.iter().all(|k| k.survived.is_none());
            let beyond = Piece { segment: index, within: manifest.size.max(start) - start..end - start };
            if end > manifest.size && is_settled && !part.is_zero(&beyond)? {
                let node = &manifest.nodes[home as usize];
                let path = self.member_of(node).map(|member| object::path(&member.label(), manifest.id));
                return Err(Error::CorruptManifest {
                    name: name.to_string(),
                    path: path.unwrap_or_default(),
                    reason: format!("bytes beyond its size of {} are not zero", manifest.size),
                });
            }
        }
        Ok(())
    }
}

/// What became of a manifest that is not the newest one.
#[derive(Debug)]
pub(crate) enum Repair {
    /// The newest one is there now.
    Done(PathBuf),
    /// It is somebody's who has the file open, is another one by now, or is not there any more.
    Undone,
    /// It stays: beside it lies this segment, which the newest one does not tell of.
    Against(PathBuf),
}

/// Puts `newest` in place of a store's manifest, `own` if it can be read, unless that might lose something or it is
/// another one by now.
pub(crate) fn repair(store: &Store, own: Option<&Manifest>, newest: &Manifest) -> Result<Repair> {
    let path = object::path(store.path(), newest.id);
    let failed = |e: std::io::Error| Error::io(format!("repairing {}", newest.name), &path, e);
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let state = match options.open(path.join(object::STATE)) {
        Ok(state) => state,
        // Removed meanwhile, or not ours to change.
        Err(_) => return Ok(Repair::Undone),
    };
    let gate = Gate::lock(&state).map_err(failed)?;
    if object::is_unlinked(&state).map_err(failed)? || gate.anybody_present().map_err(failed)? {
        return Ok(Repair::Undone);
    }
    let present = Manifest::read(&path, &newest.name).ok().filter(|manifest| manifest.id == newest.id);
    if present.as_ref() != own {
        return Ok(Repair::Undone);
    }
    let position = newest.position_of(store.node());
    for entry in fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let segment = entry.file_name().to_str().and_then(object::segment_of);
        if segment.is_some_and(|index| position.is_none() || newest.home_of(index) != position) {
            return Ok(Repair::Against(entry.path()));
        }
    }
    if let Some(own) = own {
        make_claimed(&path, own, newest, store.node()).map_err(failed)?;
    }
    newest.commit(&path, true)?;
    // What it says is older than that.
    if state.metadata().map_err(failed)?.len() > 0 {
        State::map(state.try_clone().map_err(failed)?).map_err(failed)?.void(position);
    }
    Ok(Repair::Done(path.join(manifest::FILE_NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_options::OpenOptions;

    #[test]
    fn what_has_changed_since_it_was_looked_at_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let name = FileName::new("/a/b").unwrap();
        drop(store.open_file(&name, &OpenOptions::read_write().create(true)).unwrap());
        let id = store.lookup(&name).unwrap();
        crate::attachment::forget(store.shared_path(), id);
        let read = || Manifest::read(&object::path(store.path(), id), "/a/b").unwrap();
        let looked_at = read();
        let newer = |by| Manifest { epoch: looked_at.epoch + by, ..looked_at.clone() };
        assert!(matches!(repair(&store, Some(&looked_at), &newer(2)), Ok(Repair::Done(_))));
        for own in [Some(&looked_at), None] {
            assert!(matches!(repair(&store, own, &newer(1)), Ok(Repair::Undone)));
        }
        assert_eq!(read(), newer(2));

        // It has lost its name, and then goes.
        let entry = store.names().join(name.as_path());
        fs::remove_file(&entry).unwrap();
        assert_eq!(store.give_back_name(&name, id).unwrap(), Some(entry));
        store.remove(&name).unwrap();
        assert_eq!(store.give_back_name(&name, id).unwrap(), None);
        assert!(matches!(store.lookup(&name), Err(Error::NoSuchFile { .. })));
    }
}
