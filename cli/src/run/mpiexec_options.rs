//! How many values the options of the launchers take.
//!
//! Needed only to see where `mpiexec`'s options end and the program begins if the user wrote no `--`.
//! MPICH's and Open MPI's options are in one table: none has a different number of values in the two.
//! One and two dashes are the same, as in both launchers. Sources: `mpiexec.hydra --help` of MPICH 4.0
//! and 5.0, `mpirun --help all` of Open MPI 4.1, `mpirun(1)` and `prterun(1)` of Open MPI 5.0.

/// An option that svmio itself understands, beside passing it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionMeaning {
    /// The number of ranks.
    RankCount,
    /// Places ranks on several nodes, or so many on each.
    Placement,
    /// Sets a variable in the ranks of one program, name and value apart (MPICH).
    SetVariable,
    /// Sets a variable in the ranks of all programs, name and value apart (MPICH).
    SetVariableOfAll,
    /// Exports a variable to the ranks, `NAME` or `NAME=VALUE` (Open MPI).
    ExportVariable,
    /// The ranks' working directory.
    WorkingDirectory,
    /// Where programs are looked for.
    SearchPath,
    /// Nothing to svmio.
    Other,
}

/// How many values the option takes and what it means to svmio; nothing for an option not known here.
pub(crate) fn lookup(name: &str) -> Option<(usize, OptionMeaning)> {
    use OptionMeaning as M;
    let known = match name {
        "n" | "np" | "c" => (1, M::RankCount),
        "f" | "hostfile" | "machinefile" | "machine" | "machines" | "machinelist" | "host" | "hosts"
        | "hostlist" | "H" | "default-hostfile" | "ppn" | "N" | "npernode" | "npersocket" | "ppr"
        | "rankmap" => (1, M::Placement),
        "pernode" => (0, M::Placement),
        "env" => (2, M::SetVariable),
        "genv" => (2, M::SetVariableOfAll),
        "x" => (1, M::ExportVariable),
        "wdir" | "wd" => (1, M::WorkingDirectory),
        "path" => (1, M::SearchPath),
        _ if TWO_VALUES.contains(&name) => (2, M::Other),
        _ if ONE_VALUE.contains(&name) => (1, M::Other),
        _ if NO_VALUE.contains(&name) => (0, M::Other),
        _ => return None,
    };
    Some(known)
}

const TWO_VALUES: &[&str] = &["mca", "gmca", "omca", "gomca", "prtemca", "gprtemca", "pmixmca", "gpmixmca"];

#[rustfmt::skip]
const ONE_VALUE: &[&str] = &[
    // hydra
    "bind-to", "binding", "bootstrap", "bootstrap-exec", "configfile", "demux", "envlist", "errfile",
    "errfile-pattern", "g", "genvlist", "gpus-per-proc", "iface", "launcher", "launcher-exec", "localhost",
    "map-by", "membind", "memory-alloc-kinds", "nameserver", "order-nodes", "outfile", "outfile-pattern",
    "output-from", "prepend-pattern", "rmk", "topolib", "usize",
    // Open MPI
    "am", "app", "cartofile", "cf", "cpu-list", "cpu-set", "cpus-per-proc", "cpus-per-rank", "debugger",
    "display", "dvm-uri", "forward-signals", "gpu-support", "hnp", "initial-errhandler", "launch-agent",
    "max-restarts", "max-vm-size", "ompi-server", "output", "output-filename", "personality", "prefix",
    "preload-files", "pset", "rank-by", "rankfile", "report-events", "report-pid", "report-uri", "rf",
    "runtime-options", "spawn-timeout", "stdin", "stream-buffering", "timeout", "tune", "with-ft", "xml-file",
    "xterm",
];

#[rustfmt::skip]
const NO_VALUE: &[&str] = &[
    // hydra
    "dac", "debug", "disable-auto-cleanup", "disable-hostname-propagation", "disable-x", "enable-auto-cleanup",
    "enable-hostname-propagation", "enable-x", "envall", "envnone", "genvall", "genvnone", "hybrid-hosts", "info",
    "l", "pmi-port", "prepend-rank", "print-all-exitcodes", "profile", "skip-launch-node", "v", "verbose",
    "version",
    // Open MPI
    "V", "allow-run-as-root", "bind-to-core", "bind-to-socket", "bycore", "bynode", "byslot", "continuous", "d",
    "debug-daemons", "debug-daemons-file", "debug-devel", "disable-recovery", "display-allocation",
    "display-devel-allocation", "display-devel-map", "display-diffable-map", "display-map", "display-topo",
    "do-not-launch", "do-not-resolve", "enable-instant-on-support", "enable-recovery", "fwd-mpirun-port",
    "get-stack-traces", "index-argv-by-rank", "leave-session-attached", "merge-stderr-to-stdout", "nolocal",
    "nooversubscribe", "noprefix", "novm", "output-proctable", "oversubscribe", "preload-binary", "q", "quiet",
    "report-bindings", "report-child-jobs-separately", "report-state-on-timeout", "s", "set-cwd-to-session-dir",
    "show-progress", "tag-output", "timestamp-output", "tv", "use-hwthread-cpus", "use-regexp", "xml",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_option_is_listed_twice() {
        let mut seen = HashSet::new();
        for name in TWO_VALUES.iter().chain(ONE_VALUE).chain(NO_VALUE) {
            assert!(seen.insert(*name), "{name}");
        }
    }
}
