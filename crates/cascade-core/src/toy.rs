//! Toy models in exact integer arithmetic.
//!
//! A [`ToyScorer`] computes its output from a hash of source and context, so outputs can be
//! compared exactly: no difference can be attributed to a near-tie. It can be made to agree with
//! another toy at a chosen rate, and can log the calls it receives. [`outcomes`] enumerates every
//! outcome of a randomized computation.

use std::sync::{Arc, Mutex};

use crate::{
    Architecture, Budget, Choice, Distribution, Drafter, GatheredProbs, Guidance, HiddenLayer,
    HiddenLayers, HiddenStates, Matrix, Proposal, RandomSource, Result, RowDetail, ScoredTree,
    Scorer, ScorerInfo, Scores, TokenId, TokenTree, Top, Want,
};

/// Layers that a toy has hidden states of.
const LAYERS: usize = 2;

/// One call of [`Scorer::score`], as a toy logged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the model.
    pub model: &'static str,
    /// The context.
    pub context: Vec<TokenId>,
    /// Tokens of the tree, in order.
    pub draft: Vec<TokenId>,
}

/// A log that several toys share.
pub type CallLog = Arc<Mutex<Vec<Call>>>;

/// A decoder-only or encoder-decoder model in integer arithmetic.
///
/// Each token of the vocabulary gets an integer weight from a hash of (seed, source, context,
/// token); probabilities are weights over their sum. With agreement `a`, the model uses the weights
/// of its `family` seed in about `a` of 256 contexts and its own in the others.
#[derive(Clone, Debug)]
pub struct ToyScorer {
    name: &'static str,
    architecture: Architecture,
    vocab_size: usize,
    max_context: Option<usize>,
    family: u64,
    seed: u64,
    agreement: u64,
    source: Vec<TokenId>,
    log: CallLog,
}

impl ToyScorer {
    /// A decoder-only toy that always uses the family's weights.
    pub fn target(name: &'static str, vocab_size: usize, family: u64) -> Self {
        Self {
            name,
            architecture: Architecture::DecoderOnly,
            vocab_size,
            max_context: None,
            family,
            seed: family,
            agreement: 256,
            source: Vec::new(),
            log: CallLog::default(),
        }
    }

    /// A toy that uses the family's weights in about `agreement` of 256 contexts, and its own in
    /// the others.
    pub fn drafter(
        name: &'static str,
        vocab_size: usize,
        family: u64,
        seed: u64,
        agreement: u64,
    ) -> Self {
        Self {
            seed,
            agreement,
            ..Self::target(name, vocab_size, family)
        }
    }

    /// Reads the prompt as `architecture` does.
    pub fn with_architecture(self, architecture: Architecture) -> Self {
        Self {
            architecture,
            ..self
        }
    }

    /// Limits the model to `positions` positions.
    pub fn with_max_context(self, positions: usize) -> Self {
        Self {
            max_context: Some(positions),
            ..self
        }
    }

    /// Logs the calls of the model to `log`.
    pub fn with_log(self, log: &CallLog) -> Self {
        Self {
            log: Arc::clone(log),
            ..self
        }
    }

    /// Weight of every token after `context`, each at least 1.
    pub fn weights(&self, context: &[TokenId]) -> Vec<u64> {
        let state = hash_all(self.family, &self.source, context);
        let own = splitmix(state ^ splitmix(self.seed)) % 256 >= self.agreement;
        let state = if own {
            splitmix(state ^ self.seed)
        } else {
            state
        };
        (0..self.vocab_size as u64)
            .map(|token| {
                let draw = splitmix(state ^ splitmix(token)) % 1024;
                // Cubed, so that some distributions have a clearly most probable token.
                1 + draw * draw * draw / 1024
            })
            .collect()
    }

    /// Hidden states: the sum of a row's weights, plus half the number of the layer that it enters.
    fn hidden(&self, context: &[TokenId], rows: &[ToyRow], want: Want) -> HiddenStates {
        let after = want.hidden_after.unwrap_or(context.len());
        let before = (after..context.len()).map(|end| self.row(&context[..end]).sum as f32);
        let sums: Vec<f32> = before
            .chain(rows.iter().map(|row| row.sum as f32))
            .collect();
        let states = want.hidden.iter().map(|layer| {
            let added = match layer {
                HiddenLayer::Last => 0.0,
                HiddenLayer::Entering(layer) => 0.5 + layer as f32,
            };
            let states = sums.iter().map(|sum| sum + added).collect();
            (layer, Matrix::new(1, states))
        });
        states.fold(HiddenStates::default(), |all, (layer, states)| {
            all.with(layer, states)
        })
    }

