//! What a file system is told, and tells, beside the calls themselves.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

use crate::sys::{Failure, Info};

/// Hints: keys and values, as MPI's info objects have them.
///
/// Those of svmio begin with `svm_`; its guide has all of them. A key or value with a zero byte in it ends there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints(BTreeMap<CString, CString>);

impl Hints {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// These, and one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.0.insert(until_zero(key), until_zero(&value.to_string()));
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.0.get(&until_zero(key)).map(|value| value.to_string_lossy().into_owned())
    }

    /// All keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (String, String)> {
        let text = |text: &CStr| text.to_string_lossy().into_owned();
        self.0.iter().map(move |(key, value)| (text(key), text(value)))
    }

    pub(crate) fn to_info(&self) -> Result<Info, Failure> {
        Info::of(self.0.iter().map(|(key, value)| (key.as_c_str(), value.as_c_str())))
    }

    pub(crate) fn from_info(info: &Info) -> Result<Self, Failure> {
        Ok(Self(info.read()?.into_iter().collect()))
    }
}

fn until_zero(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
