//! Results as JSON: one form for the program, the server and other languages. Field names are
//! vLLM's where it has them.

use std::time::Duration;

use cascade_core::LevelId;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::{Finish, GenerationOutput, Step, StepReport};

/// Serializes a time as its seconds.
pub(crate) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

impl Serialize for Finish {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

fn levels(proposers: &[LevelId]) -> Vec<usize> {
    proposers.iter().map(|level| level.0).collect()
}

/// The text and tokens, for each of these the index in `models` of the model that first proposed
/// it, why it ended, counts of all steps, and what each model did.
impl Serialize for GenerationOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let accepted = self.num_accepted_draft_tokens();
        let per_step = |count: fn(&Step) -> usize| self.steps.iter().map(count).collect::<Vec<_>>();
        let mut json = serializer.serialize_struct("GenerationOutput", 17)?;
        json.serialize_field("text", self.text.as_deref().unwrap_or_default())?;
        json.serialize_field("token_ids", &self.tokens)?;
        json.serialize_field("token_origins", &levels(&self.proposers))?;
        json.serialize_field("finish_reason", &self.finish)?;
        json.serialize_field("num_tokens", &self.tokens.len())?;
        json.serialize_field("wall_seconds", &self.wall.as_secs_f64())?;
        json.serialize_field("first_token_seconds", &self.first.as_secs_f64())?;
        json.serialize_field("tokens_per_second", &self.tokens_per_second())?;
        json.serialize_field("mean_acceptance_length", &self.mean_acceptance_length())?;
        json.serialize_field("draft_acceptance_rate", &self.draft_acceptance_rate())?;
        json.serialize_field("num_spec_steps", &self.steps.len())?;
        json.serialize_field("num_draft_tokens", &self.num_draft_tokens())?;
        json.serialize_field("num_accepted_draft_tokens", &accepted)?;
        json.serialize_field("acceptance_histogram", &self.acceptance_histogram())?;
        json.serialize_field("per_step_accepted", &per_step(|step| step.accepted))?;
        json.serialize_field("per_step_drafted", &per_step(|step| step.drafted))?;
        json.serialize_field("models", &self.models)?;
        json.end()
    }
}

/// Tokens and text, what was drafted and accepted, by level, and where the time went.
impl Serialize for StepReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let times = [
            ("drafting_seconds", self.timings.drafting),
            ("forward_seconds", self.timings.forward),
            ("verification_seconds", self.timings.verification),
            ("emission_seconds", self.timings.emission),
        ];
        let mut json = serializer.serialize_struct("StepReport", 11)?;
        json.serialize_field("text", &self.text())?;
        json.serialize_field("token_ids", &self.tokens)?;
        json.serialize_field("token_origins", &levels(&self.proposers))?;
        json.serialize_field("num_draft_tokens", &self.step.drafted)?;
        json.serialize_field("num_accepted_draft_tokens", &self.step.accepted)?;
        json.serialize_field("levels", &self.levels)?;
        for (name, time) in times {
            json.serialize_field(name, &time.as_secs_f64())?;
        }
        json.serialize_field("finish_reason", &self.finish)?;
        json.end()
    }
}
