//! What an installation has for C: the header, made from the Rust sources, the libraries, and what `pkg-config` reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::paths::Paths;
use crate::process;

/// The package of the libraries.
pub(super) const PACKAGE: &str = "svmio-c-library";

/// What the libraries are called when cargo has made them, and their places. Programs ask for the shared one by this
/// very name.
pub(super) const SHARED: (&str, &str) = ("libsvmio_c_library.so", "lib/libsvmio.so.0");
pub(super) const STATIC: (&str, &str) = ("libsvmio_c_library.a", "lib/libsvmio.a");

/// The name under which linkers look for the shared library: it leads to that.
pub(super) const LINK: &str = "lib/libsvmio.so";
const LINKED: &str = "libsvmio.so.0";

/// The places of what is made here.
pub(super) const HEADER: &str = "include/svmio.h";
pub(super) const DESCRIPTION: &str = "lib/pkgconfig/svmio.pc";

/// Takes from the static library what only debuggers need, which is nine tenths of it: it is not made for looking into.
/// The functions of a C library within it give way to a program's own of the same names.
pub(super) fn strip(library: &Path) -> Result<()> {
    let mut objcopy = std::process::Command::new("objcopy");
    objcopy.args(["--strip-debug", "--wildcard", "--weaken-symbol=plthook_*"]).arg(library);
    process::run(&mut objcopy).context("objcopy comes with the C compiler (Debian's package is binutils)")
}

/// Makes header and description in `release`; returns their files.
pub(super) fn make(paths: &Paths, release: &Path) -> Result<[(PathBuf, &'static str); 2]> {
    let (sources, made) = (paths.root().join("c"), release.join("c"));
    fs::create_dir_all(&made).with_context(|| format!("cannot create {}", made.display()))?;
    let config = sources.join("cbindgen.toml");
    let config = cbindgen::Config::from_file(&config)
        .map_err(|error| anyhow::anyhow!("{} cannot be used: {error}", config.display()))?;
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(sources.join("src/types.rs"))
        .with_src(sources.join("library/src/lib.rs"))
        .generate()
        .context("cannot make svmio.h from the sources below c/")?;
    let header = made.join("svmio.h");
    bindings.write_to_file(&header);

    let template = sources.join("svmio.pc");
    let text =
        fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
    let description = made.join("svmio.pc");
    fs::write(&description, text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))
        .with_context(|| format!("cannot write {}", description.display()))?;
    Ok([(header, HEADER), (description, DESCRIPTION)])
}

/// Has the linker's name in `prefix` lead to the shared library.
pub(super) fn link(prefix: &Path) -> Result<()> {
    let (link, new) = (prefix.join(LINK), prefix.join("lib/libsvmio.so.new"));
    let failed = || format!("cannot make {} lead to {LINKED}", link.display());
    super::clear(&new)?;
    std::os::unix::fs::symlink(LINKED, &new).with_context(failed)?;
    fs::rename(&new, &link).with_context(failed)
}
