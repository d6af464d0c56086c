//! The host's memory, as far as the system reports it.

use sysinfo::System;

/// Bytes that can be allocated without others losing theirs, the limits of a container (cgroup) and
/// of this process (`ulimit -v`) included.
pub(crate) fn available() -> Option<usize> {
    let mut system = System::new();
    system.refresh_memory();
    let free = match system.cgroup_limits() {
        Some(limits) => system.available_memory().min(limits.free_memory),
        None => system.available_memory(),
    };
    // A system that reports nothing is not one without memory.
    let free = usize::try_from(free).ok().filter(|&free| free > 0)?;
    let used = status("VmSize:").unwrap_or(0);
    Some(match address_space() {
        Some(limit) => free.min(limit.saturating_sub(used)),
        None => free,
    })
}

/// What `ulimit -v` sets, in bytes; nothing if it is unlimited, or on other systems than Linux.
fn address_space() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The most bytes that this process has held so far; known on Linux only.
pub(crate) fn peak() -> Option<usize> {
    status("VmHWM:")
}

/// A figure of this process, in bytes; nothing on other systems than Linux.
fn status(field: &str) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
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
