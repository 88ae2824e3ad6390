//! What killed processes left set aside, when they were putting a new file over an older one in several stores.
//!
//! An older file is released in any store only after the name has gone over to the new one in all of them, and the name
//! goes back in any store only where nothing was released. So where it has gone over everywhere, the new one stays; and
//! where it has not somewhere, the older one is still everywhere.
//!
//! The new one may be removed while a store still has a record. Where it had a part, it leaves a trace then, if there is
//! a record of it: so the stores in which it has none come first in releasing, and no record outlasts the others unseen.
//! It is not renamed as long as there is one, for it would be looked for by its name.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::name::FileName;
use crate::store::aside::{Over, Stays};
use crate::store_set::StoreSet;
use crate::units::FileId;

use super::Report;

impl StoreSet {
    /// Restores or releases what is set aside of those files that are meant, where nobody is about it and the stores
    /// here tell which it is to be.
    pub(super) fn settle_replacements(
        &self,
        is_meant: impl Fn(&FileName) -> bool,
        report: &mut Report,
    ) -> Result<()> {
        let mut found = BTreeMap::<String, Vec<_>>::new();
        for member in self.members() {
            let asides = member.asides()?;
            report.damaged_records.extend(asides.damaged);
            for recorded in asides.recorded {
                found.entry(recorded.new.to_string()).or_default().push((member, recorded));
            }
        }
        for mut records in found.into_values() {
            // First those in which nothing but the record tells of the new file.
            records.sort_by_key(|(member, recorded)| !recorded.over.cleared.contains(member.node()));
            let recorded = records[0].1.clone();
            if !is_meant(&recorded.name) || records.iter().any(|(_, recorded)| recorded.in_use) {
                continue;
            }
            let Some(stays) = self.which_stays(&recorded.name, recorded.new, &recorded.over)? else {
                report.unseen.push((recorded.name.clone(), self.undecided(&recorded.name, &recorded.over)));
                continue;
            };
            for (member, _) in records {
                let settled = member.settle_aside(recorded.new, stays)?;
                match stays {
                    Stays::Older => report.repaired.extend(settled),
                    Stays::New => report.reclaimed.extend(settled),
                }
            }
        }
        Ok(())
    }

    /// The same for the file `name`; what keeps it from being told where other stores know it.
    pub(crate) fn settle_replacement(&self, name: &FileName) -> Result<Option<Error>> {
        let mut report = Report::default();
        self.settle_replacements(|other| other == name, &mut report)?;
        Ok(report.unseen.pop().map(|(_, undecided)| undecided))
    }

    /// Which of both files stays; `None` where the stores that are not here would have to be asked.
    fn which_stays(&self, name: &FileName, new: FileId, over: &Over) -> Result<Option<Stays>> {
        let mut is_known = true;
        let with_part = over.nodes.iter().map(|node| (node, true));
        for (node, has_part) in with_part.chain(over.cleared.iter().map(|node| (node, false))) {
            let Some(member) = self.member_of(node) else {
                is_known = false;
                continue;
            };
            match member.lookup(name) {
                Ok(id) if id == new => {}
                Ok(id) if Some(id) == over.older => return Ok(Some(Stays::Older)),
                // A third one has taken the place of either.
                Ok(_) => return Ok(Some(Stays::New)),
                Err(Error::NoSuchFile { .. }) if !has_part => {}
                // It has gone over, and the new one was removed since.
                Err(Error::NoSuchFile { .. }) if member.traces()?.iter().any(|trace| trace.file == new) => {
                    return Ok(Some(Stays::New));
                }
                Err(
                    Error::NoSuchFile { .. }
                    | Error::NotAFile { .. }
                    | Error::CorruptManifest { .. }
                    | Error::Unwritten { .. },
                ) => return Ok(Some(Stays::Older)),
                Err(e) => return Err(e),
            }
        }
        Ok(is_known.then_some(Stays::New))
    }

    fn undecided(&self, name: &FileName, over: &Over) -> Error {
        let missing: Vec<_> =
            over.nodes.iter().chain(&over.cleared).filter(|node| self.member_of(node).is_none()).collect();
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        let parts =
            format!("whether it has replaced an older file is known on {}, which is", missing.join(", "));
        Error::StoresMissing { name: name.to_string(), parts }
    }
}
