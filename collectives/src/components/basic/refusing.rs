//! A member that cannot do its part of a basic function, as of wrong arguments, ends its messages: who waits for it, or
//! for one who does, ends with an error. Of a lost member all hear by themselves, and that it was lost.

use std::ops::Range;

use svmio_transport::Rank;

use super::Basic;
use crate::components::error::{Error, Result};
use crate::components::function::for_each_function;
use crate::components::module::Module;
use crate::executor::{Error as ExecutorError, Operation};

impl Basic {
    /// Has this member do its part of a function by `body`, unless one has failed before. Where it fails, nobody goes
    /// on waiting for this member.
    pub(super) fn attempt<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        body(self).inspect_err(|error| {
            self.refused = Some(error.clone());
            // Alone, nobody waits; and the messages may be those of other teams.
            if !is_heard_by_all(error, self.team.members()) && self.team.size() > 1 {
                self.team.messenger().end();
            }
        })
    }
}

/// Whether the fabric tells all of `members` of what has gone wrong.
fn is_heard_by_all(error: &Error, members: &[Rank]) -> bool {
    match error {
        Error::Fabric(error) => ExecutorError::from(error.clone()).is_heard_by_all(members),
        Error::Executor(error) => error.is_heard_by_all(members),
        _ => false,
    }
}

macro_rules! attempt {
    ($($(#[$doc:meta])* $variant:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        impl Module for Basic {
            fn do_meanwhile(&mut self, meanwhile: fn()) {
                self.team.messenger().do_meanwhile(meanwhile);
            }

            fn withdraw(&mut self, _reason: &str) {
                self.team.messenger().end();
            }

            $(
                fn $name(&mut self, $($argument: $type),*) -> Result<()> {
                    self.attempt(|basic| Basic::$name(basic, $($argument),*))
                }
            )*
        }
    };
}

for_each_function!(attempt);
