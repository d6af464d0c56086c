//! The machine-readable record of a generation; field names follow vLLM where it has them.

use cascade_engine::GenerationOutput;
use cascade_eval::Ending;
use cascade_eval::Mark;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::comparison::{Comparison, Round};
use crate::inputs::{Input, Question};
use crate::show;

#[derive(Serialize)]
pub(crate) struct Record<'a> {
    /// Turn of the conversation, from 1, if it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<usize>,
    prompt: &'a str,
    #[serde(flatten)]
    output: &'a GenerationOutput,
    /// Whether the end of the answer repeats itself: told behind why it ended.
    #[serde(skip)]
    ends_in_loop: bool,
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
    /// Totals of all rounds: tokens, and time that the processors spent on them, both ways. Absent
    /// where the system does not tell.
    #[serde(flatten)]
    cpu: Option<CpuRecord>,
    /// Each round, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<Vec<Round>>,
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
        let sum = Round::sum(rounds);
        Some(Self {
            tokens_timed: sum.own.tokens,
            cpu_seconds: sum.own.cpu?.as_secs_f64(),
            plain_tokens_timed: sum.plain.tokens,
            plain_cpu_seconds: sum.plain.cpu?.as_secs_f64(),
            cpu_speedup: sum.cpu_speedup()?,
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
            output: generation,
            ends_in_loop: show::ending(generation) == Ending::Loop,
            marked: marked(question, generation),
            comparison: comparison.map(|comparison| ComparisonRecord {
                equal_to_plain: comparison
                    .comparable
                    .then_some(comparison.first_difference.is_none()),
                first_difference: comparison.first_difference,
                plain_wall_seconds: comparison.plain.wall.as_secs_f64(),
                plain_tokens_per_second: comparison.plain.tokens_per_second(),
                speedup: Round::sum(&comparison.rounds).speedup(),
                cpu: CpuRecord::new(&comparison.rounds),
                rounds: Some(comparison.rounds.clone()).filter(|rounds| rounds.len() > 1),
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
    if let Value::Object(mut own) = serde_json::to_value(record)? {
        let counts = own.keys().position(|key| key == "num_tokens");
        let place = counts.unwrap_or(own.len());
        own.shift_insert(place, "ends_in_loop".into(), record.ends_in_loop.into());
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
