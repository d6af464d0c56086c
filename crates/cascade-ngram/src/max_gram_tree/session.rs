//! Answers of other requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::TokenId;

use super::continuations::Continuations;
use super::history::Keys;
use super::weights::Weights;

/// Contexts of 1 to this many tokens are counted: longer ones add nothing.
pub(super) const SESSION_ORDERS: usize = 3;

/// What followed what in the outputs of other requests. Prompts are not counted: they draft worse
/// than they help.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) contexts: Continuations,
    answers: VecDeque<SessionAnswer>,
    /// Tokens of all answers, and the most that are kept.
    tokens: usize,
    capacity: usize,
    /// Weights as the drafters of texts that are generated side by side have moved them; `None`
    /// before.
    pub(super) weights: Option<Weights>,
}

/// A drafter's handle to a session. A clone has a copy of the session, and shares nothing.
#[derive(Debug)]
pub(super) struct Store {
    session: Arc<Mutex<Session>>,
    /// Whether other texts with handles to the session are generated at the same time. Their
    /// drafters then share what they observe, and weights.
    beside_others: bool,
}

impl Store {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            session: Arc::new(Mutex::new(Session::new(capacity))),
            beside_others: false,
        }
    }

    /// A handle to the same session for a text that is generated at the same time as others.
    pub(super) fn for_another_text(&self) -> Self {
        Self {
            session: Arc::clone(&self.session),
            beside_others: self.lock().capacity > 0,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over the weights as the drafters of other texts have moved them.
    pub(super) fn pull(&self, weights: &mut Weights) {
        if self.beside_others
            && let Some(moved) = &self.lock().weights
        {
            weights.clone_from(moved);
        }
    }

    /// Lets the drafters of other texts have what was observed of this one, which begins anew after
    /// it, and the weights.
    pub(super) fn push(&self, observed: &mut SessionAnswer, weights: &Weights) {
        if self.beside_others {
            let next = SessionAnswer::after(&observed.tokens);
            let mut session = self.lock();
            session.add(std::mem::replace(observed, next));
            session.weights = Some(weights.clone());
        }
    }
}

impl Clone for Store {
    fn clone(&self) -> Self {
        Self {
            session: Arc::new(Mutex::new(self.lock().clone())),
            beside_others: self.beside_others,
        }
    }
}

/// An output of a request or a piece of one, after the few tokens before it that its first contexts
/// reach into.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionAnswer {
    tokens: Vec<TokenId>,
    prompt: usize,
}

impl SessionAnswer {
    /// An output that continues `context`.
    pub(super) fn after(context: &[TokenId]) -> Self {
        let prompt = context.len().min(SESSION_ORDERS);
        Self {
            tokens: context[context.len() - prompt..].to_vec(),
            prompt,
        }
    }

    pub(super) fn extend(&mut self, emitted: &[TokenId]) {
        self.tokens.extend_from_slice(emitted);
    }

    /// Each token of the output with the contexts before it.
    fn continuations(&self) -> impl Iterator<Item = (u64, TokenId)> + '_ {
        (self.prompt..self.tokens.len()).flat_map(move |at| {
            let before = self.tokens[..at].iter().rev().copied();
            let keys = Keys::short(before, SESSION_ORDERS);
            let orders = keys.orders().len();
            (0..orders).map(move |order| (keys.orders()[order], self.tokens[at]))
        })
    }

    fn len(&self) -> usize {
        self.tokens.len() - self.prompt
    }
}

impl Session {
    /// A store of at most `capacity` tokens; the oldest answers are forgotten first.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            contexts: Continuations::default(),
            answers: VecDeque::new(),
            tokens: 0,
            capacity,
            weights: None,
        }
    }

    /// Adds a finished answer, or a piece of one.
    pub(super) fn add(&mut self, answer: SessionAnswer) {
        if answer.len() == 0 || answer.len() > self.capacity {
            return;
        }
        for (key, token) in answer.continuations() {
            self.contexts.add(key, token);
        }
        self.tokens += answer.len();
        self.answers.push_back(answer);
        while self.tokens > self.capacity {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.answers.pop_front() else {
            return;
        };
        for (key, token) in oldest.continuations() {
            self.contexts.remove(key, token);
        }
        self.tokens -= oldest.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_answers_are_forgotten() {
        let answer = |tokens: &[TokenId]| {
            let mut answer = SessionAnswer::after(&[1, 2, 3, 4]);
            answer.extend(tokens);
            answer
        };
        let mut session = Session::new(5);
        session.add(answer(&[7, 8]));
        let contexts = session.contexts.len();
        // Three contexts of the first token reach into the prompt.
        assert_eq!(contexts, 6);
        session.add(answer(&[5, 6, 5]));
        session.add(answer(&[7, 8]));
        assert_eq!(session.tokens, 5);
        let after_4 = Keys::new([4].into_iter()).orders()[0];
        let followers = session.contexts.get(after_4).unwrap();
        assert_eq!(followers.pairs.len(), 2);
        session.add(answer(&[9; 4]));
        session.add(answer(&[9; 6]));
        assert_eq!((session.tokens, session.answers.len()), (4, 1));
        assert_eq!(session.contexts.get(after_4).unwrap().total, 1);
    }
}
