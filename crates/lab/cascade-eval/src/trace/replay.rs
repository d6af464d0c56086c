//! One record through a cascade.

use cascade_engine::{Cascade, GenerationOutput, Options, StepReport};

use super::{Error, Record, Result};

/// How many tokens may be generated in a replay when `max_new_tokens` are asked for: no more than
/// were recorded, unless the text was over there. (The number limits drafts near the end, too, so
/// where the text was over it must be the number of the real run, and not the length of the
/// output.)
pub fn limit(record: &Record, max_new_tokens: usize) -> usize {
    match record.finish {
        super::Finish::Eos => max_new_tokens,
        _ => max_new_tokens.min(record.output.len()),
    }
}

/// Replays a record: lets a cascade around a [`TraceScorer`](super::TraceScorer) answer its prompt,
/// for as many tokens as `options` asks for and the record [allows](limit). The answer is checked
/// against the record. Stop sequences are not looked for, since a record ends where its text ended.
///
/// # Errors
/// [`Error::NotGreedy`] if `options` samples; [`Error::Diverged`] if the answer is not what was
/// recorded; whatever the drafters fail with.
pub fn replay(
    cascade: &mut Cascade,
    record: &Record,
    options: &Options,
) -> Result<GenerationOutput> {
    replay_with(cascade, record, options, |_| {})
}

/// [`replay`], with a receiver of steps.
pub(super) fn replay_with(
    cascade: &mut Cascade,
    record: &Record,
    options: &Options,
    mut on_step: impl FnMut(&StepReport),
) -> Result<GenerationOutput> {
    if !options.decoding.is_greedy() {
        return Err(Error::NotGreedy);
    }
    let options = options
        .clone()
        .with_max_new_tokens(limit(record, options.max_new_tokens))
        .with_stop(None);
    let mut generation = cascade.start_tokens(&record.prompt(), &options)?;
    while let Some(report) = generation.step()? {
        on_step(&report);
    }
    let generation = generation.into_output();
    let wanted = record.output.len().min(options.max_new_tokens);
    let (found, recorded) = (&generation.tokens, &record.output[..wanted]);
    if found == recorded {
        return Ok(generation);
    }
    let at = found
        .iter()
        .zip(recorded)
        .take_while(|(a, b)| a == b)
        .count();
    Err(Error::Diverged {
        id: record.id.clone(),
        at,
        found: found.get(at).copied(),
        recorded: recorded.get(at).copied(),
    })
}
