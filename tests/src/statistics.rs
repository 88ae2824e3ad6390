//! What the ranks of a job tell of their files' cost, asked for by `Job::with_statistics`.

/// How many requests of a kind all ranks have sent to other nodes, by a job's output.
pub fn requests(output: &str, kind: &str) -> u64 {
    let of_line = |line: &str| -> Option<u64> {
        let requests = line.split_once(" requests to other nodes (")?.1.split_once(')')?.0;
        requests.split(", ").find_map(|told| told.strip_suffix(kind)?.strip_suffix(' ')?.parse().ok())
    };
    output.lines().filter_map(of_line).sum()
}
