//! How much memory nobody has: of the machine, and of the control groups that this process is in.

use std::fs;
use std::path::Path;

/// How a version of control groups tells of memory, see cgroups(7).
struct Version {
    /// Where its groups are seen.
    root: &'static str,
    /// What is before a group's name in `/proc/self/cgroup`, behind the hierarchy's number.
    told_by: &'static str,
    /// The files with a group's limit, bytes, and with what it uses of that.
    files: [&'static str; 2],
    /// What of that are files that can be had again, in `memory.stat`.
    reclaimable: [&'static str; 2],
}

const VERSIONS: [Version; 2] = [
    Version {
        root: "/sys/fs/cgroup",
        told_by: "::/",
        files: ["memory.max", "memory.current"],
        reclaimable: ["active_file", "inactive_file"],
    },
    Version {
        root: "/sys/fs/cgroup/memory",
        told_by: ":memory:/",
        files: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
        reclaimable: ["total_active_file", "total_inactive_file"],
    },
];

/// Bytes of memory that could be had at this moment; as many as there can be where the system does not tell.
pub(super) fn available() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = |version: &Version| {
        let group = group(&groups, version.told_by)?;
        Some(of_groups(Path::new(version.root), group, version))
    };
    VERSIONS.iter().filter_map(left).fold(machine.unwrap_or(u64::MAX), u64::min)
}

/// What the system estimates that can be had without swapping, from `/proc/meminfo`.
fn of_machine(meminfo: &str) -> Option<u64> {
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kibibytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The group that is `told_by` this in `/proc/self/cgroup`.
fn group<'t>(text: &'t str, told_by: &str) -> Option<&'t str> {
    let number = |line: &'t str| line.find(|c: char| !c.is_ascii_digit());
    text.lines().find_map(|line| line[number(line)?..].strip_prefix(told_by))
}

/// What is left of the limits of `group` below `root`, and of those that it is in.
fn of_groups(root: &Path, group: &str, version: &Version) -> u64 {
    let left = |directory: &Path| {
        let text = |name| fs::read_to_string(directory.join(name)).ok();
        let number = |name| text(name)?.trim().parse::<u64>().ok();
        // Without a limit there is a word and no number, or one larger than any memory.
        let [limit, used] = version.files.map(number);
        let statistics = text("memory.stat").unwrap_or_default();
        let reclaimable: u64 =
            version.reclaimable.iter().filter_map(|name| of_statistics(&statistics, name)).sum();
        Some(limit?.saturating_sub(used?.saturating_sub(reclaimable)))
    };
    let directory = root.join(group);
    let within = directory.ancestors().take_while(|directory| directory.starts_with(root));
    within.filter_map(left).min().unwrap_or(u64::MAX)
}

/// A number that `memory.stat` tells.
fn of_statistics(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_is_understood() {
        assert_eq!(of_machine("MemTotal:  7 kB\nMemAvailable:   20 kB\n"), Some(20 << 10));
        assert_eq!(of_machine("MemTotal:  7 kB\n"), None);
        let groups = "14:memory:/a\n9:name=systemd:/\n0::/user.slice/job\n";
        assert_eq!(
            VERSIONS.map(|version| group(groups, version.told_by)),
            [Some("user.slice/job"), Some("a")]
        );
        assert_eq!(group("4:cpu:/\n", "::/"), None);
        assert!(available() > 0);
    }

    #[test]
    fn the_narrowest_group_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let limit = |group: &str, most: &str, current: &str| {
            let directory = root.path().join(group);
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(directory.join("memory.max"), most).expect("it is written");
            fs::write(directory.join("memory.current"), current).expect("it is written");
        };
        let of_groups = |group| of_groups(root.path(), group, &VERSIONS[0]);
        limit("jobs/one", "max\n", "5\n");
        assert_eq!(of_groups("jobs/one"), u64::MAX);
        limit("jobs", "900\n", "200\n");
        assert_eq!(of_groups("jobs/one"), 700);
        limit("jobs/one", "100\n", "120\n");
        assert_eq!(of_groups("jobs/one"), 0);
        fs::write(root.path().join("jobs/one/memory.stat"), "anon 3\nactive_file 20\ninactive_file 10\n")
            .expect("it is written");
        assert_eq!(of_groups("jobs/one"), 10);
        assert_eq!(of_groups("elsewhere"), u64::MAX);
    }
}
