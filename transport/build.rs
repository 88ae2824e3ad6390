//! Reads libfabric's structures and constants from the installed headers, makes the libraries that [stand
//! in](stand_ins) for some of those that it is linked with, and sets `cfg(loom)`, by which the lock-free parts are made
//! for loom, where that feature is on.
//!
//! Only declarations are taken: the library is loaded when a program first asks for it (see `ofi::library`), so
//! nothing is linked here.

#[path = "build/stand_ins.rs"]
mod stand_ins;

use std::path::PathBuf;
use std::{env, fs, panic, process};

use bindgen::callbacks::{IntKind, ParseCallbacks};

const HEADERS: &str = "
    #include <rdma/fabric.h>
    #include <rdma/fi_cm.h>
    #include <rdma/fi_domain.h>
    #include <rdma/fi_endpoint.h>
    #include <rdma/fi_eq.h>
    #include <rdma/fi_errno.h>
    #include <rdma/fi_rma.h>
";

const TYPES: [&str; 12] = [
    "fi_av_attr",
    "fi_context2",
    "fi_cq_attr",
    "fi_cq_err_entry",
    "fi_cq_msg_entry",
    "fi_info",
    "fi_msg_rma",
    "fid_av",
    "fid_cq",
    "fid_domain",
    "fid_ep",
    "fid_fabric",
];

const CONSTANTS: [&str; 15] = [
    "FI_(MAJOR|MINOR)_VERSION",
    "FI_(MSG|RMA|READ|WRITE|RECV|SEND|REMOTE_READ|REMOTE_WRITE)",
    "FI_(COMPLETION|TRANSMIT|DELIVERY_COMPLETE|SOURCE|CONTEXT|CONTEXT2)",
    "FI_MR_(LOCAL|VIRT_ADDR|ALLOCATED|PROV_KEY|ENDPOINT)",
    "FI_ORDER_(SAS|STRICT|WAW|RMA_WAW)",
    "fi_ep_type_FI_EP_RDM",
    "fi_threading_FI_THREAD_SAFE",
    "fi_resource_mgmt_FI_RM_ENABLED",
    "fi_av_type_FI_AV_UNSPEC",
    "fi_cq_format_FI_CQ_FORMAT_MSG",
    "fi_wait_obj_FI_WAIT_(FD|NONE|UNSPEC|YIELD)",
    "_bindgen_ty_.*_FI_(ENABLE|GETWAIT|GETWAITOBJ)",
    "_bindgen_ty_.*_FI_(FORMAT_UNSPEC|SOCKADDR(_IN6?)?)",
    "FI_(FORMAT_UNSPEC|SOCKADDR(_IN6?)?)",
    "FI_(ENABLE|GETWAIT|GETWAITOBJ|EAVAIL|ENOKEY|ADDRSTRLEN)",
];

/// Flags are words of 64 bits, whichever of them a value needs.
#[derive(Debug)]
struct Flags;

impl ParseCallbacks for Flags {
    fn int_macro(&self, name: &str, _: i64) -> Option<IntKind> {
        (name.starts_with("FI_") && !name.ends_with("_VERSION")).then_some(IntKind::U64)
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=BINDGEN_EXTRA_CLANG_ARGS");
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    if env::var_os("CARGO_FEATURE_LOOM").is_some() {
        println!("cargo::rustc-cfg=loom");
    }

    let directory = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(problem) = stand_ins::make(&directory) {
        eprintln!("{problem}\nOn Debian: apt-get install gcc libc6-dev; another compiler: set CC");
        process::exit(1);
    }

    let mut builder = bindgen::builder()
        .header_contents("libfabric.h", HEADERS)
        .parse_callbacks(Box::new(Flags))
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .formatter(bindgen::Formatter::None)
        .prepend_enum_name(true);
    builder = TYPES.into_iter().fold(builder, bindgen::Builder::allowlist_type);
    builder = CONSTANTS.into_iter().fold(builder, bindgen::Builder::allowlist_var);

    // Bindgen panics where it finds no libclang; its message then says nothing of packages.
    let generated = panic::catch_unwind(panic::AssertUnwindSafe(|| builder.generate()));
    let problem = match generated {
        Ok(Ok(bindings)) => {
            match fs::File::create(directory.join("libfabric.rs")).map(|file| bindings.write(Box::new(file)))
            {
                Ok(Ok(())) => return,
                Ok(Err(problem)) | Err(problem) => problem.to_string(),
            }
        }
        Ok(Err(problem)) => problem.to_string(),
        Err(_) => "no libclang was found".into(),
    };
    eprintln!(
        "libfabric's headers (rdma/fabric.h, 1.17 or newer) cannot be read: {problem}\n\
         On Debian: apt-get install libfabric-dev libclang-dev\n\
         Headers in a place of their own: set BINDGEN_EXTRA_CLANG_ARGS=-I<directory>"
    );
    process::exit(1);
}
