//! What tokens cost and save: the one comparison that decides.

use cascade_core::NodeId;

use super::OnlineSchedule;
use super::shadow::Shadow;
use crate::policy::DraftState;

/// A drafter's forward if nothing is said.
const DRAFTER: f64 = 0.2;
/// Tokens of a neural drafter that are planned for at most.
const HORIZON: usize = 16;

/// What is kept of a proposal.
pub(super) struct Kept {
    pub(super) nodes: Vec<bool>,
    /// Probability of each node that it is reached, kept or not.
    pub(super) reached: Vec<f64>,
    /// Expected tokens less their price, beside what a neural drafter would save.
    pub(super) gain: f64,
}

/// Where a draft goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tip {
    /// Probability that the draft is kept so far.
    pub(super) survival: f64,
    pub(super) depth: usize,
    /// Nodes of the draft so far.
    pub(super) nodes: usize,
}

impl Tip {
    pub(super) fn of(survival: f64, state: &DraftState<'_>) -> Self {
        Self {
            survival,
            depth: state.depth,
            nodes: state.nodes,
        }
    }

    /// After so many further tokens, the last of which is kept with this probability.
    pub(super) fn after(self, tokens: usize, survival: f64) -> Self {
        Self {
            survival,
            depth: self.depth + tokens,
            nodes: self.nodes + tokens,
        }
    }
}

impl OnlineSchedule {
    pub(super) fn is_neural(&self, level: usize) -> bool {
        level > 0 && self.levels.get(level).is_some_and(|it| it.is_neural)
    }

    /// The neural drafters below a level, largest first.
    pub(super) fn neural_below(&self, level: usize) -> impl Iterator<Item = usize> + '_ {
        (level + 1..self.levels.len()).filter(|&level| self.is_neural(level))
    }

    /// This text's part of a forward of a level without drafts: in seconds if the target was
    /// measured, else in its forwards.
    pub(super) fn forward(&self, level: usize) -> f64 {
        let target = self.reviewers[0].one();
        let assumed = match level {
            0 => 1.0,
            drafter => *self.assumed.drafters.get(drafter - 1).unwrap_or(&DRAFTER),
        };
        let seconds = self.reviewers[level].one().filter(|_| target.is_some());
        seconds.unwrap_or(assumed * target.unwrap_or(1.0))
    }

    /// What a token of a neural drafter costs, in forwards of the reviewer, its row not included:
    /// the drafter's forward, and what its turns take beside. Levels below may give it several
    /// tokens in a forward.
    pub(super) fn token_cost(&self, reviewer: usize, drafter: usize) -> f64 {
        let own = &self.reviewers[drafter];
        (self.forward(drafter) + own.beside.time()) / (own.gain() * self.forward(reviewer))
    }

    /// Expected tokens less their price, of the best length of a neural drafter that goes on there.
    pub(super) fn balance(&self, reviewer: usize, drafter: usize, at: Tip) -> f64 {
        let own = &self.reviewers[reviewer];
        let acceptance = &own.drafters[drafter].next;
        let token = self.token_cost(reviewer, drafter);
        let rate = own.gain();
        let rows = at.nodes + 1;
        let (mut survival, mut tokens, mut best) = (at.survival, 0.0, f64::NEG_INFINITY);
        for ahead in 0..HORIZON {
            survival *= acceptance.estimate(None, at.depth + ahead);
            tokens += survival;
            let drafted = (ahead + 1) as f64;
            let price = drafted * token + own.added(rows, drafted);
            best = best.max(tokens - rate * price);
            // What follows is kept no more often.
            if survival <= rate * token {
                break;
            }
        }
        best
    }

    /// The neural drafter with the best balance, of those that may go on; each drafts once, and
    /// smaller ones after larger ones.
    pub(super) fn best_neural(&self, reviewer: usize, at: Tip) -> Option<(usize, f64)> {
        let below = self.neural_below(self.reviewers[reviewer].draft.neural);
        let balances = below.map(|level| (level, self.balance(reviewer, level, at)));
        balances.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether what a statistical drafter saves is worth the time that it takes.
    pub(super) fn pays(&self, reviewer: usize, drafter: usize) -> bool {
        let own = &self.reviewers[reviewer];
        own.drafters[drafter].gain >= own.gain() * self.question(reviewer, drafter)
    }

    /// What asking a statistical drafter takes, in forwards of the reviewer.
    pub(super) fn question(&self, reviewer: usize, drafter: usize) -> f64 {
        let drafter = &self.reviewers[reviewer].drafters[drafter];
        drafter.seconds.time() / self.forward(reviewer)
    }

    /// Finds the nodes of a proposal that are worth their rows.
    pub(super) fn worthwhile(
        &self,
        reviewer: usize,
        state: &DraftState<'_>,
        proposal: &Shadow,
    ) -> Kept {
        let own = &self.reviewers[reviewer];
        let stated = &own.drafters[proposal.drafter.0].stated;
        let reached = proposal.reached(own.draft.survival, stated);
        let price = |nodes: usize| own.gain() * own.added(state.nodes + 1, nodes as f64);
        let mut order: Vec<NodeId> = (0..reached.len()).collect();
        // Ancestors come first: they are no less probable, and were pushed earlier.
        order.sort_by(|&a, &b| reached[b].total_cmp(&reached[a]));
        let (best, count) = best_count(order.iter().map(|&node| reached[node]), price);
        let chain = proposal.kept_path(|_| true);
        let along = chain.iter().map(|&node| reached[node]);
        let tip = Tip::of(own.draft.survival, state);
        let (length, balance, without) = self.best_handover(reviewer, tip, along, price);
        let (best, kept) = if balance > best {
            (balance, &chain[..length])
        } else {
            (best, &order[..count])
        };
        let mut nodes = vec![false; reached.len()];
        kept.iter().for_each(|&node| nodes[node] = true);
        Kept {
            nodes,
            reached,
            gain: best - without,
        }
    }

    /// After how many tokens of a chain a neural drafter goes on best, what both gain, and what one
    /// gains without the chain, whose tokens are reached with these probabilities.
    fn best_handover(
        &self,
        reviewer: usize,
        at: Tip,
        reached: impl Iterator<Item = f64>,
        price: impl Fn(usize) -> f64,
    ) -> (usize, f64, f64) {
        let next = |at| {
            let (_, balance) = self.best_neural(reviewer, at)?;
            (balance > 0.0).then_some(balance)
        };
        let without = next(at).unwrap_or(0.0);
        let (mut best, mut tokens) = ((0, without), 0.0);
        for (length, survival) in (1..).zip(reached.take_while(|_| without > 0.0)) {
            tokens += survival;
            let Some(next) = next(at.after(length, survival)) else {
                break;
            };
            let balance = tokens - price(length) + next;
            if balance > best.1 {
                best = (length, balance);
            }
        }
        (best.0, best.1, without)
    }
}

/// How many nodes, the most probable first, gain most over their price, and what they gain.
fn best_count(
    probabilities: impl Iterator<Item = f64>,
    price: impl Fn(usize) -> f64,
) -> (f64, usize) {
    let mut gain = 0.0;
    let balances = (1..).zip(probabilities).map(|(count, probability)| {
        gain += probability;
        (gain - price(count), count)
    });
    balances.fold((0.0, 0), |best, it| if it.0 > best.0 { it } else { best })
}
