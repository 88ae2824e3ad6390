//! A GlusterFS volume over all hosts, as it would be made on a small cluster: one brick on each, sharded, no copies.

use std::path::Path;
use std::time::{Duration, Instant};

use svmio_tests::Hosts;

use super::bed::on_host;

/// How long the daemons may take to find each other.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes of a shard, each on one brick, as svmio and GlusterFS both read it.
pub(super) const SHARD: &str = "4M";

/// Starts a host's daemon. What it keeps is in memory, as the brick is, and goes with the host.
///
/// Without times to keep connections alive it finds no peers here.
const DAEMON: &str = "
    command -v glusterd > /dev/null || { echo 'install the package glusterfs-server' >&2; exit 1; }
    for directory in /var/lib/glusterd /var/log/glusterfs /run; do mount -t tmpfs tmpfs $directory; done
    mkdir /run/gluster /dev/shm/brick
    cat > /var/lib/glusterd/own.vol <<END
volume management
    type mgmt/glusterd
    option working-directory /var/lib/glusterd
    option transport-type socket
    option transport.socket.keepalive-time 10
    option transport.socket.keepalive-interval 2
    option transport.socket.read-fail-log off
    option transport.socket.listen-port 24007
    option ping-timeout 0
    option event-threads 1
    option max-port 60999
end-volume
END
    glusterd --volfile=/var/lib/glusterd/own.vol --log-level=ERROR > /dev/null 2>&1 < /dev/null";

const VOLUME: &str = "
    ask() { gluster --mode=script \"$@\" > /dev/null; }
    shard=$1 bricks=
    shift
    for address; do bricks=\"$bricks $address:/dev/shm/brick/v0\"; done
    ask volume create v0 $bricks force
    ask volume set v0 features.shard on
    ask volume set v0 features.shard-block-size ${shard}B
    ask volume start v0";

/// Files that one host writes are read by another at once: names and sizes are not kept.
const MOUNT: &str = "mount -t glusterfs -o attribute-timeout=0,entry-timeout=0 \"$1:/v0\" \"$2\" > /dev/null 2>&1 < /dev/null";

/// Makes the volume and mounts it in all hosts.
///
/// # Panics
/// Where something is missing or fails.
pub(super) fn mount(hosts: &Hosts, at: &Path) {
    let addresses: Vec<String> = (0..hosts.count()).map(|host| hosts.address(host).to_string()).collect();
    let words: Vec<&str> = addresses.iter().map(String::as_str).collect();
    for host in 0..hosts.count() {
        on_host(hosts, host, DAEMON, &[]);
    }
    for address in &words[1..] {
        on_host(hosts, 0, "gluster --mode=script peer probe \"$1\" > /dev/null", &[address]);
    }
    let deadline = Instant::now() + LIMIT;
    for host in 0..hosts.count() {
        until_connected(hosts, host, deadline);
    }
    on_host(hosts, 0, VOLUME, &[&[SHARD][..], &words].concat());
    let at = at.to_string_lossy();
    for (host, address) in words.iter().enumerate() {
        on_host(hosts, host, MOUNT, &[address, &at]);
    }
}

/// Waits until a host's daemon has found all others.
fn until_connected(hosts: &Hosts, host: usize, deadline: Instant) {
    loop {
        let peers = on_host(hosts, host, "gluster --mode=script pool list", &[]);
        let connected = peers.lines().filter(|line| line.trim_end().ends_with("Connected")).count();
        if connected == hosts.count() {
            return;
        }
        assert!(Instant::now() < deadline, "GlusterFS's daemons have not found each other:\n{peers}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
