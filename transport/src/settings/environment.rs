//! Settings in the environment: `SVMIO_FABRIC`, and `SVMIO_<SECTION>_<KEY>`.

use toml::Value;

use super::{Assignment, Origin, fields};
use crate::error::Result;

/// What the variables assign. Those of other prefixes, and of svmio's other parts, are not looked at.
pub(super) fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Vec<Assignment>> {
    let mut assignments = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix("SVMIO_").map(str::to_ascii_lowercase) else { continue };
        let Some((section, key)) = split(&name) else { continue };
        let origin = Origin::Environment { variable: variable.clone() };
        assignments.push(Assignment::new(section, key, Value::String(value), origin)?);
    }
    // The order of the environment is nobody's intention; errors are to be the same each time.
    assignments.sort_by_key(|assignment| (assignment.section, assignment.key));
    Ok(assignments)
}

/// Section and key, where the name begins with a section or is a key of none.
fn split(name: &str) -> Option<(&str, &str)> {
    for &(section, keys) in fields::all() {
        if section.is_empty() {
            if keys.contains(&name) {
                return Some(("", name));
            }
        } else if let Some(key) = name.strip_prefix(section).and_then(|rest| rest.strip_prefix('_')) {
            return Some((section, key));
        }
    }
    None
}
