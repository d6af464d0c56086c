//! The host's memory, as far as the system reports it.

use sysinfo::System;

/// Bytes that can be allocated without others losing theirs, the limit of a container (cgroup)
/// included.
pub(crate) fn available() -> Option<usize> {
    let mut system = System::new();
    system.refresh_memory();
    let free = match system.cgroup_limits() {
        Some(limits) => system.available_memory().min(limits.free_memory),
        None => system.available_memory(),
    };
    // A system that reports nothing is not one without memory.
    usize::try_from(free).ok().filter(|&free| free > 0)
}

/// The most bytes that this process has held so far; known on Linux only.
pub(crate) fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let number = line.trim().strip_suffix("kB")?.trim();
    Some(number.parse::<usize>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_reports_both() {
        assert!(available().is_some_and(|bytes| bytes > 0));
        assert!(peak().is_some_and(|bytes| bytes > 1 << 20));
    }
}
