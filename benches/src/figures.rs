//! The files that a benchmark leaves in the directory that `SVMIO_FIGURES` names.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::aims::Aim;

/// The directory, where one is named.
pub fn directory() -> Option<PathBuf> {
    std::env::var_os("SVMIO_FIGURES").map(PathBuf::from)
}

/// The name of a benchmark's files, by what is not as it is without options: a part, or a short look, does not take the
/// place of the whole. Of each option, whether it is another one, and how it is told.
pub fn name(benchmark: &str, options: &[(bool, String)]) -> String {
    let others = options.iter().filter(|(is_other, _)| *is_other).map(|(_, told)| format!("-{told}"));
    // Names of MPIs, and of directories, have letters that would not do in a file's.
    let told: String = others.collect::<String>().replace(['/', ' ', '\''], "-");
    format!("{benchmark}{told}")
}

/// The words of a list, in one.
pub fn joined<T: ToString>(words: &[T]) -> String {
    words.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Writes the tables as Markdown, and the same as JSON, into the directory, where one is named.
///
/// # Panics
/// Where a file cannot be written.
pub fn keep(name: &str, tables: &str, json: &Value) {
    let Some(directory) = directory() else { return };
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    write(&directory.join(format!("{name}.md")), tables);
    write(&directory.join(format!("{name}.json")), &format!("{json:#}\n"));
}

/// What a benchmark tells, and has measured: printed at once, and kept after each part, since all of it takes long.
#[derive(Debug, Default)]
pub struct Record {
    name: String,
    told: String,
    measured: Vec<Value>,
}

impl Record {
    /// Of files with this [`name`].
    pub fn new(name: String) -> Record {
        Record { name, ..Record::default() }
    }

    /// The files' name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Prints it as a line, or several, and remembers it.
    pub fn tell(&mut self, text: impl std::fmt::Display) {
        let line = format!("{text}\n");
        print!("{line}");
        self.told += &line;
    }

    /// Remembers what was measured.
    pub fn add(&mut self, measured: Value) {
        self.measured.push(measured);
    }

    /// Writes all that there is so far, with what is aimed at.
    ///
    /// # Panics
    /// As [`keep`].
    pub fn keep(&self, aims: &[Aim]) {
        let list: String = aims.iter().map(|aim| format!("\n- {aim}")).collect();
        let json = json!({ "measurements": self.measured, "aims": self::aims(aims) });
        keep(&self.name, &format!("{}{list}\n", self.told), &json);
    }
}

/// What is aimed at, and was measured, as JSON.
pub fn aims(aims: &[Aim]) -> Value {
    let of = |aim: &Aim| json!({ "what": aim.what, "measured": aim.measured, "aim": aim.aim });
    Value::Array(aims.iter().map(of).collect())
}

/// In one step: who is killed meanwhile leaves what there was.
fn write(file: &Path, text: &str) {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_by_default_is_not_in_a_name() {
        let of = |is_check, only: &[&str]| {
            name("mapping", &[(is_check, "check".to_owned()), (!only.is_empty(), joined(only))])
        };
        assert_eq!(of(false, &[]), "mapping");
        assert_eq!(of(true, &["scan", "reads"]), "mapping-check-scan,reads");
        assert_eq!(of(false, &["XHC's design"]), "mapping-XHC-s-design");
    }
}
