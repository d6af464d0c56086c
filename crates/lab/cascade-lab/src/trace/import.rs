//! `cascade-lab trace import`.

use std::collections::HashMap;
use std::io::Write;

use anyhow::{Context, Result};
use cascade_core::Architecture;
use cascade_core::fs::{Existing, Output};
use cascade_engine::Options;
use cascade_eval::{Dataset, PromptTemplate, Sample, Selection};
use cascade_models::Tokenizer;
use cascade_traces::trace::spec_bench::{self, Answers, Import, LARGEST_ANSWERS};
use cascade_traces::trace::{Header, Provenance, Record, Trace};

use super::{Format, ImportArgs};
use crate::terminal::grouped;
use crate::tokenizer;
use crate::{outputs, terminal};

/// End-of-answer token of Vicuna's conversation format.
const EOS: &str = "</s>";

pub(super) fn import(args: &ImportArgs) -> Result<()> {
    let Format::SpecBench = args.format;
    let output = output(args)?;
    let label = args.answers.display().to_string();
    let answers = cascade_core::fs::read_text(&args.answers, LARGEST_ANSWERS)
        .with_context(|| label.clone())?;
    let answers = Answers::parse(&label, &answers)?;
    let questions = Dataset::SpecBench.read(&args.questions, Selection::ALL)?;
    let tokenizer = tokenizer::load(&args.tokenizer)?;
    let eos = tokenizer.token_to_id(EOS).with_context(|| {
        format!(
            "{} has no token {EOS}, which ends Vicuna's answers; give the target's tokenizer",
            tokenizer.file()
        )
    })?;
    let import = Import {
        codec: &tokenizer,
        eos,
        max_new_tokens: args.max_new_tokens,
    };
    let records = records(args, &import, &questions, &answers)?;
    let header = header(args, &tokenizer, eos, &answers, &records);
    let trace = spec_bench::trace(&label, header, records, &answers)?;
    trace.write(&output)?;
    say(args, &trace)
}

fn output(args: &ImportArgs) -> Result<Output> {
    let inputs = [args.answers.clone(), args.questions.clone()]
        .into_iter()
        .chain(tokenizer::files(&args.tokenizer));
    let existing = Existing::replaced_if(args.force);
    Ok(outputs::check(&args.output, existing, inputs)?)
}

/// The records of all answers, in their order.
fn records(
    args: &ImportArgs,
    import: &Import<'_>,
    questions: &[Sample],
    answers: &[Answers],
) -> Result<Vec<Record>> {
    let by_id: HashMap<&str, &Sample> = questions.iter().map(|q| (q.id.as_str(), q)).collect();
    let mut records = Vec::new();
    let label = args.answers.display().to_string();
    for answer in answers {
        let question = by_id.get(answer.question.as_str()).ok_or_else(|| {
            answer.without_question(&label, &args.questions.display().to_string())
        })?;
        records.extend(import.records(&label, question, answer)?);
    }
    Ok(records)
}

fn header(
    args: &ImportArgs,
    tokenizer: &Tokenizer,
    eos: u32,
    answers: &[Answers],
    records: &[Record],
) -> Header {
    let named = answers.first().and_then(|answer| answer.model.clone());
    let model = args
        .model
        .clone()
        .or(named)
        .unwrap_or_else(|| "unknown".to_owned());
    let vocab_size = args.vocab_size.unwrap_or(tokenizer.id_bound());
    // Retokenized, a text may have one token more than the target generated.
    let longest = records.iter().map(|record| record.output.len()).max();
    let options =
        Options::default().with_max_new_tokens(args.max_new_tokens.max(longest.unwrap_or(0)));
    let architecture = Architecture::DecoderOnly;
    let fingerprint = tokenizer.fingerprint();
    let mut header = Header::measured(model, architecture, &fingerprint, vocab_size, &options);
    header.provenance = Provenance::Imported;
    header.revision.clone_from(&args.revision);
    header.dtype.clone_from(&args.dtype);
    header.eos = vec![eos];
    header.dataset = Some(dataset(records).name().into_owned());
    header.template = Some(PromptTemplate::Vicuna.name().to_owned());
    header
}

/// Categories of MT-bench. Spec-Bench has its questions, and those of five more.
const MT_BENCH: [&str; 8] = [
    "writing",
    "roleplay",
    "reasoning",
    "math",
    "coding",
    "extraction",
    "stem",
    "humanities",
];

/// The one that the questions are of: both come in one form.
fn dataset(records: &[Record]) -> Dataset {
    let of_mt_bench = |record: &Record| {
        let category = record.category.as_deref();
        category.is_some_and(|category| MT_BENCH.contains(&category))
    };
    if records.iter().all(of_mt_bench) {
        Dataset::MtBench
    } else {
        Dataset::SpecBench
    }
}

fn say(args: &ImportArgs, trace: &Trace) -> Result<()> {
    let tokens: usize = trace.records.iter().map(|record| record.output.len()).sum();
    writeln!(
        terminal::stdout(),
        "{}: {} records, {} output tokens",
        args.output.display(),
        grouped(trace.records.len() as u64),
        grouped(tokens as u64)
    )?;
    Ok(())
}
