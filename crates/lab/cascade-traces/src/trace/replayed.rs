//! A configuration replayed on a trace: with which options, and the figures as JSON, which have the
//! names of those of a run.

use cascade_config::Config;
use cascade_engine::{GenerationOutput, Options, Rule};
use serde_json::{Value, json};

use super::{FirstPicks, Record, Tallies, Tally, Trace, name_of_target};
use crate::{Error, Result, error};

/// The options of a replay: those of the configuration, which may not sample otherwise than the
/// recording did.
///
/// # Errors
/// Sampling of a greedy recording, by a rule other than `coupled`, or with other settings than the
/// recording's; with the name of the configuration.
pub fn replay_options(config: &Config, trace: &Trace) -> Result<Options> {
    let named = |error: Error| error.at(format!("{}: generation", config.label));
    let options = config.generation.options();
    if trace.header.sampling().is_none() && !options.decoding.is_greedy() {
        return Err(named(error::not_greedy()));
    }
    let options = trace.header.replay_options(options).map_err(named)?;
    if !options.decoding.is_greedy() && config.target.rule != Rule::Coupled {
        return Err(error::not_coupled(config.target.rule).at(config.label.clone()));
    }
    Ok(options)
}

/// What is valid in a replay but probably unintended.
pub fn replay_warnings(config: &Config, trace: &Trace) -> Vec<String> {
    let mut warnings = Vec::new();
    let (found, named) = (&trace.header.model, name_of_target(&config.target.source).0);
    if *found != named {
        warnings.push(format!(
            "the trace is of {found}, and the target of {} is {named}; the trace is used",
            config.label
        ));
    }
    let wanted = config.generation.max_new_tokens;
    let longer = trace
        .records
        .iter()
        .filter(|record| record.output.len() > wanted);
    match longer.count() {
        0 => {}
        longer => warnings.push(format!(
            "{longer} of {} records are longer than generation.max_new_tokens ({wanted}); they are \
             replayed up to that length",
            trace.records.len()
        )),
    }
    if config.generation.ignore_eos && !trace.header.eos.is_empty() {
        warnings.push(
            "generation.ignore_eos: recordings end at EOS, so the replay does too".to_owned(),
        );
    }
    if config.generation.stop.is_some() {
        warnings.push(
            "stop sequences are ignored in a replay; records end where recording ended".to_owned(),
        );
    }
    warnings
}

/// A replayed record, as that of a run without what a replay cannot know.
pub fn replayed_json(record: &Record, generation: &GenerationOutput) -> Value {
    let mut tally = Tally::default();
    tally.add(generation);
    let whole = generation.tokens.len() == record.output.len();
    let finish = if whole {
        record.finish.as_str()
    } else {
        "length"
    };
    json!({
        "replayed": true,
        "id": record.id,
        "category": record.category,
        "turn": record.turn,
        "token_ids": generation.tokens,
        "token_origins": generation.proposers.iter().map(|level| level.0).collect::<Vec<_>>(),
        "finish_reason": finish,
        "num_tokens": tally.tokens,
        "mean_acceptance_length": tally.mean_acceptance_length(),
        "draft_acceptance_rate": tally.draft_acceptance_rate(),
        "num_spec_steps": tally.steps,
        "num_draft_tokens": tally.drafted,
        "num_accepted_draft_tokens": tally.accepted,
        "acceptance_histogram": generation.acceptance_histogram(),
        "per_step_accepted": generation.steps.iter().map(|step| step.accepted).collect::<Vec<_>>(),
        "per_step_drafted": generation.steps.iter().map(|step| step.drafted).collect::<Vec<_>>(),
        "models": tally.calls,
    })
}

/// The sums of a replay, of each category and of all records.
pub fn totals_json(config: &Config, trace: &Trace, tallies: &Tallies, picks: &FirstPicks) -> Value {
    let categories = tallies
        .categories
        .iter()
        .map(|(name, tally)| (name.clone(), sums(tally)));
    json!({
        "replayed": trace.label,
        "provenance": trace.header.provenance,
        "target": trace.header.model,
        "config": config.label,
        "categories": categories.collect::<Value>(),
        "total": sums(&tallies.total),
        "expected_first_token": picks.expected().map(|expected| json!({
            "drafts": picks.drafts,
            "kept": picks.kept,
            "at_least": expected.low,
            "at_most": expected.high,
        })),
    })
}

fn sums(tally: &Tally) -> Value {
    json!({
        "records": tally.records,
        "num_tokens": tally.tokens,
        "mean_acceptance_length": tally.mean_acceptance_length(),
        "draft_acceptance_rate": tally.draft_acceptance_rate(),
        "num_spec_steps": tally.steps,
        "num_draft_tokens": tally.drafted,
        "num_accepted_draft_tokens": tally.accepted,
        "models": tally.calls,
    })
}
