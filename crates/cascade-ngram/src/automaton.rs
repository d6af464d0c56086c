//! A suffix automaton that grows and shrinks at the end of its text.

use cascade_core::TokenId;
use hashbrown::HashTable;

const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

/// An earlier occurrence of the text's suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Length of the suffix, in tokens; at least 1.
    pub len: usize,
    /// Where its earliest occurrence ends: the tokens before this index end with the suffix, and
    /// the token at this index is the first that follows. Always less than the length of the text.
    pub end: usize,
}

/// The suffix automaton of a token sequence, built online, with an undo log.
///
/// In constant time it gives the longest suffix of the text that also occurs earlier, and where:
/// this is the suffix link of the last state, and that state's first end position.
///
/// # Cost
/// [`push`](Self::push) is amortised O(1); one push alone can take time in proportion to the length
/// (`b` after `aaa…a`). [`truncate`](Self::truncate) undoes each push at the cost of that push, so
/// that going back and forth over such a spot pays for it each time.
///
/// Memory per token, in bytes: 20 for the token and its undo record, 24 for each state (1 to 2, 1.4
/// in natural text), and 22 to 28 for each edge beyond a state's first (fewer than 2). With spare
/// capacity this comes to about 100 in natural text.
#[derive(Clone, Debug)]
pub struct SuffixAutomaton {
    tokens: Vec<TokenId>,
    /// One for each token.
    steps: Vec<Step>,
    states: Vec<State>,
    /// All edges but the first of each state, oldest first.
    edges: Vec<Edge>,
    /// Places of edges in that list, by state and token.
    places: HashTable<u32>,
}

/// A set of substrings that end at the same positions. Its first edge lies within it, because most
/// states have no other.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Length of the longest substring.
    len: u32,
    /// The state of the longest suffix that ends at more positions; `NONE` at the root.
    link: u32,
    /// The earliest position where the substrings end: number of tokens up to and including the
    /// last.
    first_end: u32,
    /// Label of the first edge.
    token: TokenId,
    /// Target of the first edge, `NONE` if there is no edge at all.
    target: u32,
    /// The newest of the other edges.
    more: u32,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    state: u32,
    token: TokenId,
    target: u32,
    /// The next older edge of the same state.
    next: u32,
}

/// What one push changed.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The state of the whole text. If the push split a state, the clone comes right after.
    created: u32,
    /// Number of edges before.
    edges: u32,
    /// The state that was split, or `NONE`.
    original: u32,
    /// The first of the chain of states whose edges went to `original` and now go to the clone.
    redirected: u32,
}

impl SuffixAutomaton {
    /// The longest text it can take, in tokens: states and edges are numbered by `u32`.
    pub const MAX_LEN: usize = 1 << 30;

    /// The automaton of the empty text.
    pub fn new() -> Self {
        Self {
            tokens: Vec::new(),
            steps: Vec::new(),
            states: vec![State::new(0, NONE)],
            edges: Vec::new(),
            places: HashTable::new(),
        }
    }

    /// Length of the text, in tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The text.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Number of states, the root included: at most twice the length, or 1.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Bytes that the automaton holds on the heap, spare capacity included.
    pub fn heap_bytes(&self) -> usize {
        self.tokens.capacity() * size_of::<TokenId>()
            + self.steps.capacity() * size_of::<Step>()
            + self.states.capacity() * size_of::<State>()
            + self.edges.capacity() * size_of::<Edge>()
            + self.places.allocation_size()
    }

    /// Appends a token. Amortised O(1).
    ///
    /// # Panics
    /// If the text has [`MAX_LEN`](Self::MAX_LEN) tokens already.
    pub fn push(&mut self, token: TokenId) {
        assert!(
            self.len() < Self::MAX_LEN,
            "a suffix automaton takes at most {} tokens",
            Self::MAX_LEN
        );
        let last = self.last_state();
        let created = self.states.len() as u32;
        let edges = self.edges.len() as u32;
        self.tokens.push(token);
        self.states.push(State::new(self.tokens.len() as u32, ROOT));

        // The whole text has never been continued, whereas any state above it has: that is why only
        // this edge is stored within its state, and why `pop` knows where to find it.
        let whole = &mut self.states[last as usize];
        (whole.token, whole.target) = (token, created);

        let mut state = whole.link;
        let mut step = Step {
            created,
            edges,
            original: NONE,
            redirected: NONE,
        };
        while state != NONE {
            if let Some(&mut target) = self.edge_mut(state, token) {
                let link =
                    if self.states[target as usize].len == self.states[state as usize].len + 1 {
                        target
                    } else {
                        (step.original, step.redirected) = (target, state);
                        self.split(state, token, target)
                    };
                self.states[created as usize].link = link;
                break;
            }
            self.add_edge(state, token, created);
            state = self.states[state as usize].link;
        }
        self.steps.push(step);
    }

    /// Shortens the text to its first `len` tokens; does nothing if it is not longer. Costs what
    /// pushing the dropped tokens did, and O(capacity) if `len` is 0.
    pub fn truncate(&mut self, len: usize) {
        if len == 0 && !self.is_empty() {
            self.clear();
        }
        while self.len() > len {
            self.pop();
        }
    }

