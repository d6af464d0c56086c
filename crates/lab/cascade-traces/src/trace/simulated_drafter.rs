//! A drafter of a stated acceptance, with the timing of a live model.

use cascade_core::{
    GatheredProbs, NodeId, RandomSource, Result, RowDetail, Scorer, ScorerInfo, Scores,
    SeededRandom, TokenId, TokenTree, Want,
};

use super::TraceScorer;
use super::scorer::RecordPosition;
use crate::{Error, ErrorKind};

/// Lets a live model compute every forward, but drafts what a trace's target said, with a stated
/// probability: so a drafter whose weights are not there takes its time and is accepted as often as
/// one that was measured elsewhere. Intended for simulations.
///
/// A row along the recording has the recorded token as its most probable one with probability
/// `acceptance`, independently of other rows, and another token otherwise. Whether it does depends
/// on the row's place in the recording alone: it is the same in every run, and where a drafter is
/// right, so is every one with a higher acceptance. The stated probability of the most probable
/// token is `acceptance` in every row, so the drafter is calibrated, and says nothing about which
/// of its tokens are good: rules that stop drafts by confidence gain nothing from it. The other
/// tokens share the rest evenly.
///
/// The look-up takes microseconds and counts as part of the forward.
///
/// # Errors of `score`
/// Errors of the live model; [`ErrorKind::Simulation`] for logits, entropies, hidden states and
/// the most probable tokens of a row beyond the first.
#[derive(Debug)]
pub struct SimulatedDrafter<S> {
    live: S,
    simulation: Simulation,
}

/// What a simulated drafter drafts, whichever session of its model takes the time.
#[derive(Clone, Debug)]
pub struct Simulation {
    recorded: TraceScorer,
    acceptance: f64,
}

impl Simulation {
    /// A simulation for the target of `recorded` with the timing of models like `live`.
    ///
    /// # Errors
    /// [`ErrorKind::OtherModel`] if `live` has another architecture than the recorded target, or
    /// no row for a recorded token; [`ErrorKind::Simulation`] unless `acceptance` is above 0 and at
    /// most 1.
    pub fn new(live: &impl Scorer, recorded: TraceScorer, acceptance: f64) -> crate::Result<Self> {
        super::timed_replay::check_can_time(live, &recorded)?;
        if !(acceptance > 0.0 && acceptance <= 1.0) {
            let message =
                format!("a drafter's acceptance is {acceptance}; it must be above 0 and at most 1");
            return Err(Error::new(ErrorKind::Simulation, message));
        }
        Ok(Self {
            recorded,
            acceptance,
        })
    }

    /// A drafter with the timing of a session of the model that was checked.
    pub fn drafter<S: Scorer>(&self, live: S) -> SimulatedDrafter<S> {
        SimulatedDrafter {
            live,
            simulation: self.clone(),
        }
    }
}

impl<S: Scorer> SimulatedDrafter<S> {
    /// A drafter for the target of `recorded` with the timing of `live`.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn new(live: S, recorded: TraceScorer, acceptance: f64) -> crate::Result<Self> {
        let simulation = Simulation::new(&live, recorded, acceptance)?;
        Ok(simulation.drafter(live))
    }

    fn token(&self, recorded: Option<(RecordPosition, TokenId)>) -> TokenId {
        match recorded {
            Some((position, token)) if self.is_right(position) => token,
            Some((_, token)) => (token + 1) % self.info().vocab_size as TokenId,
            None => 0,
        }
    }

    fn is_right(&self, at: RecordPosition) -> bool {
        let seed = (at.record as u64) << 32 | at.position as u64;
        SeededRandom::new(seed).accept(self.simulation.acceptance)
    }

    fn gathered(&self, tree: &TokenTree, argmax: &[TokenId]) -> GatheredProbs {
        let best = self.simulation.acceptance as f32;
        let others = (1.0 - best) / (self.info().vocab_size.max(2) - 1) as f32;
        let of_node = |(node, token): (NodeId, TokenId)| {
            if argmax[TokenTree::row(tree.parent(node))] == token {
                best
            } else {
                others
            }
        };
        GatheredProbs {
            argmax: vec![best; argmax.len()],
            nodes: (0..).zip(tree.tokens()).map(of_node).collect(),
        }
    }
}

fn refuse_what_it_does_not_know(want: Want) -> crate::Result<()> {
    let wanted = match want {
        Want {
            rows: RowDetail::Logits,
            ..
        } => "logits",
        want if !want.hidden.is_empty() => "hidden states",
        Want { entropy: true, .. } => "entropies",
        Want { top: 1.., .. } => "the most probable tokens",
        _ => return Ok(()),
    };
    let message = format!(
        "a drafter that is simulated has no {wanted}: decode greedily (temperature 0), without \
         branches and without rules that read them"
    );
    Err(Error::new(ErrorKind::Simulation, message))
}

impl<S: Scorer> Scorer for SimulatedDrafter<S> {
    fn info(&self) -> ScorerInfo {
        let (recorded, live) = (self.simulation.recorded.info(), self.live.info());
        // Rows that both have: those behind the last token are padding.
        let rows = recorded.vocab_size.min(live.vocab_size);
        recorded
            .with_vocab_size(rows)
            .with_max_context(live.max_context)
            .with_max_nodes(live.max_nodes)
            .with_max_top(Some(0))
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.live.set_source(source)?;
        self.simulation.recorded.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        refuse_what_it_does_not_know(want)?;
        let computed = self.live.score(context, tree, want)?;
        let rows = self.simulation.recorded.recorded(context, tree).into_iter();
        let argmax: Vec<TokenId> = rows.map(|row| self.token(row)).collect();
        let gathered = (want.rows == RowDetail::Gathered).then(|| self.gathered(tree, &argmax));
        Ok(Scores::default()
            .with_argmax(argmax)
            .with_gathered(gathered)
            .with_rows_computed(computed.rows_computed))
    }
}
