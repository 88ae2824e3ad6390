//! Bringing a page home that is in the way of another, together with those beside it: who writes little by little in one
//! direction would else wait for a message for each page, as each that he begins is in the place of a dirty one.

use std::sync::Arc;

use crate::attachment::{self, Attachment, How};
use crate::cache::{PageKey, PageNumber, PageSet, SetVersion};
use crate::cluster::SharedFile;
use crate::error::{ErrorKind, Result};
use crate::units::FileId;

/// How far from the page others are looked for: who writes here and there has none, and is not to pay for a long search.
const FARTHEST: u64 = 64;

impl SharedFile {
    /// Brings home what is dirty of a page, of this file or another, and of those near it; they stay in the cache.
    /// Where another one is at that page, returns what to wait for.
    pub(super) fn bring_victim_home(&self, victim: &PageKey) -> Result<Option<SetVersion>> {
        if victim.file == self.file() {
            return self.bring_neighbourhood_home(self.attachment(), victim);
        }
        match self.other(victim.file) {
            Ok(other) => self.bring_neighbourhood_home(&other, victim),
            // It was removed, and the last process of this node that had it open has gone: nobody can want these bytes.
            Err(error) if error.kind() == ErrorKind::NoSuchFile => {
                tracing::debug!("what was written to file {} is dropped: it was removed", victim.file);
                self.cache().forget(victim.file).map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    fn bring_neighbourhood_home(
        &self,
        attachment: &Attachment,
        victim: &PageKey,
    ) -> Result<Option<SetVersion>> {
        let elsewhere = self.bring_home(attachment, &self.neighbourhood(attachment, victim)?)?;
        // Others may be at the neighbours, too: these are in nobody's way.
        Ok(elsewhere.into_iter().find_map(|(key, version)| (key == *victim).then_some(version)))
    }

    /// The page and the nearest dirty ones of its segment, which have the same home: as many as a message carries.
    fn neighbourhood(&self, attachment: &Attachment, victim: &PageKey) -> Result<Vec<PageKey>> {
        let (PageNumber(page), file) = (victim.page, victim.file);
        let of_segment = attachment.segment_size().bytes() / u64::from(self.cache().page());
        let first = page / of_segment * of_segment;
        let most = FARTHEST.min(self.pages_per_message() as u64);
        let near = first.max(page.saturating_sub(most - 1))..(page + most).min(first + of_segment);
        let mut dirty = self.cache().dirty_among(file, &PageSet::of([near]))?;
        dirty.sort_by_key(|other| other.0.abs_diff(page));
        dirty.truncate(most as usize);
        // Ascending, so that the home finds one long piece where there is no gap.
        dirty.sort_unstable();
        Ok(dirty.into_iter().map(|page| PageKey { file, page }).collect())
    }

    /// Another file, which some process of this node has open or had: its bytes are in the way.
    fn other(&self, file: FileId) -> Result<Arc<Attachment>> {
        let how = How { removed: true, ..How::through(self.cluster().id()) };
        let attached = attachment::attach(self.cluster().store(), file, &format!("file {file}"), how);
        attached.map_err(|error| error.into_error(file))
    }
}
