//! Which machine a process is on: what tells whether shared memory reaches from one to another.

use std::fs;

/// Where a process has to be for others to share memory with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The random number that the running kernel gave itself.
    pub boot: [u8; 16],
    /// The inode number of the network name space: names of local sockets mean something only within one.
    pub network: u64,
}

impl Machine {
    /// That of this process. What the kernel does not tell is 0, and says nothing: whoever is not there is found
    /// missing when it is first asked.
    pub fn own() -> Self {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut boot = [0_u8; 16];
        let digits = text.chars().filter_map(|character| character.to_digit(16));
        for (position, digit) in digits.take(32).enumerate() {
            boot[position / 2] = boot[position / 2] << 4 | digit as u8;
        }
        let network = rustix::fs::stat("/proc/self/ns/net").map_or(0, |status| status.st_ino);
        Self { boot, network }
    }

    /// Why one process cannot share memory with another one that is at `other`; nothing where it can.
    pub fn apart_from(&self, other: &Self) -> Option<&'static str> {
        let differ = |own: &[u8], other: &[u8]| {
            own != other && [own, other].iter().all(|one| one.iter().any(|&b| b != 0))
        };
        if differ(&self.boot, &other.boot) {
            Some("on another machine")
        } else if differ(&self.network.to_le_bytes(), &other.network.to_le_bytes()) {
            Some("in another network name space of this machine")
        } else {
            None
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Machine;

    #[test]
    fn what_is_not_told_sets_nobody_apart() {
        let own = Machine::own();
        assert_ne!(own.boot, [0; 16]);
        assert_eq!(own.apart_from(&Machine::own()), None);
        let elsewhere = Machine { boot: own.boot.map(|byte| !byte), ..own };
        assert_eq!(own.apart_from(&elsewhere), Some("on another machine"));
        let beside = Machine { network: own.network + 1, ..own };
        assert_eq!(own.apart_from(&beside), Some("in another network name space of this machine"));
        for unknown in [Machine { boot: [0; 16], ..own }, Machine { network: 0, ..own }] {
            assert_eq!((own.apart_from(&unknown), unknown.apart_from(&own)), (None, None));
        }
    }
}
