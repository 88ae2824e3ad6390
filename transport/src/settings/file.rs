//! The settings file.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::{Assignment, Origin};
use crate::error::{Error, Result};

/// What a file assigns, with its lines.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Assignment>> {
    let origin = |span: Range<usize>| Origin::File { path: path.into(), line: line(text, span.start) };
    let document = DeTable::parse(text).map_err(|problem| Error::Setting {
        place: origin(problem.span().unwrap_or_default()).to_string(),
        problem: problem.message().into(),
    })?;
    let mut assignments = Vec::new();
    for (name, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) => {
                for (key, value) in section {
                    let origin = origin(key.span());
                    assignments.push(Assignment::new(name.get_ref(), key.get_ref(), plain(value), origin)?);
                }
                // A section without keys must exist, too.
                if section.is_empty()
                    && !super::fields::all().iter().any(|(known, _)| known == name.get_ref())
                {
                    assignments.push(Assignment::new(
                        name.get_ref(),
                        "",
                        Value::Boolean(true),
                        origin(name.span()),
                    )?);
                }
            }
            _ => assignments.push(Assignment::new("", name.get_ref(), plain(value), origin(name.span()))?),
        }
    }
    Ok(assignments)
}

/// A value without its place in the file. What settings never are becomes a text, which no key takes.
fn plain(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_or_else(|_| Value::String(number.to_string()), Value::Integer)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse();
            parsed.map_or_else(|_| Value::String(number.to_string()), Value::Float)
        }
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(values) => Value::Array(values.iter().map(plain).collect()),
        DeValue::Table(table) => {
            Value::Table(table.iter().map(|(key, value)| (key.get_ref().to_string(), plain(value))).collect())
        }
    }
}

fn line(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
