//! Sets `cfg(loom)`, by which the lock-free parts are made for loom, where that feature is on.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LOOM").is_some() {
        println!("cargo::rustc-cfg=loom");
    }
}
