//! What an answer took, in tokens, forwards and time.

use cascade_engine::GenerationOutput;
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Done;

/// The sums over the answers to a request, under the names that a response has.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptDetails,
    speculation: Figures,
}

#[derive(Debug, Default, Serialize)]
struct PromptDetails {
    cached_tokens: usize,
}

/// What drafting did, and what it took.
#[derive(Debug, Default, Serialize)]
struct Figures {
    enabled: bool,
    seed: u64,
    num_forwards: usize,
    num_drafts: usize,
    num_draft_tokens: usize,
    num_accepted_tokens: usize,
    num_accepted_tokens_per_pos: Vec<usize>,
    tokens_per_forward: f64,
    levels: Vec<Level>,
    queue_seconds: f64,
    compute_seconds: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
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
            total_tokens: prompt_tokens,
            speculation: Figures {
                enabled,
                seed,
                ..Figures::default()
            },
            ..Self::default()
        }
    }

    /// Adds an answer; of a prompt's choices, the first one counts what was known of it.
    pub(crate) fn add(&mut self, done: &Done, first_choice: bool) {
        let output = &done.output;
        if first_choice {
            self.prompt_tokens_details.cached_tokens += done.cached_tokens;
        }
        self.completion_tokens += output.tokens.len();
        self.total_tokens = self.prompt_tokens + self.completion_tokens;
        let figures = &mut self.speculation;
        figures.num_forwards += output.steps.len();
        figures.tokens_per_forward =
            self.completion_tokens as f64 / figures.num_forwards.max(1) as f64;
        figures.queue_seconds = figures.queue_seconds.max(done.queued.as_secs_f64());
        figures.compute_seconds += output.wall.as_secs_f64();
        figures.add_drafts(output);
        figures.add_levels(output);
    }

    /// The usage of a stream of which there are some tokens so far.
    pub(crate) fn so_far(&self, completion_tokens: usize) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self.prompt_tokens + completion_tokens,
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        // Numbers and names can always be written.
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Figures {
    fn add_drafts(&mut self, output: &GenerationOutput) {
        for step in &output.steps {
            self.num_drafts += usize::from(step.drafted > 0);
            self.num_draft_tokens += step.drafted;
            self.num_accepted_tokens += step.accepted;
            let accepted_at = &mut self.num_accepted_tokens_per_pos;
            if accepted_at.len() < step.accepted {
                accepted_at.resize(step.accepted, 0);
            }
            accepted_at[..step.accepted]
                .iter_mut()
                .for_each(|count| *count += 1);
        }
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
}
