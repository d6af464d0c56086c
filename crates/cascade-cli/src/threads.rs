//! How many threads compute.

use anyhow::{Result, bail};

/// What the libraries that compute read.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// More are refused: each takes memory, and no machine is faster with them.
pub(crate) const MOST: usize = 1024;

/// Sets the number of threads, for all libraries. Called before the first of them starts.
///
/// # Errors
/// A number in the environment that is too large.
pub(crate) fn set(threads: Option<usize>) -> Result<()> {
    let Some(threads) = threads else {
        return check_environment(std::env::var(VARIABLE).ok().as_deref());
    };
    // SAFETY: no other thread runs yet.
    #[allow(unsafe_code)]
    unsafe {
        std::env::set_var(VARIABLE, threads.to_string());
    }
    Ok(())
}

fn check_environment(value: Option<&str>) -> Result<()> {
    match value.map(|value| (value, value.trim().parse::<u128>())) {
        Some((value, Ok(threads))) if threads > MOST as u128 => {
            bail!("{VARIABLE}={value} is too many threads; give at most {MOST}, or --threads N")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::check_environment;

    #[test]
    fn only_too_many_threads_are_refused() {
        for value in [None, Some("4"), Some("0"), Some("1024"), Some("many")] {
            check_environment(value).unwrap();
        }
        for value in ["1025", "100000", "99999999999999999999999"] {
            let error = check_environment(Some(value)).unwrap_err().to_string();
            assert!(error.contains(value) && error.contains("1024"), "{error}");
        }
    }
}
