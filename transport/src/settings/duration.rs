//! Times in settings: texts such as "5s" or "500ms".

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes a time.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

/// Reads a time.
///
/// # Errors
/// For a text that is none.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(de::Error::custom)
}
