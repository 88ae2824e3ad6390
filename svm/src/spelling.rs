//! Which word was meant by one that is not known.

/// The word of `known` that is nearest to `word`, if it is near enough to have been meant: one letter in three may be
/// wrong, missing, too many or in its neighbour's place.
///
/// ```
/// use svmio_svm::spelling::nearest;
///
/// assert_eq!(nearest("FABRICS", ["CONFIG", "FABRIC"]), Some("FABRIC"));
/// assert_eq!(nearest("ROOT", ["CONFIG", "FABRIC"]), None);
/// ```
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let tolerated = (word.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|known| (strsim::osa_distance(word, known), known));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= tolerated).then_some(known)
}

/// What to add to a sentence about an unknown word: which one was meant, if that is known.
///
/// ```
/// use svmio_svm::spelling::suggestion;
///
/// assert_eq!(suggestion(Some("FABRIC")), "; did you mean FABRIC?");
/// assert_eq!(suggestion(None), "");
/// ```
#[must_use]
pub fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}
