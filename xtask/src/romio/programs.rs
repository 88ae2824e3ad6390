//! ROMIO's own test programs: how each is built, run and judged.
//!
//! The facts are from `runtests.in` and the programs' sources in MPICH 4.0.2. Every source file of
//! that folder has its row here; [`super::compile`] fails when one has not.

/// One test program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Its file in ROMIO's test folder; `.in` files hold `@...@` placeholders.
    pub(crate) source: &'static str,
    /// Pieces of the source that are replaced before it is compiled, each with its replacement.
    pub(crate) edits: &'static [(&'static str, &'static str)],
    pub(crate) arguments: Arguments,
    /// The numbers of ranks it accepts, out of 1, 2 and 4.
    pub(crate) ranks: &'static [u32],
    pub(crate) success: Success,
    pub(crate) load: Load,
}

/// How a program is told its file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// `-fname NAME`
    Fname,
    /// `NAME`
    Bare,
    /// `-h -f NAME`: with the hints that force one aggregator.
    Aggregation,
    /// The path of ROMIO's `test_hintfile`, which it opens as its file and reads hints from.
    HintFile,
    /// In the environment, as [`FILE_VARIABLE`] and [`READ_VARIABLE`].
    Environment,
}

/// How its output shows that all went well; the exit status must be 0 besides.
///
/// Rank 0 alone says so, once: where it is said several times, the ranks did not find each other, and each was a job of
/// its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Success {
    /// It says `No Errors`, and nowhere that it found any.
    NoErrors,
    /// It says each of these.
    Says(&'static [&'static str]),
}

impl Success {
    fn is_in(self, output: &str) -> bool {
        match self {
            Self::NoErrors => output.matches(NO_ERRORS).count() == 1 && !output.contains("Found "),
            Self::Says(all) => all.iter().all(|words| output.matches(words).count() == 1),
        }
    }

    /// What is wrong with the output of a run that exited with 0, if anything.
    pub(crate) fn shortfall(self, output: &str) -> Option<String> {
        (!self.is_in(output)).then(|| "its output does not say that all went well".to_owned())
    }
}

/// What rank 0 says at the end of most of MPICH's and ROMIO's tests.
const NO_ERRORS: &str = " No Errors";

/// What a program takes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    Light,
    /// Its file and buffers take that much memory: nothing else runs beside it.
    Heavy {
        gibibytes: u64,
    },
}

/// Names the file of a program that takes no arguments.
pub(crate) const FILE_VARIABLE: &str = "SVMIO_TEST_FILE";
/// A shell command that prints that file, for the program that looks at it without MPI.
pub(crate) const READ_VARIABLE: &str = "SVMIO_TEST_READ";

const ANY: &[u32] = &[1, 2, 4];

const fn plain(name: &'static str, source: &'static str) -> Program {
    Program {
        name,
        source,
        edits: &[],
        arguments: Arguments::Fname,
        ranks: ANY,
        success: Success::NoErrors,
        load: Load::Light,
    }
}

impl Program {
    const fn on(mut self, ranks: &'static [u32]) -> Self {
        self.ranks = ranks;
        self
    }

    const fn told_by(mut self, arguments: Arguments) -> Self {
        self.arguments = arguments;
        self
    }

    const fn saying(mut self, words: &'static [&'static str]) -> Self {
        self.success = Success::Says(words);
        self
    }

    const fn edited(mut self, edits: &'static [(&'static str, &'static str)]) -> Self {
        self.edits = edits;
        self
    }

    const fn taking(mut self, gibibytes: u64) -> Self {
        self.load = Load::Heavy { gibibytes };
        self
    }

    pub(crate) fn is_fortran(&self) -> bool {
        self.source.ends_with(".f.in")
    }
}

/// What the two `perf` programs print at their end.
const PERF_WORDS: &[&str] = &[
    "Write bandwidth without file sync",
    "Read bandwidth without prior file sync",
    "Write bandwidth including file sync",
    "Read bandwidth after file sync",
];

const LARGE_ARRAY_WORDS: &[&str] = &["Process 0: data read back is correct", "file deleted"];

const COLL_PERF_WORDS: &[&str] = &["Collective write bandwidth", "Collective read bandwidth"];

/// As shipped, `coll_perf`'s array has 14 GB; its comment says 128 cubed.
const COLL_PERF_EDITS: &[(&str, &str)] = &[("128 * 17", "128"), ("128 * 9", "128"), ("128 * 11", "128")];

