//! The host's memory, as far as the system reports it.
//!
//! Why not a crate: sysinfo reports free memory but not the peak of a process, and both are one
//! line of a file on Linux.

/// Bytes that can be allocated without others losing theirs.
pub(crate) fn available() -> Option<usize> {
    kilobytes("/proc/meminfo", "MemAvailable:")
}

/// The most bytes that this process has held so far.
pub(crate) fn peak() -> Option<usize> {
    kilobytes("/proc/self/status", "VmHWM:")
}

/// A figure of Linux, in bytes; nothing on other systems.
fn kilobytes(file: &str, field: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
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
        assert_eq!(kilobytes("/proc/meminfo", "NoSuchField:"), None);
    }
}
