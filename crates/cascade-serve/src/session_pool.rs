//! Idle sessions, whose caches hold what they have read.

use std::time::{Duration, Instant};

use cascade_core::{Prompt, TokenId, common_prefix};
use cascade_engine::Cascade;
use cascade_models::Participant;

use crate::owner::Owner;
use crate::speculation::SpeculationSettings;

/// A cascade between two generations.
pub(crate) struct IdleSession<C = Cascade> {
    pub(crate) cascade: C,
    /// Through which its models take part in forwards.
    pub(crate) participant: Participant,
    pub(crate) settings: SpeculationSettings,
    /// Whose texts it has read; nobody's, of one that is new.
    pub(crate) owner: Option<Owner>,
    /// Tokens of the encoder, whose result it keeps.
    pub(crate) source: Vec<TokenId>,
    /// Tokens that its caches begin with.
    pub(crate) context: Vec<TokenId>,
    /// When it was used last.
    pub(crate) since: Instant,
}

/// Idle sessions, the one that was used last at the end.
pub(crate) struct SessionPool<C = Cascade> {
    pub(crate) idle: Vec<IdleSession<C>>,
    /// Whether those who have neither keys nor salts take each other's cascades.
    shared: bool,
}

impl<C> Default for SessionPool<C> {
    fn default() -> Self {
        Self {
            idle: Vec::new(),
            shared: false,
        }
    }
}

impl<C> SessionPool<C> {
    /// An empty one. If it is `shared`, clients without keys and salts take each other's cascades,
    /// whose caches make them faster; drafters have to forget what they learned then.
    pub(crate) fn new(shared: bool) -> Self {
        Self {
            shared,
            ..Self::default()
        }
    }

    pub(crate) fn put(&mut self, idle: IdleSession<C>) {
        self.idle.push(idle);
    }

    /// Takes the cascade that knows most of a prompt, if an `owner` may have it and it saves work:
    /// the prompt must share at least half of its tokens. If none does, and there is no `room` for
    /// another cascade, takes the one that was used longest ago.
    pub(crate) fn take(
        &mut self,
        settings: &SpeculationSettings,
        prompt: &Prompt,
        owner: Owner,
        room: bool,
    ) -> Option<IdleSession<C>> {
        let shared = self.shared;
        let may_have = |one: &IdleSession<C>| {
            let of = |other| other == owner || (shared && owner.are_unnamed(other));
            one.settings == *settings && one.owner.is_none_or(of)
        };
        let fits = |one: &IdleSession<C>| may_have(one) && one.source == prompt.source;
        let known = |one: &IdleSession<C>| common_prefix(&one.context, &prompt.context);
        let candidates = self.idle.iter().enumerate().filter(|(_, one)| fits(one));
        let best = candidates.max_by_key(|(_, one)| known(one));
        let saves = |one: &IdleSession<C>| {
            // An encoder's result is known whatever follows.
            !one.source.is_empty() || 2 * known(one) >= one.context.len()
        };
        let best = best.filter(|(_, one)| saves(one));
        let oldest = || self.idle.iter().position(may_have);
        let place = match best {
            Some((place, _)) => Some(place),
            None if room => None,
            None => oldest(),
        };
        place.map(|place| self.idle.remove(place))
    }

    /// Removes the cascades that nobody has used for a time.
    pub(crate) fn take_rested(&mut self, time: Duration) -> Vec<IdleSession<C>> {
        let rested = |one: &mut IdleSession<C>| one.since.elapsed() >= time;
        self.idle.extract_if(.., rested).collect()
    }

    /// Removes the cascade that was used longest ago.
    pub(crate) fn evict(&mut self) -> Option<IdleSession<C>> {
        (!self.idle.is_empty()).then(|| self.idle.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use cascade_config::Config;
    use cascade_models::Batcher;

    use super::*;

    const OWN: Owner = Owner::Connection(1);
    const OTHER: Owner = Owner::Connection(2);

    fn settings(chat: bool) -> SpeculationSettings {
        cascade_demo::register();
        SpeculationSettings::of(&Config::open("embedded:demo-llama").unwrap(), chat)
    }

    fn pool(contexts: &[&[TokenId]]) -> SessionPool<usize> {
        let mut pool = SessionPool::new(false);
        for (cascade, context) in contexts.iter().enumerate() {
            pool.put(IdleSession {
                cascade,
                participant: Batcher::default().join(),
                settings: settings(false),
                owner: Some(OWN),
                source: Vec::new(),
                context: context.to_vec(),
                since: Instant::now(),
            });
        }
        pool
    }

    fn taken(pool: &mut SessionPool<usize>, context: &[TokenId], room: bool) -> Option<usize> {
        taken_by(pool, OWN, context, room)
    }

    fn taken_by(
        pool: &mut SessionPool<usize>,
        owner: Owner,
        context: &[TokenId],
        room: bool,
    ) -> Option<usize> {
        let prompt = Prompt {
            source: Vec::new(),
            context: context.to_vec(),
        };
        pool.take(&settings(false), &prompt, owner, room)
            .map(|one| one.cascade)
    }

    #[test]
    fn a_conversation_finds_its_own_cascade() {
        let contexts: [&[TokenId]; 3] = [&[1, 2, 3], &[1, 2, 3, 4, 5], &[1, 9]];
        let mut pool = pool(&contexts);
        assert_eq!(taken(&mut pool, &[1, 2, 3, 4, 5, 6], true), Some(1));
        assert_eq!(taken(&mut pool, &[1, 2, 3, 4, 5, 6], true), Some(0));
        assert_eq!(pool.idle.len(), 1);
    }

    #[test]
    fn others_are_taken_only_where_there_is_no_room() {
        let mut pool = pool(&[&[7, 8, 9], &[5, 6, 7]]);
        assert_eq!(taken(&mut pool, &[1, 2, 3], true), None);
        assert_eq!(taken(&mut pool, &[1, 2, 3], false), Some(0), "the oldest");
        let other = pool.take(&settings(true), &Prompt::default(), OWN, false);
        assert!(other.is_none(), "one with other settings serves nothing");
        assert_eq!(pool.evict().map(|one| one.cascade), Some(1));
        assert!(pool.evict().is_none());
    }

    #[test]
    fn cascades_of_other_owners_are_not_taken() {
        let mut some = pool(&[&[1, 2, 3]]);
        let named = OTHER.salted("of my own");
        for room in [true, false] {
            assert_eq!(taken_by(&mut some, OTHER, &[1, 2, 3, 4], room), None);
        }
        // Between strangers of one machine caches may be shared, and nobody else's.
        some.shared = true;
        assert_eq!(taken_by(&mut some, named, &[1, 2, 3, 4], false), None);
        assert_eq!(taken_by(&mut some, OTHER, &[1, 2, 3, 4], true), Some(0));
        let mut new = pool(&[&[]]);
        new.idle[0].owner = None;
        assert_eq!(taken_by(&mut new, named, &[1], true), Some(0));
    }
}
