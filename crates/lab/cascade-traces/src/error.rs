//! Errors of recordings: their constructors, each with what to do about it.

use std::fmt;

use cascade_eval::{Error, ErrorKind};

/// A line, from 1, that is not valid in its file.
pub fn line(label: &str, line: usize, problem: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Trace, format!("{label}:{line}: {problem}"))
}

/// A file or recording that is not a trace.
pub(crate) fn not_a_trace(label: &str, reason: impl fmt::Display) -> Error {
    let problem = format!(
        "not a trace: {reason}; the first line of a trace is a JSON object with \"format\": \
         \"cascade-trace\""
    );
    Error::located(ErrorKind::Trace, label, problem)
}

/// A trace without records.
pub fn no_records(label: &str) -> Error {
    Error::located(ErrorKind::Trace, label, "there are no records in it")
}

/// Records, or something that was asked for, from which nothing can be learned.
pub fn unusable(label: impl fmt::Display, problem: impl fmt::Display) -> Error {
    Error::located(ErrorKind::Unusable, label, problem)
}

/// A greedy recording that is to be replayed by sampling.
pub fn not_greedy() -> Error {
    Error::new(
        ErrorKind::Sampling,
        "the recording is greedy, so what it would have sampled is unknown; set the \
         temperature to 0",
    )
}

/// Samples by a rule whose text depends on what is drafted.
pub fn not_coupled(rule: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::Sampling,
        format!(
            "samples by the rule `{rule}` cannot be replayed, since they depend on what is \
             drafted; use `coupled`"
        ),
    )
}

/// A recording of which record `index`, from 1, is to be resumed with another prompt.
pub fn other_prompt(index: usize, found: &str, expected: &str) -> Error {
    Error::new(
        ErrorKind::OtherRecording,
        format!(
            "record {index} of the trace answers another prompt (id {found} instead of \
             {expected}, or another text); resume with the dataset, selection and template of \
             the original recording"
        ),
    )
}

/// Top probabilities of a greedy recording.
pub fn no_top() -> Error {
    Error::new(
        ErrorKind::Sampling,
        "top probabilities are those that samples are drawn from, and greedy outputs are not \
         drawn; also give a temperature",
    )
}

/// A sampled recording where a greedy one is needed.
pub fn sampled(label: impl fmt::Display, sampling: impl fmt::Display) -> Error {
    Error::new(
        ErrorKind::Sampling,
        format!(
            "{label}: the outputs are samples ({sampling}), and greedy ones are needed here; \
             record at temperature 0"
        ),
    )
}

/// A model with which the outputs of a trace have nothing to do.
pub fn other_family(model: impl fmt::Display, difference: impl fmt::Display) -> Error {
    let message = format!("{model} {difference}: give a model of its family");
    Error::new(ErrorKind::OtherModel, message)
}
