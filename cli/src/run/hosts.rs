//! The hosts of a job: `--hosts a,b,c` is hydra's own option, and Open MPI is told the same in its words.
//!
//! Under both, ranks are dealt out to the hosts one by one, and there is room on them for all ranks: Open MPI
//! by itself would fill one host after the other, and take a host for one rank only.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::mpiexec_line::{MpiexecLine, MpiexecOption, ProgramLine};

/// hydra's name of the option, which Open MPI has not.
const HOSTS: &str = "hosts";

/// Open MPI's options that say how ranks are placed on hosts; what the user says with them stays.
const MAPPINGS: [&str; 9] =
    ["map-by", "rank-by", "N", "npernode", "pernode", "npersocket", "ppr", "bynode", "byslot"];

/// The words for Open MPI, where the option is one of hosts.
pub(crate) fn for_open_mpi(
    option: &MpiexecOption,
    program: &ProgramLine,
    line: &MpiexecLine,
) -> Option<Vec<OsString>> {
    let hosts = option.value().filter(|_| option.name() == HOSTS)?;
    let mut words = vec!["--host".into(), with_slots(hosts, line.rank_count())];
    if !program.options.iter().any(|option| MAPPINGS.iter().any(|mapping| option.name() == *mapping)) {
        words.extend(["--map-by", "node"].map(OsString::from));
    }
    Some(words)
}

/// The list of hosts, each that says no number of slots with as many as it needs when ranks are dealt out.
fn with_slots(hosts: &OsStr, ranks: Option<u64>) -> OsString {
    let Some(ranks) = ranks else { return hosts.to_owned() };
    let hosts: Vec<&[u8]> = hosts.as_bytes().split(|byte| *byte == b',').collect();
    // The list has at least one entry, be it an empty one.
    let slots = ranks.div_ceil(hosts.len() as u64).max(1);
    let named: Vec<OsString> = hosts
        .into_iter()
        .map(|host| {
            let mut entry = OsStr::from_bytes(host).to_owned();
            if !host.contains(&b':') {
                entry.push(format!(":{slots}"));
            }
            entry
        })
        .collect();
    named.join(OsStr::new(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_room_for_all_ranks() {
        for (hosts, ranks, expected) in [
            ("a,b,c,d", Some(4), "a:1,b:1,c:1,d:1"),
            ("a,b,c", Some(8), "a:3,b:3,c:3"),
            ("a:7,b", Some(8), "a:7,b:4"),
            ("a", None, "a"),
        ] {
            assert_eq!(with_slots(OsStr::new(hosts), ranks), expected);
        }
    }

    #[test]
    fn only_hosts_are_translated_and_what_the_user_says_of_places_stays() {
        let words = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            let line = MpiexecLine::parse(&words).unwrap();
            let program = line.first();
            let words = program.options.iter().flat_map(|option| {
                for_open_mpi(option, program, &line).unwrap_or_else(|| option.words().cloned().collect())
            });
            words.collect::<Vec<_>>().join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(words("-n 4 --hosts a,b ./app"), "-n 4 --host a:2,b:2 --map-by node");
        assert_eq!(words("-hosts=a,b -n 2 ./app"), "--host a:1,b:1 --map-by node -n 2");
        assert_eq!(words("-n 4 --hosts a,b --map-by slot ./app"), "-n 4 --host a:2,b:2 --map-by slot");
        assert_eq!(words("-n 4 --host a,b ./app"), "-n 4 --host a,b");
    }
}
