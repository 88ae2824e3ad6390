//! How a mapping is to be made, as C says it.

use std::ffi::{c_char, c_void};

use svmio_svm::mapping::{LostPage, MappingOptions};

use crate::types::*;

/// The options that C has given.
pub(super) fn mapping_options(options: &svm_options) -> MappingOptions {
    let mut mapping = MappingOptions::new();
    if options.limit != 0 {
        mapping = mapping.limit(options.limit);
    }
    match options.ahead {
        0 => {}
        SVM_NOTHING => mapping = mapping.ahead(0),
        bytes => mapping = mapping.ahead(bytes),
    }
    if options.handlers != 0 {
        mapping = mapping.handlers(usize::try_from(options.handlers).unwrap_or(usize::MAX).min(1024));
    }
    match options.on_loss {
        None => mapping,
        Some(tell) => {
            let listener = Listener { tell, context: options.context };
            mapping.on_loss(move |lost| listener.tell(lost))
        }
    }
}

/// Whom the program wants to be told of lost pages.
struct Listener {
    tell: unsafe extern "C" fn(*mut c_void, u64, u64, *const c_char),
    context: *mut c_void,
}

// SAFETY: the header says that it is called by threads of svmio's.
unsafe impl Send for Listener {}
// SAFETY: as above, by several of them.
unsafe impl Sync for Listener {}

impl Listener {
    fn tell(&self, lost: &LostPage<'_>) {
        let text = std::ffi::CString::new(lost.error.to_string().replace('\0', " ")).unwrap_or_default();
        // SAFETY: the program vouches for its function; the text lasts as long as the call.
        unsafe { (self.tell)(self.context, lost.range.start.0, lost.range.end.0, text.as_ptr()) };
    }
}
