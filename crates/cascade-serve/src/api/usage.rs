//! What an answer took, in tokens, forwards and time.

use std::time::Duration;

use cascade_engine::GenerationOutput;
use serde_json::{json, Value};

use crate::answer::Done;

/// The sums over the answers to a request.
#[derive(Debug)]
pub(crate) struct Usage {
    prompt_tokens: usize,
    cached_tokens: usize,
    completion_tokens: usize,
    enabled: bool,
    seed: u64,
    forwards: usize,
    drafts: usize,
    drafted: usize,
    accepted: usize,
    accepted_at: Vec<usize>,
    levels: Vec<Level>,
    queued: Duration,
    computed: Duration,
}

#[derive(Clone, Debug, Default)]
struct Level {
    name: String,
    role: &'static str,
    tokens: usize,
    calls: u64,
    rows: u64,
    seconds: f64,
}

impl Usage {
    /// The usage of prompts with so many tokens together; each counts once, whatever its choices.
    pub(crate) fn new(prompt_tokens: usize, enabled: bool, seed: u64) -> Self {
        Self {
            prompt_tokens,
            cached_tokens: 0,
            completion_tokens: 0,
            enabled,
            seed,
            forwards: 0,
            drafts: 0,
            drafted: 0,
            accepted: 0,
            accepted_at: Vec::new(),
            levels: Vec::new(),
            queued: Duration::ZERO,
            computed: Duration::ZERO,
        }
    }

    /// Adds an answer; of a prompt's choices, the first one counts what was known of it.
    pub(crate) fn add(&mut self, done: &Done, first_choice: bool) {
        let output = &done.output;
        if first_choice {
            self.cached_tokens += done.cached_tokens;
        }
        self.completion_tokens += output.tokens.len();
        self.forwards += output.steps.len();
        self.queued = self.queued.max(done.queued);
        self.computed += output.wall;
        for step in &output.steps {
            self.drafts += usize::from(step.drafted > 0);
            self.drafted += step.drafted;
            self.accepted += step.accepted;
            if self.accepted_at.len() < step.accepted {
                self.accepted_at.resize(step.accepted, 0);
            }
            self.accepted_at[..step.accepted]
                .iter_mut()
                .for_each(|count| *count += 1);
        }
        self.add_levels(output);
    }

    fn add_levels(&mut self, output: &GenerationOutput) {
        self.levels.resize(output.models.len(), Level::default());
        for (level, model) in self.levels.iter_mut().zip(&output.models) {
            level.name.clone_from(&model.name);
            level.role = model.role.as_str();
            level.calls += model.usage.calls;
            // Without those of the prompt, which tell what a session knew of it.
            level.rows += model.usage.rows + model.usage.catch_up_rows;
            level.seconds += model.usage.time.as_secs_f64();
        }
        for proposer in &output.proposers {
            if let Some(level) = self.levels.get_mut(proposer.0) {
                level.tokens += 1;
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let levels = self.levels.iter().map(|level| {
            json!({
                "name": level.name,
                "role": level.role,
                "tokens": level.tokens,
                "calls": level.calls,
                "rows": level.rows,
                "seconds": level.seconds,
            })
        });
        let per_forward = self.completion_tokens as f64 / self.forwards.max(1) as f64;
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "speculation": {
                "enabled": self.enabled,
                "seed": self.seed,
                "num_forwards": self.forwards,
                "num_drafts": self.drafts,
                "num_draft_tokens": self.drafted,
                "num_accepted_tokens": self.accepted,
                "num_accepted_tokens_per_pos": self.accepted_at,
                "tokens_per_forward": per_forward,
                "levels": levels.collect::<Vec<_>>(),
                "queue_seconds": self.queued.as_secs_f64(),
                "compute_seconds": self.computed.as_secs_f64(),
            },
        })
    }
}
