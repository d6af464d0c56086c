//! What tokens cost and save: the one comparison that decides.

use cascade_core::NodeId;

use super::OnlineSchedule;
use super::shadow::Shadow;
use crate::policy::DraftState;

/// A drafter's forward if nothing is said.
const DRAFTER: f64 = 0.2;
/// Tokens of a neural drafter that are planned for at most.
pub(super) const HORIZON: usize = 16;

/// What is kept of a proposal.
pub(super) struct Kept {
    pub(super) nodes: Vec<bool>,
    /// Probability of each node that it is reached, kept or not.
    pub(super) reached: Vec<f64>,
    /// Expected tokens less their price, beside what a neural drafter would save.
    pub(super) gain: f64,
    /// A neural drafter that could go on, and what that would gain beyond the best nodes.
    pub(super) offer: Option<(usize, f64)>,
    /// Whether that is why no more nodes are kept.
    pub(super) handed_over: bool,
}

/// A chain of a statistical drafter after which a neural one goes on, and what both gain.
pub(super) struct Handover {
    pub(super) length: usize,
    pub(super) drafter: usize,
    pub(super) balance: f64,
}

/// Where a draft goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tip {
    pub(super) depth: usize,
    /// Nodes of the draft so far.
    pub(super) nodes: usize,
}

impl Tip {
    pub(super) fn of(state: &DraftState<'_>) -> Self {
        Self {
            depth: state.depth,
            nodes: state.nodes,
        }
    }

