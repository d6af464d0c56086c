//! Memory that requests share, accounted for as it is taken.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that are accounted for together.
const UNIT: usize = 1024;

/// A number of bytes for all.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// What one request holds of a budget, and gives back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Budget,
    bytes: usize,
    permits: Option<OwnedSemaphorePermit>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(units)))
    }

    pub(crate) fn hold(&self) -> Held {
        Held {
            budget: self.clone(),
            bytes: 0,
            permits: None,
        }
    }
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a number of bytes; false if fewer are left.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let units = |bytes: usize| bytes.div_ceil(UNIT);
        let more = units(self.bytes + bytes) - units(self.bytes);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.budget.0).try_acquire_many_owned(more) else {
            return false;
        };
        self.bytes += bytes;
        match &mut self.permits {
            Some(permits) => permits.merge(more),
            none => *none = Some(more),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let budget = Budget::new(4 * UNIT);
        let (mut one, mut other) = (budget.hold(), budget.hold());
        assert!(one.grow(1) && one.grow(UNIT) && other.grow(2 * UNIT));
        assert_eq!(one.bytes(), UNIT + 1);
        assert!(!other.grow(1));
        assert!(one.grow(UNIT - 1), "the second unit is not full");
        drop(one);
        assert!(other.grow(2 * UNIT));
    }
}
