//! Replay of one record by a cascade.

use cascade_engine::{Cascade, GenerationOutput, Options, StepReport};

use super::Record;
use crate::{Error, ErrorKind, Result, error};

/// How many tokens a replay may generate if `max_new_tokens` are requested: no more than were
/// recorded, unless the recorded text is complete. (The limit also affects the length of drafts
/// near the end, so for a complete text it must be the limit of the real run, not the length of the
/// output.)
pub fn limit(record: &Record, max_new_tokens: usize) -> usize {
    match record.finish {
        super::Finish::Eos => max_new_tokens,
        _ => max_new_tokens.min(record.output.len()),
    }
}

/// Replays a record: lets a cascade whose target is a [`TraceScorer`](super::TraceScorer) decode
/// its prompt, for as many tokens as `options` requests and the record [allows](limit). The output
/// is checked against the record. Stop sequences are not searched for, since a record ends where
/// its text ended. A sampled record is replayed with its own seed; `options` should be those of
/// [`Header::replay_options`](super::Header::replay_options).
///
/// # Errors
/// [`ErrorKind::Sampling`] if only one of `options` and the record samples;
/// [`ErrorKind::Diverged`] if the output differs from the record; errors of the drafters.
pub fn replay(
    cascade: &mut Cascade,
    record: &Record,
    options: &Options,
) -> Result<GenerationOutput> {
    replay_with(cascade, record, options, |_| {})
}

/// [`replay`] with a callback for steps.
///
/// # Errors
/// As [`replay`].
pub fn replay_with(
    cascade: &mut Cascade,
    record: &Record,
    options: &Options,
    mut on_step: impl FnMut(&StepReport),
) -> Result<GenerationOutput> {
    let options = options
        .clone()
        .with_seed(seed(record, options)?)
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
    let message = format!(
        "the replay of record {} diverged from the record at token {at} (found {:?}, recorded \
         {:?}); were the end tokens or the prompt changed?",
        record.id,
        found.get(at),
        recorded.get(at)
    );
    Err(Error::new(ErrorKind::Diverged, message))
}

/// The seed of a replay: the record's own, if it was sampled.
fn seed(record: &Record, options: &Options) -> Result<u64> {
    match (record.seed, options.decoding.is_greedy()) {
        (None, false) => Err(error::not_greedy()),
        (Some(seed), true) => Err(error::sampled(
            format_args!("record {}", record.id),
            format_args!("seed {seed}"),
        )),
        (seed, _) => Ok(seed.unwrap_or(options.seed)),
    }
}
