//! Cascades at rest, whose caches hold what they have read.

use cascade_core::{common_prefix, Prompt, TokenId};
use cascade_engine::Cascade;

use crate::owner::Owner;
use crate::plan::Plan;

/// A cascade between two generations.
pub(crate) struct Resting<C = Cascade> {
    pub(crate) cascade: C,
    pub(crate) plan: Plan,
    /// Whose texts it has read; nobody's, of one that is new.
    pub(crate) owner: Option<Owner>,
    /// Tokens of the encoder, whose result it keeps.
    pub(crate) source: Vec<TokenId>,
    /// Tokens that its caches begin with.
    pub(crate) context: Vec<TokenId>,
}

/// Cascades at rest, the one that was used last at the end.
pub(crate) struct Shelf<C = Cascade> {
    resting: Vec<Resting<C>>,
    /// Whether those who have neither keys nor salts take each other's cascades.
    shared: bool,
}

impl<C> Default for Shelf<C> {
    fn default() -> Self {
        Self {
            resting: Vec::new(),
            shared: false,
        }
    }
}

impl<C> Shelf<C> {
    /// An empty one. If it is `shared`, clients without keys and salts take each other's cascades,
    /// whose caches make them faster; drafters have to forget what they learned then.
    pub(crate) fn new(shared: bool) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.resting.len()
    }

    pub(crate) fn put(&mut self, resting: Resting<C>) {
        self.resting.push(resting);
    }

    /// Of the cascades that an `owner` may have, the one that knows most of a prompt, if it pays to
    /// take it: one of whose tokens the prompt shares half at least, or, where no `room` is left
    /// for another cascade, the one that was used longest ago.
    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        prompt: &Prompt,
        owner: Owner,
        room: bool,
    ) -> Option<Resting<C>> {
        let shared = self.shared;
        let may_have = |one: &Resting<C>| {
            let of = |other| other == owner || (shared && owner.are_unnamed(other));
            one.plan == *plan && one.owner.is_none_or(of)
        };
        let fits = |one: &Resting<C>| may_have(one) && one.source == prompt.source;
        let known = |one: &Resting<C>| common_prefix(&one.context, &prompt.context);
        let candidates = self.resting.iter().enumerate().filter(|(_, one)| fits(one));
        let best = candidates.max_by_key(|(_, one)| known(one));
        let pays = |one: &Resting<C>| {
            // An encoder's result is known whatever follows.
            !one.source.is_empty() || 2 * known(one) >= one.context.len()
        };
        let best = best.filter(|(_, one)| pays(one));
        let oldest = || self.resting.iter().position(may_have);
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

    const OWN: Owner = Owner::Connection(1);
    const OTHER: Owner = Owner::Connection(2);

    fn plan(chat: bool) -> Plan {
        cascade_demo::register();
        Plan::of(&Config::open("embedded:demo-llama").unwrap(), chat)
    }

    fn shelf(contexts: &[&[TokenId]]) -> Shelf<usize> {
        let mut shelf = Shelf::new(false);
        for (cascade, context) in contexts.iter().enumerate() {
            shelf.put(Resting {
                cascade,
                plan: plan(false),
                owner: Some(OWN),
                source: Vec::new(),
                context: context.to_vec(),
            });
        }
        shelf
    }

    fn taken(shelf: &mut Shelf<usize>, context: &[TokenId], room: bool) -> Option<usize> {
        taken_by(shelf, OWN, context, room)
    }

    fn taken_by(
        shelf: &mut Shelf<usize>,
        owner: Owner,
        context: &[TokenId],
        room: bool,
    ) -> Option<usize> {
        let prompt = Prompt {
            source: Vec::new(),
            context: context.to_vec(),
        };
        shelf
            .take(&plan(false), &prompt, owner, room)
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
        let other = shelf.take(&plan(true), &Prompt::default(), OWN, false);
        assert!(other.is_none(), "one with other settings serves nothing");
        assert_eq!(shelf.evict().map(|one| one.cascade), Some(1));
        assert!(shelf.evict().is_none());
    }

    #[test]
    fn cascades_of_other_owners_are_not_taken() {
        let mut some = shelf(&[&[1, 2, 3]]);
        let named = OTHER.salted("of my own");
        for room in [true, false] {
            assert_eq!(taken_by(&mut some, OTHER, &[1, 2, 3, 4], room), None);
        }
        // Between strangers of one machine caches may be shared, and nobody else's.
        some.shared = true;
        assert_eq!(taken_by(&mut some, named, &[1, 2, 3, 4], false), None);
        assert_eq!(taken_by(&mut some, OTHER, &[1, 2, 3, 4], true), Some(0));
        let mut new = shelf(&[&[]]);
        new.resting[0].owner = None;
        assert_eq!(taken_by(&mut new, named, &[1], true), Some(0));
    }
}
