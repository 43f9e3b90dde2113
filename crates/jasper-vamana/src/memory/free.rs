//! Free memory of the host.

use std::fs;
use std::path::Path;

/// Bytes that this process may still allocate: on Linux the available memory, within the limit of the control group;
/// elsewhere unbounded.
pub fn free_host_memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let groups = GROUPS.iter().filter_map(|group| group.free(Path::new("/sys/fs/cgroup")));
    machine.into_iter().chain(groups).min().unwrap_or(u64::MAX)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The files that report the memory of a control group.
struct Group {
    limit: &'static str,
    used: &'static str,
    stat: &'static str,
    /// The line of `stat` with reclaimable pages of files.
    cache: &'static str,
}

/// Control groups of versions 2 and 1, as a container sees its own.
const GROUPS: [Group; 2] = [
    Group { limit: "memory.max", used: "memory.current", stat: "memory.stat", cache: "inactive_file" },
    Group {
        limit: "memory/memory.limit_in_bytes",
        used: "memory/memory.usage_in_bytes",
        stat: "memory/memory.stat",
        cache: "total_inactive_file",
    },
];

impl Group {
    /// The bytes left of the limit; `None` without a limit.
    fn free(&self, root: &Path) -> Option<u64> {
        let number = |file| fs::read_to_string(root.join(file)).ok()?.trim().parse::<u64>().ok();
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        let stat = fs::read_to_string(root.join(self.stat)).unwrap_or_default();
        let cache = stat.lines().find_map(|line| line.strip_prefix(self.cache)?.trim().parse().ok());
        Some(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_parsed() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:      12 kB\n"), Some(12 * 1024));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert!(free_host_memory() > 0);
    }

    #[test]
    fn a_control_group_limits_memory() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        let [new, old] = &GROUPS;
        assert_eq!(new.free(root.path()), None);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(new.free(root.path()), None);
        write("memory.max", "1000\n");
        assert_eq!(new.free(root.path()), Some(300));
        write("memory.stat", "anon 500\ninactive_file 200\nactive_file 100\n");
        assert_eq!(new.free(root.path()), Some(500));
        write("memory.current", "2000\n");
        assert_eq!(new.free(root.path()), Some(0));
        fs::create_dir(root.path().join("memory")).unwrap();
        write("memory/memory.limit_in_bytes", "1000\n");
        write("memory/memory.usage_in_bytes", "600\n");
        write("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
        assert_eq!(old.free(root.path()), Some(450));
    }
}