    /// The longest suffix of at most `limit` tokens that also occurs earlier, overlapping itself or
    /// not; of its occurrences the earliest. `None` if the last token is new or `limit` is 0.
    ///
    /// O(1) if `limit` is not below the length of the match, otherwise O(number of suffix links to
    /// it).
    pub fn longest_earlier_match(&self, limit: usize) -> Option<Match> {
        let mut state = self.states[self.last_state() as usize].link;
        if state == NONE || state == ROOT || limit == 0 {
            return None;
        }
        // All substrings of a state share their ends, so the state whose lengths include `limit`
        // has the answer.
        loop {
            let link = self.states[state as usize].link;
            if (self.states[link as usize].len as usize) < limit {
                break;
            }
            state = link;
        }
        let State { len, first_end, .. } = self.states[state as usize];
        Some(Match {
            len: limit.min(len as usize),
            end: first_end as usize,
        })
    }

    fn clear(&mut self) {
        self.tokens.clear();
        self.steps.clear();
        self.states.clear();
        self.states.push(State::new(0, NONE));
        self.edges.clear();
        self.places.clear();
    }

    /// State of the whole text.
    fn last_state(&self) -> u32 {
        self.steps.last().map_or(ROOT, |step| step.created)
    }

    fn edge_mut(&mut self, state: u32, token: TokenId) -> Option<&mut u32> {
        let state_ = &mut self.states[state as usize];
        if state_.token == token && state_.target != NONE {
            return Some(&mut state_.target);
        }
        if state_.more == NONE {
            return None;
        }
        let edges = &mut self.edges;
        let is_it = |&place: &u32| {
            let edge = &edges[place as usize];
            edge.state == state && edge.token == token
        };
        let place = *self.places.find(hash(state, token), is_it)?;
        Some(&mut edges[place as usize].target)
    }

    /// Adds an edge to a state that has one already.
    fn add_edge(&mut self, state: u32, token: TokenId, target: u32) {
        let place = self.edges.len() as u32;
        let next = std::mem::replace(&mut self.states[state as usize].more, place);
        self.edges.push(Edge {
            state,
            token,
            target,
            next,
        });
        let edges = &self.edges;
        let rehash = |&place: &u32| edges[place as usize].hash();
        self.places.insert_unique(hash(state, token), place, rehash);
    }

    /// Separates the substrings of `original` that also end at the end of the text from those that
    /// do not: the former go to a clone, which is returned. `parent` is the longest state with an
    /// edge to `original` among those to redirect.
    fn split(&mut self, parent: u32, token: TokenId, original: u32) -> u32 {
        let clone = self.states.len() as u32;
        let from = self.states[original as usize];
        self.states.push(State {
            len: self.states[parent as usize].len + 1,
            more: NONE,
            ..from
        });
        let mut edge = from.more;
        while edge != NONE {
            let Edge {
                token,
                target,
                next,
                ..
            } = self.edges[edge as usize];
            self.add_edge(clone, token, target);
            edge = next;
        }
        self.states[original as usize].link = clone;
        self.redirect(parent, token, original, clone);
        clone
    }

    /// Turns the edges of `state` and the states above it from one target to another.
    fn redirect(&mut self, mut state: u32, token: TokenId, from: u32, to: u32) {
        while state != NONE {
            match self.edge_mut(state, token) {
                Some(target) if *target == from => *target = to,
                _ => break,
            }
            state = self.states[state as usize].link;
        }
    }

    /// Undoes the last push, in reverse order.
    fn pop(&mut self) {
        let (Some(step), Some(token)) = (self.steps.pop(), self.tokens.pop()) else {
            return;
        };
        if step.original != NONE {
            let clone = step.created + 1;
            self.redirect(step.redirected, token, clone, step.original);
            self.states[step.original as usize].link = self.states[clone as usize].link;
        }
        while self.edges.len() > step.edges as usize {
            let Some(edge) = self.edges.pop() else { break };
            let is_it = |&place: &u32| place as usize == self.edges.len();
            if let Ok(entry) = self.places.find_entry(edge.hash(), is_it) {
                entry.remove();
            }
            self.states[edge.state as usize].more = edge.next;
        }
        let last = self.last_state();
        let whole = &mut self.states[last as usize];
        (whole.token, whole.target) = (0, NONE);
        self.states.truncate(step.created as usize);
    }
}

impl Default for SuffixAutomaton {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn new(len: u32, link: u32) -> Self {
        Self {
            len,
            link,
            first_end: len,
            token: 0,
            target: NONE,
            more: NONE,
        }
    }
}

impl Edge {
    fn hash(&self) -> u64 {
        hash(self.state, self.token)
    }
}

/// Multiply and fold: both halves of the result depend on all of the key.
fn hash(state: u32, token: TokenId) -> u64 {
    let key = u64::from(state) << 32 | u64::from(token);
    let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xd6e8_feb8_6659_fd93_u64);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything but the capacity of the table.
    fn content(automaton: &SuffixAutomaton) -> String {
        let SuffixAutomaton {
            tokens,
            steps,
            states,
            edges,
            ..
        } = automaton;
        format!("{tokens:?} {steps:?} {states:?} {edges:?}")
    }

    #[test]
    fn truncate_leaves_no_trace() {
        let text: Vec<TokenId> = (0..200u32).map(|i| i * i % 7 * (i % 3) % 4).collect();
        let mut whole = SuffixAutomaton::new();
        let mut prefixes = vec![content(&whole)];
        for &token in &text {
            whole.push(token);
            prefixes.push(content(&whole));
        }
        for len in (0..=text.len()).rev() {
            whole.truncate(len);
            assert!(content(&whole) == prefixes[len], "at {len}");
            assert_eq!(whole.places.len(), whole.edges.len());
        }
    }
}
