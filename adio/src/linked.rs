//! What a program has linked into itself.

use std::ffi::CStr;
use std::fs::File;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache};

/// Whether the program that runs defines one of these functions, as its own symbols tell: those of a library that is
/// linked into it statically are not found by the dynamic linker. Of a program without symbols nothing is known.
pub(crate) fn defines_one_of(functions: &[&CStr]) -> bool {
    let Ok(program) = File::open("/proc/self/exe") else { return false };
    let program = ReadCache::new(program);
    let Ok(program) = ElfFile64::<Endianness, _>::parse(&program) else { return false };
    program.symbols().any(|symbol| {
        symbol.is_definition()
            && symbol
                .name_bytes()
                .is_ok_and(|name| functions.iter().any(|function| function.to_bytes() == name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[unsafe(no_mangle)]
    extern "C" fn svmio_adio_is_linked_into_this() {}

    #[test]
    fn what_is_linked_in_is_found() {
        svmio_adio_is_linked_into_this();
        assert!(defines_one_of(&[c"nobody_has_this", c"svmio_adio_is_linked_into_this"]));
        assert!(!defines_one_of(&[c"nobody_has_this"]));
        // It is another library's.
        assert!(!defines_one_of(&[c"malloc"]));
    }
}
