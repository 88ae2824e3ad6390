//! What a component offers a group.

use std::fmt::Debug;
use std::ops::Range;

use super::error::{Error, Result};
use super::function::{Function, for_each_function};
use crate::executor::Operation;

macro_rules! offer {
    ($($(#[$doc:meta])* $variant:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// What a component has made for a group: some of the collective functions. Those that its component does not
        /// offer are never called.
        pub trait Module: Debug + Send {
            /// Has `meanwhile` called again and again while this member waits for others: what a host library has to
            /// go on with, without which the others might never come.
            fn do_meanwhile(&mut self, meanwhile: fn());

            /// Does none of the functions any more, for this `reason`: who waits for this member ends with an error.
            fn withdraw(&mut self, reason: &str);

            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// [`Error::NotOffered`] where the component does not offer it; arguments that do not fit together; the
                /// device's or the fabric's, for a lost member.
                fn $name(&mut self, $($argument: $type),*) -> Result<()> {
                    $(let _ = $argument;)*
                    Err(Error::NotOffered { function: Function::$variant })
                }
            )*
        }
    };
}

for_each_function!(offer);
