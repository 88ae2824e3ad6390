//! libfabric as C offers it: its structures, its loading, the calls through its tables.
//!
//! Everything is unsafe in here; [`super::endpoint`], [`super::provider`] and [`super::domain`] make it safe.

mod kernel_symbols;
mod library;
mod signals;
mod stand_ins;

pub(super) use bindings::*;
pub(super) use library::library;

/// What bindgen made of the installed headers; see `build.rs`.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/libfabric.rs"));
}

/// `FI_ADDR_UNSPEC` of `rdma/fi_domain.h`: from or to any peer. A cast, which bindgen does not evaluate.
pub(super) const ADDRESS_UNSPECIFIED: fi_addr_t = fi_addr_t::MAX;

/// `FI_KEY_NOTAVAIL` of `rdma/fi_domain.h`: the key of a registration does not fit into 64 bits.
pub(super) const KEY_NOT_AVAILABLE: u64 = u64::MAX;

/// The version that the structures are those of, as `FI_VERSION` of `rdma/fabric.h` makes it.
pub(super) const API_VERSION: u32 = (FI_MAJOR_VERSION << 16) | FI_MINOR_VERSION;

/// Calls a function of one of an object's tables, as the inline functions of the headers do; a function that the
/// provider left out answers that it is not there.
macro_rules! call {
    ($object:expr, $($table:ident).+ ( $($argument:expr),* $(,)? )) => {
        call!(@ ($object) () $($table).+ ; $($argument),*)
    };
    (@ ($object:expr) ($($path:ident)*) $table:ident . $function:ident ; $($argument:expr),*) => {
        match (*(*$object)$(.$path)*.$table).$function {
            Some(function) => function($($argument),*),
            None => -(libc::ENOSYS as i8) as _,
        }
    };
    (@ ($object:expr) ($($path:ident)*) $next:ident . $($rest:ident).+ ; $($argument:expr),*) => {
        call!(@ ($object) ($($path)* $next) $($rest).+ ; $($argument),*)
    };
}
pub(super) use call;
