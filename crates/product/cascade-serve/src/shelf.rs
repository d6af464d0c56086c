//! Cascades at rest, whose caches hold what they have read.

use cascade_core::{common_prefix, Prompt, TokenId};
use cascade_engine::Cascade;

use crate::plan::Plan;

/// A cascade between two generations.
pub(crate) struct Resting<C = Cascade> {
    pub(crate) cascade: C,
    pub(crate) plan: Plan,
    /// Tokens of the encoder, whose result it keeps.
    pub(crate) source: Vec<TokenId>,
    /// Tokens that its caches begin with.
    pub(crate) context: Vec<TokenId>,
}

/// Cascades at rest, the one that was used last at the end.
pub(crate) struct Shelf<C = Cascade> {
    resting: Vec<Resting<C>>,
}

impl<C> Default for Shelf<C> {
    fn default() -> Self {
        Self {
            resting: Vec::new(),
        }
    }
}

impl<C> Shelf<C> {
    pub(crate) fn len(&self) -> usize {
        self.resting.len()
    }

    pub(crate) fn put(&mut self, resting: Resting<C>) {
        self.resting.push(resting);
    }

    /// The cascade that knows most of a prompt, if there is one that it pays to take: one of whose
    /// tokens the prompt shares half at least, or, where no `room` is left for another cascade, the
    /// one that was used longest ago.
    pub(crate) fn take(&mut self, plan: &Plan, prompt: &Prompt, room: bool) -> Option<Resting<C>> {
        let fits = |one: &Resting<C>| one.plan == *plan && one.source == prompt.source;
        let known = |one: &Resting<C>| common_prefix(&one.context, &prompt.context);
        let candidates = self.resting.iter().enumerate().filter(|(_, one)| fits(one));
        let best = candidates.max_by_key(|(_, one)| known(one));
        let pays = |one: &Resting<C>| {
            // An encoder's result is known whatever follows.
            !one.source.is_empty() || 2 * known(one) >= one.context.len()
        };
        let best = best.filter(|(_, one)| pays(one));
        let oldest = || self.resting.iter().position(|one| one.plan == *plan);
        let place = match best {
            Some((place, _)) => Some(place),
            None if room => None,
            None => oldest(),
        };
        place.map(|place| self.resting.remove(place))
    }

    /// Removes the cascade that was used longest ago.
    pub(crate) fn evict(&mut self) -> Option<Resting<C>> {
        (!self.resting.is_empty()).then(|| self.resting.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use cascade_config::Config;

    use super::*;

    fn plan(chat: bool) -> Plan {
        Plan::of(&Config::open("embedded:demo-llama").unwrap(), chat)
    }

    fn shelf(contexts: &[&[TokenId]]) -> Shelf<usize> {
        let mut shelf = Shelf::default();
        for (cascade, context) in contexts.iter().enumerate() {
            shelf.put(Resting {
                cascade,
                plan: plan(false),
                source: Vec::new(),
                context: context.to_vec(),
            });
        }
        shelf
    }

    fn taken(shelf: &mut Shelf<usize>, context: &[TokenId], room: bool) -> Option<usize> {
        let prompt = Prompt {
            source: Vec::new(),
            context: context.to_vec(),
        };
        shelf
            .take(&plan(false), &prompt, room)
            .map(|one| one.cascade)
    }

    #[test]
    fn a_conversation_finds_its_own_cascade() {
        let contexts: [&[TokenId]; 3] = [&[1, 2, 3], &[1, 2, 3, 4, 5], &[1, 9]];
        let mut shelf = shelf(&contexts);
        assert_eq!(taken(&mut shelf, &[1, 2, 3, 4, 5, 6], true), Some(1));
        assert_eq!(taken(&mut shelf, &[1, 2, 3, 4, 5, 6], true), Some(0));
        assert_eq!(shelf.len(), 1);
    }

    #[test]
    fn others_are_taken_only_where_there_is_no_room() {
        let mut shelf = shelf(&[&[7, 8, 9], &[5, 6, 7]]);
        assert_eq!(taken(&mut shelf, &[1, 2, 3], true), None);
        assert_eq!(taken(&mut shelf, &[1, 2, 3], false), Some(0), "the oldest");
        let other = shelf.take(&plan(true), &Prompt::default(), false);
        assert!(other.is_none(), "one with other settings serves nothing");
        assert_eq!(shelf.evict().map(|one| one.cascade), Some(1));
        assert!(shelf.evict().is_none());
    }
}
