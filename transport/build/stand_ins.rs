//! Makes the libraries that stand in for those of adapters which a machine does not have (see `ofi::sys::stand_ins`):
//! of the same names, with the functions that libfabric looks for, none of which finds a device.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// A library to stand in for.
struct Original {
    /// Its name, as libfabric's `DT_NEEDED` has it.
    name: &'static str,
    /// What its functions' names begin with.
    prefix: &'static str,
    /// The rest of the names of those that libfabric 1.17 uses.
    functions: &'static [&'static str],
    /// The version that they have, if any.
    version: Option<&'static str>,
}

const ORIGINALS: [Original; 2] = [
    Original {
        name: "libpsm_infinipath.so.1",
        prefix: "psm_",
        functions: &[
            "am_get_parameters",
            "am_register_handlers",
            "am_reply_short",
            "am_request_short",
            "ep_close",
            "ep_connect",
            "ep_epid_lookup",
            "ep_num_devunits",
            "ep_open",
            "ep_open_opts_get_defaults",
            "epaddr_getctxt",
            "epaddr_setctxt",
            "error_register_handler",
            "finalize",
            "init",
            "mq_cancel",
            "mq_finalize",
            "mq_init",
            "mq_ipeek",
            "mq_iprobe",
            "mq_irecv",
            "mq_isend",
            "mq_send",
            "mq_test",
        ],
        version: None,
    },
    Original {
        name: "libpsm2.so.2",
        prefix: "psm2_",
        functions: &[
            "am_get_parameters",
            "am_get_source",
            "am_register_handlers_2",
            "am_reply_short",
            "am_request_short",
            "ep_close",
            "ep_connect",
            "ep_disconnect2",
            "ep_epid_lookup2",
            "ep_open",
            "ep_open_opts_get_defaults",
            "epaddr_getctxt",
            "epaddr_setctxt",
            "epaddr_to_epid",
            "error_register_handler",
            "finalize",
            "get_capability_mask",
            "info_query",
            "init",
            "mq_cancel",
            "mq_improbe2",
            "mq_imrecv",
            "mq_init",
            "mq_ipeek",
            "mq_iprobe2",
            "mq_irecv2",
            "mq_isend2",
            "mq_send2",
            "mq_test2",
            "mq_wait2",
            "poll",
        ],
        version: Some("PSM2_1.0"),
    },
];

/// Makes them in `directory`, each in a file of its name, by the compiler that Rust links with.
///
/// # Errors
/// What the compiler says.
pub(crate) fn make(directory: &Path) -> Result<(), String> {
    ORIGINALS.iter().try_for_each(|original| original.make(directory))
}

impl Original {
    fn make(&self, directory: &Path) -> Result<(), String> {
        let Original { name, prefix, functions, version } = *self;
        /// `PSM_EP_NO_DEVICE` of `psm.h` and `PSM2_EP_NO_DEVICE` of `psm2.h`, both 21.
        const NO_DEVICE: &str = "21";
        let function = |function: &&str| format!("int {prefix}{function}(void) {{ return {NO_DEVICE}; }}\n");
        let mut source: String = functions.iter().map(function).collect();
        source +=
            &format!("const char *{prefix}error_get_string(int error) {{ return \"no such device\"; }}\n");
        let versions = format!("{} {{ global: {prefix}*; }};\n", version.unwrap_or_default());
        let (source_file, versions_file) = (format!("{name}.c"), format!("{name}.versions"));
        for (file, text) in [(&source_file, &source), (&versions_file, &versions)] {
            fs::write(directory.join(file), text).map_err(|error| format!("writing {file}: {error}"))?;
        }
        let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.current_dir(directory).args([
            "-shared",
            "-fPIC",
            "-Os",
            "-nostdlib",
            "-o",
            name,
            &source_file,
        ]);
        command.args([format!("-Wl,-soname,{name}"), format!("-Wl,--version-script,{versions_file}")]);
        let output = command.output().map_err(|error| format!("starting {command:?}: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