    /// After so many further tokens.
    pub(super) fn after(self, tokens: usize) -> Self {
        Self {
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
        let measured = |level: usize| {
            let own = &self.reviewers[level];
            own.costs.one().map(|one| one * own.part())
        };
        let of_target = measured(0);
        let target = of_target.unwrap_or(1.0);
        if level == 0 {
            return target;
        }
        let assumed = self.assumed.drafters.get(level - 1).copied();
        let seconds = measured(level).filter(|_| of_target.is_some());
        seconds.unwrap_or(assumed.unwrap_or(DRAFTER) * target)
    }

    /// What a token of a neural drafter costs, in forwards of the reviewer, its row not included:
    /// the drafter's forward, and what its turns take beside forwards. Levels below may give it
    /// several tokens in a forward.
    pub(super) fn token_cost(&self, reviewer: usize, drafter: usize) -> f64 {
        let own = &self.reviewers[drafter];
        let beside = match self.reviewers[0].costs.one() {
            Some(_) if !self.assumed.fixed => own.turn.beside.time(),
            // Costs are kept, or nothing is in seconds yet.
            _ => 0.0,
        };
        (self.forward(drafter) + beside) / (own.gain() * self.forward(reviewer))
    }

    /// Expected tokens less their price, of the best length of a neural drafter that goes on after
    /// `depth` tokens of a draft with so many nodes, if they survive with this probability.
    pub(super) fn balance(&self, reviewer: usize, drafter: usize, survival: f64, at: Tip) -> f64 {
        let own = &self.reviewers[reviewer];
        let acceptance = &own.drafters[drafter].next;
        let token = self.token_cost(reviewer, drafter);
        let rate = own.gain();
        let rows = at.nodes + 1;
        let (mut survival, mut tokens) = (survival, 0.0);
        let mut best = f64::NEG_INFINITY;
        for ahead in 0..HORIZON {
            survival *= acceptance.estimate(None, at.depth + ahead);
            tokens += survival;
            let drafted = (ahead + 1) as f64;
            let price = drafted * token + own.added(rows, drafted);
            best = best.max(tokens - rate * price);
        }
        best
    }

    /// Whether a neural drafter earns what it takes it to read the target's text, or drafts for
    /// another.
    pub(super) fn is_worth_reading(&self, reviewer: usize, drafter: usize) -> bool {
        let (own, above) = (&self.reviewers[drafter], &self.reviewers[reviewer]);
        let forward = self.forward(drafter) / self.forward(reviewer);
        let price = above.gain() * forward * own.reading_cost();
        let earned = own.reading.earned().filter(|_| reviewer == 0);
        earned.is_none_or(|earned| earned >= price)
    }

    /// The neural drafter with the best balance, of those that are `taken` and may go on; each
    /// drafts once, and smaller ones after larger ones.
    pub(super) fn best_neural(
        &self,
        reviewer: usize,
        survival: f64,
        at: Tip,
        taken: impl Fn(usize) -> bool,
    ) -> Option<(usize, f64)> {
        let after = self.reviewers[reviewer].draft.neural;
        let levels = self.neural_below(after).filter(|&level| taken(level));
        let balances = levels.map(|level| (level, self.balance(reviewer, level, survival, at)));
        balances.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether what a statistical drafter saves is worth the time that it takes.
    pub(super) fn pays(&self, reviewer: usize, drafter: usize) -> bool {
        let own = &self.reviewers[reviewer];
        let price = own.gain() * self.question(reviewer, drafter);
        own.drafters[drafter].asking.gain() >= price
    }

    /// What asking a statistical drafter takes, in forwards of the reviewer.
    pub(super) fn question(&self, reviewer: usize, drafter: usize) -> f64 {
        let asking = &self.reviewers[reviewer].drafters[drafter].asking;
        asking.seconds() / self.forward(reviewer)
    }

    /// The probability of each node of a proposal that it is kept, and all before it.
    fn reached(&self, reviewer: usize, proposal: &Shadow) -> Vec<f64> {
        let own = &self.reviewers[reviewer];
        let stated = &own.drafters[proposal.drafter.0].stated;
        let paths = proposal.path_probabilities(|said, depth| stated.estimate(said, depth));
        paths
            .into_iter()
            .map(|path| own.draft.survival * path)
            .collect()
    }

    /// Finds the nodes of a proposal that are worth their rows.
    pub(super) fn worthwhile(
        &self,
        reviewer: usize,
        state: &DraftState<'_>,
        proposal: &Shadow,
    ) -> Kept {
        let own = &self.reviewers[reviewer];
        let reached = self.reached(reviewer, proposal);
        let price = |nodes: usize| own.gain() * own.added(state.nodes + 1, nodes as f64);
        let mut order: Vec<NodeId> = (0..reached.len()).collect();
        // Ancestors come first: they are no less probable, and were pushed earlier.
        order.sort_by(|&a, &b| reached[b].total_cmp(&reached[a]));
        let (best, count) = best_count(order.iter().map(|&node| reached[node]), price);
        let chain = proposal.first_children();
        let along = chain.iter().map(|&node| reached[node]);
        let along: Vec<f64> = std::iter::once(own.draft.survival).chain(along).collect();
        let at = Tip::of(state);
        let any = self.best_handover(reviewer, at, &along, price, |_| true);
        let offer = any.0.as_ref().map(|it| (it.drafter, it.balance - best));
        let worth = |level| self.is_worth_reading(reviewer, level);
        let (handover, without) = if self.neural_below(own.draft.neural).all(worth) {
            any
        } else {
            self.best_handover(reviewer, at, &along, price, worth)
        };
        let handover = handover.filter(|handover| handover.balance > best);
        let handed_over = handover.is_some();
        let (best, kept) = match handover {
            Some(handover) => (handover.balance, &chain[..handover.length]),
            None => (best, &order[..count]),
        };
        let mut nodes = vec![false; reached.len()];
        kept.iter().for_each(|&node| nodes[node] = true);
        Kept {
            nodes,
            reached,
            gain: best - without,
            offer,
            handed_over,
        }
    }

    /// After how many tokens of a chain one of the neural drafters that are `taken` goes on best,
    /// and what one gains without the chain. `reached` are the probabilities of the text, then of
    /// each token.
    fn best_handover(
        &self,
        reviewer: usize,
        at: Tip,
        reached: &[f64],
        price: impl Fn(usize) -> f64,
        taken: impl Fn(usize) -> bool + Copy,
    ) -> (Option<Handover>, f64) {
        let (mut best, mut tokens, mut without): (Option<Handover>, _, _) = (None, 0.0, 0.0);
        for (length, &survival) in reached.iter().enumerate() {
            tokens += if length > 0 { survival } else { 0.0 };
            let next = self.best_neural(reviewer, survival, at.after(length), taken);
            let Some((drafter, next)) = next.filter(|(_, next)| *next > 0.0) else {
                break;
            };
            let balance = tokens - price(length) + next;
            without = if length == 0 { next } else { without };
            if best.as_ref().is_none_or(|best| balance > best.balance) {
                best = Some(Handover {
                    length,
                    drafter,
                    balance,
                });
            }
        }
        (best, without)
    }
}

/// How many nodes, the most probable first, gain most over their price, and what they gain.
fn best_count(
    probabilities: impl Iterator<Item = f64>,
    price: impl Fn(usize) -> f64,
) -> (f64, usize) {
    let (mut best, mut kept, mut gain) = (0.0, 0, 0.0);
    for (count, probability) in (1..).zip(probabilities) {
        gain += probability;
        let balance = gain - price(count);
        if balance > best {
            (best, kept) = (balance, count);
        }
    }
    (best, kept)
}
