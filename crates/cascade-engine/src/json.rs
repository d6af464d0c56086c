//! Results as JSON: one form for the program, the server and other languages. Field names are
//! vLLM's where it has them.

use cascade_core::LevelId;
use serde::ser::Serializer;
use serde::Serialize;

use crate::{Finish, GenerationOutput, LevelStep, ModelUsage, Role, StepReport, Usage};

impl Serialize for Finish {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[derive(Serialize)]
struct Counts {
    calls: u64,
    rows: u64,
    catch_up_rows: u64,
    prefill_rows: u64,
    seconds: f64,
}

impl From<&Usage> for Counts {
    fn from(usage: &Usage) -> Self {
        Self {
            calls: usage.calls,
            rows: usage.rows,
            catch_up_rows: usage.catch_up_rows,
            prefill_rows: usage.prefill_rows,
            seconds: usage.time.as_secs_f64(),
        }
    }
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Counts::from(self).serialize(serializer)
    }
}

impl Serialize for ModelUsage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            name: &'a str,
            role: Role,
            #[serde(flatten)]
            usage: Counts,
        }
        let fields = Fields {
            name: &self.name,
            role: self.role,
            usage: (&self.usage).into(),
        };
        fields.serialize(serializer)
    }
}

impl Serialize for LevelStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields {
            drafted: usize,
            accepted: usize,
            #[serde(flatten)]
            usage: Counts,
        }
        let fields = Fields {
            drafted: self.drafted,
            accepted: self.accepted,
            usage: (&self.usage).into(),
        };
        fields.serialize(serializer)
    }
}

fn levels(proposers: &[LevelId]) -> Vec<usize> {
    proposers.iter().map(|level| level.0).collect()
}

#[derive(Serialize)]
struct OutputFields<'a> {
    text: &'a str,
    token_ids: &'a [u32],
    token_origins: Vec<usize>,
    finish_reason: &'a Finish,
    num_tokens: usize,
    wall_seconds: f64,
    tokens_per_second: f64,
    mean_acceptance_length: f64,
    draft_acceptance_rate: f64,
    num_spec_steps: usize,
    num_draft_tokens: usize,
    num_accepted_draft_tokens: usize,
    acceptance_histogram: Vec<usize>,
    per_step_accepted: Vec<usize>,
    per_step_drafted: Vec<usize>,
    models: &'a [ModelUsage],
}

/// The text and tokens, for each of these the index in `models` of the model that first proposed
/// it, why it ended, counts of all steps, and what each model did.
impl Serialize for GenerationOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = OutputFields {
            text: self.text.as_deref().unwrap_or_default(),
            token_ids: &self.tokens,
            token_origins: levels(&self.proposers),
            finish_reason: &self.finish,
            num_tokens: self.tokens.len(),
            wall_seconds: self.wall.as_secs_f64(),
            tokens_per_second: self.tokens_per_second(),
            mean_acceptance_length: self.mean_acceptance_length(),
            draft_acceptance_rate: self.draft_acceptance_rate(),
            num_spec_steps: self.steps.len(),
            num_draft_tokens: self.num_draft_tokens(),
            num_accepted_draft_tokens: self.num_accepted_draft_tokens(),
            acceptance_histogram: self.acceptance_histogram(),
            per_step_accepted: self.steps.iter().map(|step| step.accepted).collect(),
            per_step_drafted: self.steps.iter().map(|step| step.drafted).collect(),
            models: &self.models,
        };
        fields.serialize(serializer)
    }
}

/// Tokens and text, what was drafted and accepted, by level, and where the time went.
impl Serialize for StepReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            text: String,
            token_ids: &'a [u32],
            token_origins: Vec<usize>,
            num_draft_tokens: usize,
            num_accepted_draft_tokens: usize,
            levels: &'a [LevelStep],
            drafting_seconds: f64,
            forward_seconds: f64,
            verification_seconds: f64,
            emission_seconds: f64,
            finish_reason: Option<&'a Finish>,
        }
        let timings = &self.timings;
        let fields = Fields {
            text: self.text(),
            token_ids: &self.tokens,
            token_origins: levels(&self.proposers),
            num_draft_tokens: self.step.drafted,
            num_accepted_draft_tokens: self.step.accepted,
            levels: &self.levels,
            drafting_seconds: timings.drafting.as_secs_f64(),
            forward_seconds: timings.forward.as_secs_f64(),
            verification_seconds: timings.verification.as_secs_f64(),
            emission_seconds: timings.emission.as_secs_f64(),
            finish_reason: self.finish.as_ref(),
        };
        fields.serialize(serializer)
    }
}
