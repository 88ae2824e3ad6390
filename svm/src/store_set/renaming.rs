//! Giving a file another name, that is on one node alone.

use crate::error::{Error, Result};
use crate::name::FileName;
use crate::store::Store;

use super::StoreSet;

impl StoreSet {
    /// Gives the file `from`, which is on one node of this machine alone, the name `to`, as [`Store::rename`] does.
    ///
    /// # Errors
    /// As [`StoreSet::lookup`] and [`Store::rename`]; [`Error::Exists`] even with `replacing` where the file called `to`
    /// is on another node; [`Error::StoresMissing`] where it is not known whether one of them has replaced an older file.
    pub fn rename(&self, from: &FileName, to: &FileName, replacing: bool) -> Result<()> {
        // Otherwise what a killed process had set aside would have the name again later.
        for name in [from, to] {
            self.settle_replacement(name)?.map_or(Ok(()), Err)?;
        }
        let id = self.lookup(from)?;
        self.remove_leftovers(to, &self.removed()?)?;
        let has_it = |store: &&Store| store.lookup(from).is_ok_and(|found| found == id);
        // Other hosts have no part in this.
        let store = self.stores.iter().find(has_it).ok_or_else(|| self.nothing_called(&from.to_string()))?;
        match self.lookup(to) {
            Ok(older) if !replacing || store.lookup(to).ok() != Some(older) => {
                Err(Error::Exists { name: to.to_string(), store: self.place_of(to) })
            }
            Ok(_) | Err(Error::NoSuchFile { .. }) => store.rename(from, to, replacing),
            Err(error) => Err(error),
        }
    }
}