/// `noncontig_coll2` gathers host names into pieces from several `malloc`s by offsets of type `int`,
/// which overflow where the pieces come from different arenas (seen with Open MPI 5); here the pieces
/// come from one.
const NONCONTIG_COLL2_EDITS: &[(&str, &str)] = &[(
    "procname[i] = malloc(procname_len[i]);",
    "procname[i] = i == 0 ? malloc(commsize * MPI_MAX_PROCESSOR_NAME)\
     : procname[0] + i * MPI_MAX_PROCESSOR_NAME;",
)];

/// `external32` fixes its file's name and reads the file back without MPI; here both are given.
const EXTERNAL32_EDITS: &[(&str, &str)] = &[
    ("#define TEST_FILENAME \"test.datarep\"", "#define TEST_FILENAME getenv(\"SVMIO_TEST_FILE\")"),
    ("fopen(TEST_FILENAME, \"r\")", "popen(getenv(\"SVMIO_TEST_READ\"), \"r\")"),
];

const EXTERNAL32_WORDS: &[&str] = &[
    "native datarep is LITTLE ENDIAN",
    "external32 datarep is BIG ENDIAN",
    "internal datarep is LITTLE ENDIAN",
];

/// All of them, in the order of the alphabet, the Fortran ones last.
pub(crate) const PROGRAMS: &[Program] = &[
    plain("aggregation1", "aggregation1.c").told_by(Arguments::Aggregation),
    plain("aggregation2", "aggregation2.c").told_by(Arguments::Bare),
    plain("async", "async.c"),
    plain("async-multiple", "async-multiple.c"),
    plain("atomicity", "atomicity.c"),
    plain("big_extents", "big_extents.c").told_by(Arguments::Bare),
    plain("coll_perf", "coll_perf.c").edited(COLL_PERF_EDITS).saying(COLL_PERF_WORDS),
    plain("coll_test", "coll_test.c"),
    plain("creat_excl", "creat_excl.c"),
    plain("darray_read", "darray_read.c").told_by(Arguments::Bare).on(&[4]),
    plain("error", "error.c"),
    plain("excl", "excl.c"),
    plain("external32", "external32.c")
        .edited(EXTERNAL32_EDITS)
        .told_by(Arguments::Environment)
        .saying(EXTERNAL32_WORDS),
    plain("file_info", "file_info.c"),
    plain("hindexed", "hindexed.c").told_by(Arguments::Bare).on(&[4]),
    plain("i_noncontig", "i_noncontig.c").on(&[2]),
    plain("large_array", "large_array.c").on(&[2]).saying(LARGE_ARRAY_WORDS).taking(10),
    plain("large_file", "large_file.c.in").on(&[1]).saying(&["Data read back is correct"]).taking(5),
    plain("misc", "misc.c.in"),
    plain("noncontig", "noncontig.c").on(&[2]),
    plain("noncontig_coll", "noncontig_coll.c").on(&[2]),
    plain("noncontig_coll2", "noncontig_coll2.c").edited(NONCONTIG_COLL2_EDITS).on(&[2, 4]),
    plain("ordered_fp", "ordered_fp.c"),
    plain("perf", "perf.c").saying(PERF_WORDS),
    plain("psimple", "psimple.c"),
    plain("shared_fp", "shared_fp.c"),
    plain("simple", "simple.c"),
    plain("split_coll", "split_coll.c"),
    plain("status", "status.c"),
    plain("syshints", "syshints.c").told_by(Arguments::HintFile).on(&[1]),
    plain("types_with_zeros", "types_with_zeros.c").told_by(Arguments::Bare).on(&[2]),
    plain("fcoll_test", "fcoll_test.f.in"),
    plain("fmisc", "fmisc.f.in"),
    plain("fperf", "fperf.f.in").saying(PERF_WORDS),
    plain("pfcoll_test", "pfcoll_test.f.in"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_found_are_no_success() {
        assert!(Success::NoErrors.is_in(" No Errors\n"));
        assert!(!Success::NoErrors.is_in("Found 3 errors\n"));
        assert!(!Success::NoErrors.is_in("Found 3 errors\n No Errors\n"));
        assert!(!Success::NoErrors.is_in(""));
        assert!(Success::Says(&["a", "b"]).is_in("b a"));
        assert!(!Success::Says(&["a", "b"]).is_in("a"));
    }

    #[test]
    fn several_jobs_of_one_rank_are_no_success() {
        assert!(!Success::NoErrors.is_in(" No Errors\n No Errors\n"));
        assert!(!Success::Says(&["a", "b"]).is_in("a b a b"));
    }
}
