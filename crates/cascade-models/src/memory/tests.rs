//! Against the files of systems that are made up.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

const GB: usize = 1_000_000_000;
/// What version 1 says where there is no limit.
const NONE: &str = "9223372036854771712";

/// A system with 16 GB of memory, of which 12 are available.
struct System(tempfile::TempDir);

impl System {
    fn new() -> Self {
        let system = Self(tempfile::tempdir().unwrap());
        let meminfo = "MemTotal:  15625000 kB\nMemFree: 100 kB\nMemAvailable: 11718750 kB\n";
        system.write("proc/meminfo", meminfo);
        system
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The groups of the process, and where groups are mounted.
    fn groups(&self, groups: &str, mounts: &str) {
        self.write("proc/self/cgroup", groups);
        self.write("proc/self/mountinfo", mounts);
    }

    /// A group of version 2.
    fn v2(&self, folder: &str, max: &str, current: usize, stat: &str) {
        let folder = Path::new("sys/fs/cgroup").join(folder);
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        self.write(&file("memory.max"), &format!("{max}\n"));
        self.write(&file("memory.current"), &format!("{current}\n"));
        self.write(&file("memory.stat"), stat);
    }

    /// A group of version 1.
    fn v1(&self, folder: &str, limit: &str, usage: usize, stat: &str) {
        let folder = Path::new("sys/fs/cgroup").join(folder);
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        self.write(&file("memory.limit_in_bytes"), &format!("{limit}\n"));
        self.write(&file("memory.usage_in_bytes"), &format!("{usage}\n"));
        self.write(&file("memory.stat"), stat);
    }

    fn available(&self) -> FreeMemory {
        available_in(self.0.path()).unwrap()
    }
}

fn of_machine(bytes: usize) -> FreeMemory {
    FreeMemory {
        bytes,
        limit: MemoryLimit::Machine,
    }
}

fn of_group(bytes: usize, limit: usize, file: &str) -> FreeMemory {
    FreeMemory {
        bytes,
        limit: MemoryLimit::Cgroup {
            file: PathBuf::from("/sys/fs/cgroup").join(file),
            bytes: limit,
        },
    }
}

#[test]
fn without_limits_the_machine_counts_and_its_page_cache_is_free() {
    let system = System::new();
    assert_eq!(system.available(), of_machine(12 * GB));
    // A root group has neither a limit nor usage.
    system.groups(
        "0::/\n",
        "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    assert_eq!(system.available(), of_machine(12 * GB));
    // Without a limit, what is used says nothing.
    system.v2("", "max", 15 * GB, "");
    assert_eq!(system.available(), of_machine(12 * GB));
    system.v1("memory", NONE, 15 * GB, "");
    system.groups(
        "4:memory:/\n",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    );
    assert_eq!(system.available(), of_machine(12 * GB));
}

#[test]
fn files_that_a_container_has_cached_are_not_in_its_way() {
    let system = System::new();
    let stat = "anon 104857600\nfile 7500000000\ninactive_file 7400000000\nactive_file 100000000\n\
                slab_reclaimable 126083532\n";
    system.groups("0::/\n", "");
    system.v2("", "8589934592", 7_730_941_132, stat);
    let free = 8_589_934_592 - 104_857_600;
    assert_eq!(
        system.available(),
        of_group(free, 8_589_934_592, "memory.max")
    );
    assert_eq!(
        system.available().to_string(),
        "8.5 GB can be had (limit of 8.6 GB in /sys/fs/cgroup/memory.max)"
    );
    // Memory of processes is, and nothing is less than none.
    system.v2(
        "",
        "8589934592",
        8_000_000_000,
        "anon 8000000000\ninactive_file 0\n",
    );
    assert_eq!(system.available().bytes, 589_934_592);
    system.v2("", "8589934592", 8_600_000_000, "");
    assert_eq!(system.available().bytes, 0);
    // What reclaim would take back cannot be more than what is used.
    system.v2("", "8589934592", 5, "inactive_file 7400000000\n");
    assert_eq!(system.available().bytes, 8_589_934_592);
}

#[test]
fn the_tightest_of_a_group_and_those_above_it_counts() {
    let system = System::new();
    system.groups(
        "0::/pods/one/app\n",
        "31 23 0:28 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw\n",
    );
    system.v2("pods", "9000000000", 8 * GB, "inactive_file 1000000000\n");
    system.v2("pods/one", "max", 5 * GB, "");
    system.v2(
        "pods/one/app",
        "4000000000",
        1_500_000_000,
        "active_file 500000000\n",
    );
    system.v2("pods/two", "1000000000", GB, "");
    assert_eq!(
        system.available(),
        of_group(2 * GB, 9 * GB, "pods/memory.max")
    );
    system.v2("pods", "max", 8 * GB, "");
    assert_eq!(
        system.available(),
        of_group(3 * GB, 4 * GB, "pods/one/app/memory.max")
    );
    // A soft limit is one, if it is lower.
    system.write("sys/fs/cgroup/pods/one/app/memory.high", "2000000000");
    assert_eq!(
        system.available(),
        of_group(GB, 2 * GB, "pods/one/app/memory.high")
    );
    system.write("sys/fs/cgroup/pods/one/app/memory.high", "max");
    assert_eq!(system.available().bytes, 3 * GB);
}

#[test]
fn version_1_has_other_names_and_counts_the_groups_below() {
    let system = System::new();
    let mount = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
    system.groups(
        "9:name=systemd:/\n4:cpu,memory:/jobs/7\n1:cpu:/other\n0::/\n",
        mount,
    );
    let stat = "inactive_file 5\ntotal_inactive_file 2000000000\ntotal_active_file 1000000000\n";
    system.v1("memory", NONE, 15 * GB, "");
    system.v1("memory/jobs", "6000000000", 5 * GB, stat);
    system.v1("memory/jobs/7", NONE, 5 * GB, stat);
    let file = "memory/jobs/memory.limit_in_bytes";
    assert_eq!(system.available(), of_group(4 * GB, 6 * GB, file));
}

#[test]
fn both_versions_at_once() {
    let system = System::new();
    system.groups(
        "4:memory:/docker/abc/sub\n0::/docker/abc\n",
        // A container sees its own group as the root of the mount.
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
         41 31 0:38 /docker/abc /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n",
    );
    system.v1(
        "memory",
        "5000000000",
        3 * GB,
        "total_inactive_file 1000000000\n",
    );
    assert_eq!(
        system.available(),
        of_group(3 * GB, 5 * GB, "memory/memory.limit_in_bytes")
    );
    system.v1("memory/sub", "2000000000", GB, "");
    assert_eq!(
        system.available(),
        of_group(GB, 2 * GB, "memory/sub/memory.limit_in_bytes")
    );
}

#[test]
fn other_places_and_other_namespaces() {
    let system = System::new();
    let mount = "50 1 0:28 /pod /my\\040groups rw - cgroup2 none rw\n";
    system.groups("0::/pod/app\n", mount);
    let file = |name: &str| format!("my groups/app/{name}");
    system.write(&file("memory.max"), "3000000000");
    system.write(&file("memory.current"), "1000000000");
    assert_eq!(system.available().bytes, 2 * GB);
    // The group of another namespace cannot be found; what is mounted limits all below it.
    for group in ["/elsewhere", "/../../app", "/pod/../app"] {
        system.groups(&format!("0::{group}\n"), mount);
        assert_eq!(system.available(), of_machine(12 * GB), "{group}");
        system.write("my groups/memory.max", "5000000000");
        system.write("my groups/memory.current", "1000000000");
        assert_eq!(system.available().bytes, 4 * GB, "{group}");
        fs::remove_file(system.0.path().join("my groups/memory.max")).unwrap();
    }
    // Nonsense limits nothing.
    system.groups(":\n0\n::\n", "a b\n - \n1 2 3 - cgroup2\n");
    assert_eq!(system.available(), of_machine(12 * GB));
}

#[test]
fn limits_of_the_process() {
    let system = System::new();
    let limits = |space: &str, data: &str| {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units\n\
             Max data size             {data}            unlimited            bytes\n\
             Max address space         {space}            unlimited            bytes\n"
        )
    };
    let status = "VmSize:\t  1000000 kB\nVmData:\t  500000 kB\nVmHWM:\t 5 kB\n";
    system.write("proc/self/status", status);
    system.write("proc/self/limits", &limits("unlimited", "unlimited"));
    assert_eq!(system.available(), of_machine(12 * GB));
    let of_process = |bytes, limit, option| FreeMemory {
        bytes,
        limit: MemoryLimit::Process {
            option,
            bytes: limit,
        },
    };
    system.write("proc/self/limits", &limits("3024000000", "unlimited"));
    assert_eq!(system.available(), of_process(2 * GB, 3_024_000_000, "-v"));
    system.write("proc/self/limits", &limits("3024000000", "1512000000"));
    assert_eq!(system.available(), of_process(GB, 1_512_000_000, "-d"));
    let said = system.available().to_string();
    assert_eq!(said, "1.0 GB can be had (limit of 1.5 GB by `ulimit -d`)");
}

#[test]
#[cfg(target_os = "linux")]
fn linux_reports_both() {
    assert!(available().is_some_and(|free| free.bytes > 0));
    assert!(peak().is_some_and(|bytes| bytes > 1 << 20));
}
