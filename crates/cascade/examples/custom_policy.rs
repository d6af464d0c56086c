//! Custom policies: a schedule that adapts the draft length to recent acceptance, and a stop rule
//! that ends a draft after a full stop.

use cascade::{AssembleOptions, Cascade};
use cascade::{DraftState, DraftedToken, LevelId, Options, Outcome, Schedule, StopRule, Turn};
use cascade::{TokenId, TurnStart};

/// Increases the draft length by two tokens after a fully accepted draft, and decreases it by one
/// after any other (the heuristic of Hugging Face transformers).
struct Adaptive {
    tokens: usize,
}

impl Schedule for Adaptive {
    fn next(&mut self, _reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        state.turns.is_empty().then_some(Turn {
            drafter: LevelId::drafter(0),
            tokens: self.tokens,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: state.budget.nodes,
        })
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        let whole = outcome.accepted.len() == outcome.draft.len();
        self.tokens = if whole {
            self.tokens + 2
        } else {
            self.tokens.saturating_sub(1).max(1)
        };
    }
}

/// Ends a draft after a given token.
struct After(TokenId);

impl StopRule for After {
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        drafted.token == self.0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = cascade::demo::config()?;
    let pool = config.pool(&AssembleOptions::default());
    let target = pool.target(&config)?;
    let full_stop = target.tokenizer.token_to_id(".").unwrap_or(0);
    let mut cascade = Cascade::builder()
        .target("target", target.session())
        .statistical("max-gram", cascade::ngram::MaxGram::new())
        .stop_rule(After(full_stop))
        .schedule(Adaptive { tokens: 5 })
        .eos(target.eos_token_ids.iter().copied())
        .codec(std::sync::Arc::new(target.tokenizer.clone()))
        .build()?;
    let options = Options::default().with_max_new_tokens(64);
    let output = cascade.generate("Question: 3 boxes hold 12 eggs each. How many?", &options)?;
    let lengths: Vec<usize> = output.steps.iter().map(|step| step.drafted).collect();
    println!("drafted, step by step: {lengths:?}");
    println!("{:.2} tokens per forward", output.mean_acceptance_length());
    Ok(())
}
