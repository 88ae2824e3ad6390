//! One value given to one key, by whatever source.

use serde::Deserialize;
use toml::{Table, Value};

use super::{Origin, Settings, byte_size, fields};
use crate::error::{Error, Result};

/// A key, what it was given, and by whom.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

impl Assignment {
    /// One to `key` of `section`.
    ///
    /// # Errors
    /// Where there is no such section or key.
    pub(super) fn new(section: &str, key: &str, value: Value, origin: Origin) -> Result<Self> {
        let Some((section, keys)) = fields::all().iter().find(|(name, _)| *name == section) else {
            let names: Vec<_> =
                fields::all().iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
            return Err(wrong(
                &origin,
                format!("there is no section {section}; there are {}", names.join(", ")),
            ));
        };
        let Some(key) = keys.iter().find(|name| **name == key) else {
            let place = if section.is_empty() { "here".into() } else { format!("in section {section}") };
            let known = keys.join(", ");
            return Err(wrong(&origin, format!("there is no key {key} {place}; there is {known}")));
        };
        Ok(Self { section, key, value, origin })
    }

    /// `settings` with this value.
    ///
    /// # Errors
    /// Where it is no value of the key's kind.
    pub(super) fn apply(&self, settings: &Settings) -> Result<Settings> {
        let base = table(settings);
        let default = value(&base, self.section, self.key);
        let mut problems = Vec::new();
        for candidate in candidates(&self.value, default) {
            let mut table = base.clone();
            set(&mut table, self.section, self.key, candidate);
            match Settings::deserialize(Value::Table(table)) {
                Ok(settings) => return Ok(settings),
                Err(problem) => problems.push(problem.message().to_owned()),
            }
        }
        // The last candidate is what was written, as it was written.
        let problem = problems.pop().unwrap_or_default();
        let hint = hint(default);
        Err(wrong(&self.origin, format!("{} = {}: {problem}{hint}", self.key, show(&self.value))))
    }
}

fn wrong(origin: &Origin, problem: String) -> Error {
    Error::Setting { place: origin.to_string(), problem }
}

/// What a value may mean: a text may be a number, with or without a unit.
fn candidates(value: &Value, default: Option<&Value>) -> Vec<Value> {
    let Value::String(text) = value else { return vec![value.clone()] };
    let text = text.trim();
    // Where a text is wanted, a text is meant.
    let is_text = matches!(default, Some(Value::String(_)));
    let size = byte_size(text).and_then(|bytes| i64::try_from(bytes).ok());
    let integer = size.map(Value::Integer).filter(|_| !is_text);
    let boolean = text.parse().ok().map(Value::Boolean);
    let float = text.parse().ok().map(Value::Float);
    let other = [integer, boolean, float].into_iter().flatten().filter(|_| !is_text);
    other.chain([Value::String(text.into())]).collect()
}

fn hint(default: Option<&Value>) -> &'static str {
    match default {
        Some(Value::Integer(_)) => "; whole numbers may carry K, M, G or KiB, MiB, GiB, as in 32KiB",
        Some(Value::Boolean(_)) => "; it is true or false",
        Some(Value::String(text)) if humantime::parse_duration(text).is_ok() => {
            "; it is a time, as in 5s or 500ms"
        }
        _ => "",
    }
}

/// All settings as a table of tables.
pub(super) fn table(settings: &Settings) -> Table {
    // Settings are plain numbers, texts and flags in named structures, which every format can hold.
    Table::try_from(settings).unwrap_or_default()
}

/// One value of such a table.
pub(super) fn value<'a>(table: &'a Table, section: &str, key: &str) -> Option<&'a Value> {
    let table = if section.is_empty() { table } else { table.get(section)?.as_table()? };
    table.get(key)
}

fn set(table: &mut Table, section: &str, key: &str, value: Value) {
    if section.is_empty() {
        table.insert(key.into(), value);
    } else if let Some(section) = table.get_mut(section).and_then(Value::as_table_mut) {
        section.insert(key.into(), value);
    }
}

/// A value as it would be written in the environment.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