    fn row(&self, context: &[TokenId]) -> ToyRow {
        ToyRow::new(self.weights(context))
    }

    fn rows(&self, context: &[TokenId], tree: &TokenTree) -> Vec<ToyRow> {
        let row = |node| {
            let mut path = context.to_vec();
            path.extend(tree.path_tokens(node));
            self.row(&path)
        };
        let nodes = (0..tree.len()).map(Some);
        std::iter::once(None).chain(nodes).map(row).collect()
    }
}

/// The probabilities of the tree's nodes, and of the most probable tokens.
fn gathered(rows: &[ToyRow], tree: &TokenTree) -> GatheredProbs {
    let most = rows
        .iter()
        .map(|row| row.probability(row.argmax as TokenId));
    let nodes = (0..tree.len()).map(|node| {
        let row = &rows[TokenTree::row(tree.parent(node))];
        row.probability(tree.token(node))
    });
    GatheredProbs {
        argmax: most.collect(),
        nodes: nodes.collect(),
    }
}

/// A drafter that draws from a toy's distributions as the generation draws: a chain with further
/// children at each of its nodes.
///
/// Its proposals carry what each token was drawn from, so reviews of them by rules that use it can
/// be tested.
#[derive(Clone, Debug)]
pub struct ToyDrafter {
    model: ToyScorer,
    children: usize,
    replacement: bool,
}

impl ToyDrafter {
    /// A drafter by this model, with so many draws at each node of its chain: without replacement,
    /// each distribution depending on the draws before.
    pub fn new(model: ToyScorer, children: usize) -> Self {
        Self {
            model,
            children,
            replacement: false,
        }
    }

    /// Draws siblings independently, with replacement, if the generation draws.
    pub fn with_replacement(self) -> Self {
        Self {
            replacement: true,
            ..self
        }
    }

    fn draws(
        &self,
        q: &Arc<Distribution>,
        position: usize,
        choice: &mut Choice<'_>,
    ) -> Vec<(TokenId, Proposal)> {
        match choice {
            Choice::Drawn { random, .. } if self.replacement => (0..self.children)
                .map(|_| (random.draw(q), Proposal::Sampled(Arc::clone(q))))
                .collect(),
            _ => choice.draw(q, position as u64, self.children, None),
        }
    }
}

impl Drafter for ToyDrafter {
    fn set_source(&mut self, source: &[TokenId]) {
        self.model.source = source.to_vec();
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        self.propose_with(context, budget, &mut Guidance::new(Choice::Greedy))
    }

    fn propose_with(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
    ) -> ScoredTree {
        let mut proposed = ScoredTree::default();
        let (mut path, mut tip) = (context.to_vec(), None);
        for depth in 0..budget.depth.min(budget.nodes / self.children) {
            let logits = self.model.row(&path).logits();
            let Ok(q) = guidance.choice.distribution(&logits) else {
                break;
            };
            let draws = self.draws(&Arc::new(q), context.len() + depth, &mut guidance.choice);
            let Some(&(first, _)) = draws.first() else {
                break;
            };
            let parent = tip;
            for (token, proposal) in draws {
                proposed.draw(token, parent, proposal);
            }
            tip = proposed.tree().child(parent, first);
            path.push(first);
        }
        proposed
    }
}

struct ToyRow {
    weights: Vec<u64>,
    sum: u64,
    argmax: usize,
}

impl ToyRow {
    fn new(weights: Vec<u64>) -> Self {
        let sum = weights.iter().sum();
        let mut argmax = 0;
        for (token, &weight) in weights.iter().enumerate() {
            if weight > weights[argmax] {
                argmax = token;
            }
        }
        Self {
            weights,
            sum,
            argmax,
        }
    }

    /// The `n` tokens of the largest weights, ties by lower id.
    fn top(&self, n: usize) -> Vec<(TokenId, f32)> {
        let mut tokens: Vec<TokenId> = (0..self.weights.len() as TokenId).collect();
        tokens.sort_by_key(|&token| std::cmp::Reverse(self.weights[token as usize]));
        let first = tokens.into_iter().take(n);
        first
            .map(|token| (token, self.probability(token)))
            .collect()
    }

    fn logits(&self) -> Vec<f32> {
        self.weights.iter().map(|&w| (w as f32).ln()).collect()
    }

    fn entropy(&self) -> f32 {
        let probabilities = self.weights.iter().map(|&w| w as f64 / self.sum as f64);
        -probabilities.map(|p| p * p.ln()).sum::<f64>() as f32
    }

