//! Words in a manifest that only a later release writes.

use serde::Deserialize;

use crate::placement::{Placement, SizeReason};

/// What a manifest says of policies, whether or not this release knows such ones.
#[derive(Deserialize)]
struct Words {
    placement: Option<String>,
    segment_size_reason: Option<String>,
}

/// The first word in a manifest's `body` that this release does not know, and of which field it is said. The body is as
/// somebody wrote it, as its checksum shows: so that was a release that knows the word.
pub(super) fn unknown(body: &[u8]) -> Option<(&'static str, String)> {
    let Words { placement, segment_size_reason } = serde_json::from_slice(body).ok()?;
    let is_reason = |word: &String| serde_json::from_value::<SizeReason>(word.as_str().into()).is_ok();
    let placement = placement.filter(|word| word.parse::<Placement>().is_err());
    let reason = segment_size_reason.filter(|word| !is_reason(word));
    placement.map(|word| ("placement", word)).or(reason.map(|word| ("segment_size_reason", word)))
}
