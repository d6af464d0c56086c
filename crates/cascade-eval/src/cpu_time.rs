//! What this process has computed.

use std::time::Duration;

/// Time that the processors have spent on this process, all of its threads together; `None` where
/// the system does not tell. Unlike the time that passes, it does not grow while others compute.
pub fn cpu_time() -> Option<Duration> {
    of_process()
}

#[cfg(unix)]
fn of_process() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(
        time.tv_sec.try_into().ok()?,
        time.tv_nsec.try_into().ok()?,
    ))
}

#[cfg(not(unix))]
fn of_process() -> Option<Duration> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_what_is_computed() {
        let before = cpu_time().unwrap();
        let mut sum = 0u64;
        while cpu_time().unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time().unwrap() > before);
    }
}
