//! Which sections and keys there are: the fields of the settings' types, as their own deserializers name them.

use std::sync::OnceLock;

use serde::de::value::Error;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

use super::Settings;
use crate::job::{StartSettings, WatchdogSettings};
use crate::message::MessageSettings;
use crate::ofi::OfiSettings;
use crate::shm::ShmSettings;

/// Names of fields.
pub(super) type Names = &'static [&'static str];

/// Every section with its keys; first the one without a name.
pub(super) fn all() -> &'static [(&'static str, Names)] {
    static ALL: OnceLock<Vec<(&'static str, Names)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let section = |name: &str| match name {
            "shm" => Some(of::<ShmSettings>()),
            "ofi" => Some(of::<OfiSettings>()),
            "messages" => Some(of::<MessageSettings>()),
            "start" => Some(of::<StartSettings>()),
            "watchdog" => Some(of::<WatchdogSettings>()),
            _ => None,
        };
        let names = of::<Settings>();
        // The keys of no section are the first fields.
        let keys = names.iter().position(|name| section(name).is_some()).unwrap_or(names.len());
        let sections = names.iter().filter_map(|name| Some((*name, section(name)?)));
        std::iter::once(("", &names[..keys])).chain(sections).collect()
    })
}

/// The names of a structure's fields.
fn of<T: Deserialize<'static>>() -> Names {
    let mut names: Names = &[];
    // It always ends with an error: there is no value to give.
    let _ = T::deserialize(Listener(&mut names));
    names
}

/// Takes down which fields a structure asks for.
struct Listener<'a>(&'a mut Names);

impl<'de> Deserializer<'de> for Listener<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: Names,
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only the names are wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a structure"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
