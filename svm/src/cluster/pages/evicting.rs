//! Bringing a page home that is in the way of another, together with those beside it: who writes little by little in one
//! direction would else wait for a message for each page, as each that he begins is in the place of a dirty one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::attachment::{self, Attachment, How};
use crate::cache::{PageKey, PageNumber, PageSet, SetVersion};
use crate::cluster::SharedFile;
use crate::error::{ErrorKind, Result};
use crate::units::FileId;

/// How many are brought home together, at the most.
const MOST: usize = 64;

/// So many pages are looked at together. Where none of them is dirty, none beyond is looked for: who writes here and
/// there has none, and is not to pay for a long search.
const STEP: u64 = 4;

impl SharedFile {
    /// Brings home what is dirty of a page, of this file or another, and of those near it; they stay in the cache.
    /// Where another one is at that page, returns what to wait for.
    pub(super) fn bring_victim_home(&self, victim: &PageKey) -> Result<Option<SetVersion>> {
        if victim.file == self.file() {
            return self.bring_neighbourhood_home(self.attachment(), victim);
        }
        if let Some(reason) = self.lost_leader() {
            // What was kept of the file may be others' by now, who may have written there.
            return Err(reason);
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
        let all = self.neighbourhood(attachment, victim)?;
        let elsewhere = match self.bring_home(attachment, &all) {
            // It may be about one of the others, which are in nobody's way.
            Err(error) if all.len() > 1 => {
                tracing::debug!("pages of file {} are brought home one by one: {error}", victim.file);
                self.bring_home(attachment, &[*victim])?
            }
            outcome => outcome?,
        };
        // Somebody may be at the others, too.
        Ok(elsewhere.into_iter().find_map(|(key, version)| (key == *victim).then_some(version)))
    }

    /// The page and the nearest dirty ones of its segment, which have the same home: as many as a message carries.
    fn neighbourhood(&self, attachment: &Attachment, victim: &PageKey) -> Result<Vec<PageKey>> {
        let (PageNumber(page), file) = (victim.page, victim.file);
        let of_segment = attachment.segment_size().bytes() / u64::from(self.cache().page());
        let first = page / of_segment * of_segment;
        let most = MOST.min(self.pages_per_message());
        let dirty = |pages: &Range<u64>| match pages.is_empty() {
            true => Ok(Vec::new()),
            false => self.cache().dirty_among(file, &PageSet::of([pages.clone()])),
        };
        // Ascending, so that the home finds one long piece where there is no gap.
        let mut all = VecDeque::from([victim.page]);
        // From where on it is looked further, to both sides.
        let (mut below, mut above) = (Some(page), Some(page + 1));
        while all.len() < most && (below.is_some() || above.is_some()) {
            if let Some(end) = below {
                let step = first.max(end.saturating_sub(STEP))..end;
                let found = dirty(&step)?;
                below = (!found.is_empty()).then_some(step.start);
                found.into_iter().rev().for_each(|page| all.push_front(page));
            }
            if let Some(start) = above {
                let step = start..(start + STEP).min(first + of_segment);
                let found = dirty(&step)?;
                above = (!found.is_empty()).then_some(step.end);
                all.extend(found);
            }
        }
        while all.len() > most {
            let [before, behind] = [0, all.len() - 1].map(|at| all[at].0.abs_diff(page));
            if before > behind {
                all.pop_front()
            } else {
                all.pop_back()
            };
        }
        Ok(all.into_iter().map(|page| PageKey { file, page }).collect())
    }

    /// Another file, which some process of this node has open or had: its bytes are in the way.
    fn other(&self, file: FileId) -> Result<Arc<Attachment>> {
        let how = How { removed: true, ..How::through(self.cluster().id()) };
        let attached = attachment::attach(self.cluster().store(), file, &format!("file {file}"), how);
        attached.map_err(|error| error.into_error(file))
    }
}
