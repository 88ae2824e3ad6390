//! Gives the shared library the name by which programs that are linked with it ask for it.

fn main() {
    // Programs of a release before 1.0 need a library of the same minor release.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsvmio.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
