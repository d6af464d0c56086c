//! Who may take how much of the memory of keys and values.
//!
//! A generation is admitted when all that it may ever need is free: what it has not taken yet is
//! reserved for it until it ends. So none can run out of memory halfway, no forward is computed
//! twice, and none waits for another that waits for it. Memory itself is taken as contexts grow,
//! and what a generation shares with others is theirs and its own.

use std::sync::{Arc, OnceLock};

use cascade_models::Participant;

/// The memory of keys and values, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLoad {
    pub(crate) in_use: usize,
    /// What running generations may take beyond it.
    pub(crate) reserved: usize,
    pub(crate) limit: Option<usize>,
}

/// What is reserved for one generation.
#[derive(Debug)]
pub(crate) struct Reservation {
    /// Bytes that it may need.
    needed: usize,
    /// Whose sessions take them.
    participant: OnceLock<Participant>,
}

impl Reservation {
    /// Says whose sessions take what is reserved.
    pub(crate) fn is_for(&self, participant: &Participant) {
        // It is said once.
        let _ = self.participant.set(participant.clone());
    }

    /// Bytes that are not taken yet.
    fn left(&self) -> usize {
        let taken = self.participant.get().map_or(0, Participant::cache_bytes);
        self.needed.saturating_sub(taken)
    }
}

/// What is reserved for all generations.
#[derive(Debug, Default)]
pub(crate) struct Reservations(Vec<Arc<Reservation>>);

impl Reservations {
    /// Reserves memory for a generation, of an idle session that it goes on with if there is one.
    pub(crate) fn add(
        &mut self,
        needed: usize,
        participant: Option<&Participant>,
    ) -> Arc<Reservation> {
        let reservation = Arc::new(Reservation {
            needed,
            participant: participant
                .cloned()
                .map_or_else(OnceLock::new, OnceLock::from),
        });
        self.0.push(Arc::clone(&reservation));
        reservation
    }

    /// Ends one, and says whether there was such a one.
    pub(crate) fn remove(&mut self, reservation: &Arc<Reservation>) -> bool {
        let before = self.0.len();
        self.0.retain(|known| !Arc::ptr_eq(known, reservation));
        self.0.len() < before
    }

    /// Bytes that are reserved and not taken yet.
    pub(crate) fn left(&self) -> usize {
        self.0.iter().map(|reservation| reservation.left()).sum()
    }
}

#[cfg(test)]
mod tests {
    use cascade_core::{Scorer, TokenTree, Want};
    use cascade_models::{Batcher, LoadOptions, random_model};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_taken_is_no_longer_reserved() {
        let config = json!({
            "model_type": "llama", "hidden_size": 32, "intermediate_size": 32,
            "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1,
            "vocab_size": 40,
        });
        let model = random_model(config, &LoadOptions::default()).unwrap();
        let needed = model.cache_bytes_of(100, 0).unwrap();
        let mut all = Reservations::default();
        let (first, second) = (all.add(needed, None), all.add(needed, None));
        assert_eq!(all.left(), 2 * needed);
        let participant = Batcher::default().join();
        first.is_for(&participant);
        assert_eq!(all.left(), 2 * needed);
        let mut session = participant.session(&model);
        session
            .score(&[7; 90], &TokenTree::new(), Want::ARGMAX)
            .unwrap();
        let taken = participant.cache_bytes();
        assert_eq!(Some(taken), model.cache_bytes());
        // Two pages of three: the last is for one that is copied.
        assert_eq!((taken, all.left()), (needed / 3 * 2, 2 * needed - taken));
        assert!(all.remove(&second) && !all.remove(&second));
        assert_eq!(all.left(), needed - taken);
        drop(session);
        assert_eq!((model.cache_bytes(), all.left()), (Some(0), needed));
    }
}