    fn probability(&self, token: TokenId) -> f32 {
        (self.weights[token as usize] as f64 / self.sum as f64) as f32
    }
}

impl Scorer for ToyScorer {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(self.architecture, self.vocab_size)
            .with_max_context(self.max_context)
            .with_hidden(HiddenLayers::up_to(LAYERS))
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.info().check_source(source)?;
        self.source = source.to_vec();
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.info()
            .check(context, tree, want, "a toy of two layers")?;
        if let Ok(mut log) = self.log.lock() {
            log.push(Call {
                model: self.name,
                context: context.to_vec(),
                draft: tree.tokens().collect(),
            });
        }
        let rows = self.rows(context, tree);
        let width = want.top.min(self.vocab_size);
        let top = || Top {
            width,
            tokens: rows.iter().flat_map(|row| row.top(width)).collect(),
        };
        let logits = || {
            let data = rows.iter().flat_map(ToyRow::logits).collect();
            Matrix::new(self.vocab_size, data)
        };
        let hidden = self.hidden(context, &rows, want);
        Ok(Scores {
            argmax: rows.iter().map(|row| row.argmax as TokenId).collect(),
            gathered: (want.rows == RowDetail::Gathered).then(|| gathered(&rows, tree)),
            top: (want.top > 0).then(top),
            logits: (want.rows == RowDetail::Logits).then(logits),
            entropy: want
                .entropy
                .then(|| rows.iter().map(ToyRow::entropy).collect()),
            hidden,
            rows_computed: context.len() + tree.len(),
        })
    }
}

fn hash_all(seed: u64, source: &[TokenId], context: &[TokenId]) -> u64 {
    let mut state = splitmix(seed);
    for &token in source {
        state = splitmix(state ^ u64::from(token));
    }
    state = splitmix(state ^ u64::MAX);
    for &token in context {
        state = splitmix(state ^ u64::from(token));
    }
    state
}

/// The output function of SplitMix64: a bijection of `u64` that mixes well.
fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A random source that follows a given path of outcomes and accumulates its probability.
#[derive(Debug, Default)]
pub struct Exhaustive {
    /// The branch to take at each decision; the first branch at all later ones.
    path: Vec<usize>,
    /// How many branches each decision had.
    branches: Vec<usize>,
    probability: f64,
}

impl Exhaustive {
    /// Takes one of the branches, given by their probabilities.
    fn decide(&mut self, probabilities: &[f64]) -> usize {
        let decision = self.branches.len();
        if decision == self.path.len() {
            self.path.push(0);
        }
        let branch = self.path[decision];
        self.branches.push(probabilities.len());
        self.probability *= probabilities[branch];
        branch
    }

    /// Moves to the next path; `false` after the last.
    fn advance(&mut self) -> bool {
        while let Some(branch) = self.path.pop() {
            if branch + 1 < self.branches[self.path.len()] {
                self.path.push(branch + 1);
                return true;
            }
        }
        false
    }
}

impl RandomSource for Exhaustive {
    fn accept(&mut self, probability: f64) -> bool {
        if probability >= 1.0 {
            return true;
        }
        if probability <= 0.0 {
            return false;
        }
        self.decide(&[probability, 1.0 - probability]) == 0
    }

    fn draw(&mut self, distribution: &Distribution) -> TokenId {
        let support = distribution.support();
        let probabilities: Vec<f64> = support.iter().map(|&(_, p)| p).collect();
        support[self.decide(&probabilities)].0
    }

    fn below(&mut self, n: usize) -> usize {
        self.decide(&vec![(n as f64).recip(); n])
    }
}

/// Every outcome of a randomized computation, with its probability: `run` is called once for each
/// sequence of random decisions. An outcome that several sequences lead to is listed once for each.
/// Exponential in the number of decisions.
pub fn outcomes<T>(mut run: impl FnMut(&mut Exhaustive) -> T) -> Vec<(T, f64)> {
    let mut chance = Exhaustive::default();
    let mut all = Vec::new();
    loop {
        chance.branches.clear();
        chance.probability = 1.0;
        let outcome = run(&mut chance);
        all.push((outcome, chance.probability));
        if !chance.advance() {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_all_there_with_their_probabilities() {
        let distribution = Distribution::new(vec![1.0, 0.0, 3.0]).unwrap();
        let all = outcomes(|chance| {
            if chance.accept(0.5) {
                chance.draw(&distribution) as usize
            } else {
                10 + chance.below(2)
            }
        });
        assert_eq!(all, [(0, 0.125), (2, 0.375), (10, 0.25), (11, 0.25)]);
    }
}
