//! The machine-readable record of a generation; field names follow vLLM where it has them.

use cascade_data::Mark;
use cascade_engine::GenerationOutput;
use cascade_eval::Ending;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::comparison::{cpu_speedup, interval, speedup, Comparison, Round, Side};
use crate::inputs::{Input, Question};
use crate::show;

#[derive(Serialize)]
pub(crate) struct Record<'a> {
    /// Turn of the conversation, from 1, if it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<usize>,
    prompt: &'a str,
    text: &'a str,
    token_ids: &'a [u32],
    /// For each token, the index in `models` of the model that first proposed it.
    token_origins: Vec<usize>,
    finish_reason: &'static str,
    /// Whether the end of the answer repeats itself.
    ends_in_loop: bool,
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
    models: Vec<ModelRecord<'a>>,
    /// Absent for lossless output.
    #[serde(skip_serializing_if = "Option::is_none")]
    lossy: Option<LossRecord>,
    #[serde(flatten)]
    marked: Option<MarkedRecord>,
    #[serde(flatten)]
    comparison: Option<ComparisonRecord>,
}

/// Whether an answer is right, where the result is known.
#[derive(Serialize)]
struct MarkedRecord {
    solution: String,
    /// What the answer gives; null if it gives no result.
    result: Option<String>,
    correct: bool,
}

#[derive(Serialize)]
struct ModelRecord<'a> {
    name: &'a str,
    role: &'static str,
    calls: u64,
    rows: u64,
    catch_up_rows: u64,
    prefill_rows: u64,
    seconds: f64,
}

/// How far the output may be from the target's own, in total variation.
#[derive(Serialize)]
struct LossRecord {
    /// Of one token at most.
    budget_per_token: f64,
    /// The sum over the tokens: its expectation bounds the distance of whole outputs.
    total_variation_spent: f64,
}

#[derive(Serialize)]
struct ComparisonRecord {
    /// Absent for samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    equal_to_plain: Option<bool>,
    /// Index of the first token that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_difference: Option<usize>,
    plain_wall_seconds: f64,
    plain_tokens_per_second: f64,
    speedup: f64,
    /// Of all rounds: tokens, and time that the processors spent on them, both ways. Absent where
    /// the system does not tell.
    #[serde(flatten)]
    cpu: Option<CpuRecord>,
    /// How often the prompt was asked both ways, if more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<usize>,
    /// 95% interval of the speedup, if there are enough rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    speedup_interval: Option<[f64; 2]>,
}

/// CPU time, summed over rounds.
#[derive(Serialize)]
struct CpuRecord {
    tokens_timed: usize,
    cpu_seconds: f64,
    plain_tokens_timed: usize,
    plain_cpu_seconds: f64,
    cpu_speedup: f64,
}

impl CpuRecord {
    fn new(rounds: &[Round]) -> Option<Self> {
        let (own, plain) = (
            Side::sum(rounds, Round::own),
            Side::sum(rounds, Round::plain),
        );
        Some(Self {
            tokens_timed: own.tokens,
            cpu_seconds: own.cpu?.as_secs_f64(),
            plain_tokens_timed: plain.tokens,
            plain_cpu_seconds: plain.cpu?.as_secs_f64(),
            cpu_speedup: cpu_speedup(rounds)?,
        })
    }
}

impl<'a> Record<'a> {
    pub(crate) fn new(
        question: &'a Question<'_>,
        generation: &'a GenerationOutput,
        comparison: Option<&Comparison>,
    ) -> Self {
        Self {
            turn: (question.input.turns() > 1).then_some(question.turn + 1),
            prompt: &question.prompt.text,
            text: generation.text.as_deref().unwrap_or_default(),
            token_ids: &generation.tokens,
            token_origins: generation.proposers.iter().map(|level| level.0).collect(),
            finish_reason: generation.finish.as_str(),
            ends_in_loop: show::ending(generation) == Ending::Loop,
            num_tokens: generation.tokens.len(),
            wall_seconds: generation.wall.as_secs_f64(),
            tokens_per_second: generation.tokens_per_second(),
            mean_acceptance_length: generation.mean_acceptance_length(),
            draft_acceptance_rate: generation.draft_acceptance_rate(),
            num_spec_steps: generation.steps.len(),
            num_draft_tokens: generation.num_draft_tokens(),
            num_accepted_draft_tokens: generation.num_accepted_draft_tokens(),
            acceptance_histogram: generation.acceptance_histogram(),
            per_step_accepted: generation.steps.iter().map(|step| step.accepted).collect(),
            per_step_drafted: generation.steps.iter().map(|step| step.drafted).collect(),
            models: models(generation),
            lossy: generation.loss.map(|loss| LossRecord {
                budget_per_token: loss.budget.get(),
                total_variation_spent: loss.spent,
            }),
            marked: marked(question, generation),
            comparison: comparison.map(|comparison| ComparisonRecord {
                equal_to_plain: comparison
                    .comparable
                    .then_some(comparison.first_difference.is_none()),
                first_difference: comparison.first_difference,
                plain_wall_seconds: comparison.plain.wall.as_secs_f64(),
                plain_tokens_per_second: comparison.plain.tokens_per_second(),
                speedup: speedup(&comparison.rounds),
                cpu: CpuRecord::new(&comparison.rounds),
                rounds: Some(comparison.rounds.len()).filter(|&rounds| rounds > 1),
                speedup_interval: interval(&comparison.rounds).map(|(low, high)| [low, high]),
            }),
        }
    }
}

/// The record as one object: the fields of the prompt's line first; the record's own take
/// precedence.
pub(crate) fn with_carried_fields(
    input: &Input,
    record: &Record<'_>,
) -> serde_json::Result<Map<String, Value>> {
    let mut fields = input.fields.clone();
    if let Value::Object(own) = serde_json::to_value(record)? {
        fields.extend(own);
    }
    Ok(fields)
}

fn marked(question: &Question<'_>, generation: &GenerationOutput) -> Option<MarkedRecord> {
    let known = question.input.solution()?;
    let solution = known.to_string();
    let mark = known.mark(generation.text.as_deref().unwrap_or_default());
    let correct = mark.is_right();
    let result = match mark {
        Mark::Right => Some(solution.clone()),
        Mark::Wrong { found } => Some(found),
        Mark::Missing => None,
    };
    Some(MarkedRecord {
        solution,
        result,
        correct,
    })
}

fn models(generation: &GenerationOutput) -> Vec<ModelRecord<'_>> {
    generation
        .models
        .iter()
        .map(|model| ModelRecord {
            name: &model.name,
            role: model.role.as_str(),
            calls: model.usage.calls,
            rows: model.usage.rows,
            catch_up_rows: model.usage.catch_up_rows,
            prefill_rows: model.usage.prefill_rows,
            seconds: model.usage.time.as_secs_f64(),
        })
        .collect()
}
