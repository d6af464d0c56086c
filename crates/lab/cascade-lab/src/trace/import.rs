//! `cascade-lab trace import`.

use std::collections::HashMap;
use std::io::Write;

use anyhow::{Context, Result};
use cascade_core::Architecture;
use cascade_core::fs::{Existing, Output};
use cascade_core::{Fingerprint, TokenId};
use cascade_engine::Options;
use cascade_eval::{Dataset, PromptTemplate, Sample, Selection};
use cascade_models::Tokenizer;
use cascade_traces::trace::spec_bench::{self, Answers, Import, LARGEST_ANSWERS};
use cascade_traces::trace::{Header, Provenance, Record, Trace, spec_decode_bench};

use super::{Format, ImportArgs};
use crate::terminal::grouped;
use crate::tokenizer;
use crate::{outputs, terminal};

/// End-of-answer token of Vicuna's conversation format.
const EOS: &str = "</s>";

/// What the vocabulary of ids is called whose tokenizer nobody has named.
const UNKNOWN: &str = "unknown";

pub(super) fn import(args: &ImportArgs) -> Result<()> {
    let output = output(args)?;
    let label = args.answers.display().to_string();
    let answers = cascade_core::fs::read_text(&args.answers, LARGEST_ANSWERS)
        .with_context(|| label.clone())?;
    let trace = match args.format {
        Format::SpecBench => of_texts(args, &label, &answers),
        Format::SpecDecodeBench => of_ids(args, &label, &answers),
    }?;
    trace.write(&output)?;
    say(args, &trace)
}

/// The trace of answers that are token ids.
fn of_ids(args: &ImportArgs, label: &str, answers: &str) -> Result<Trace> {
    let (records, eos) = spec_decode_bench::records(label, answers)?;
    let tokenizer = args.tokenizer.as_deref().map(tokenizer::load).transpose()?;
    let fingerprint = tokenizer
        .as_ref()
        .map_or_else(|| Fingerprint::from_stored(UNKNOWN), Tokenizer::fingerprint);
    let ids = records
        .iter()
        .flat_map(|of| of.context.iter().chain(&of.output));
    let greatest = ids.max().map_or(0, |&id| id as usize);
    let tokens = tokenizer.map_or(greatest + 1, |tokenizer| tokenizer.id_bound());
    let mut header = header(args, (&fingerprint, tokens), eos, None, &records);
    let name = args.answers.file_stem();
    header.dataset = name.map(|name| name.to_string_lossy().into_owned());
    Ok(spec_decode_bench::trace(label, header, records)?)
}

/// The trace of answers that are texts.
fn of_texts(args: &ImportArgs, label: &str, answers: &str) -> Result<Trace> {
    let answers = Answers::parse(label, answers)?;
    let questions = args.questions.as_ref();
    let questions = questions.context("texts need the --questions that they answer")?;
    let by_id = Dataset::SpecBench.read(questions, Selection::ALL)?;
    let tokenizer = args.tokenizer.as_deref();
    let tokenizer = tokenizer::load(tokenizer.context("texts need the target's --tokenizer")?)?;
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
    let places = (label, questions.display().to_string());
    let records = records(&import, &by_id, &answers, (places.0, &places.1))?;
    let named = answers.first().and_then(|answer| answer.model.clone());
    let vocabulary = (&tokenizer.fingerprint(), tokenizer.id_bound());
    let mut header = header(args, vocabulary, vec![eos], named, &records);
    header.dataset = Some(dataset(&records).name().into_owned());
    header.template = Some(PromptTemplate::Vicuna.name().to_owned());
    Ok(spec_bench::trace(label, header, records, &answers)?)
}

fn output(args: &ImportArgs) -> Result<Output> {
    let inputs = std::iter::once(args.answers.clone())
        .chain(args.questions.clone())
        .chain(
            args.tokenizer
                .as_deref()
                .map(tokenizer::files)
                .into_iter()
                .flatten(),
        );
    let existing = Existing::replaced_if(args.force);
    Ok(outputs::check(&args.output, existing, inputs)?)
}

/// The records of all answers, in their order; the names are those of the files of answers and of
/// questions.
fn records(
    import: &Import<'_>,
    questions: &[Sample],
    answers: &[Answers],
    (label, of_questions): (&str, &str),
) -> Result<Vec<Record>> {
    let by_id: HashMap<&str, &Sample> = questions.iter().map(|q| (q.id.as_str(), q)).collect();
    let mut records = Vec::new();
    for answer in answers {
        let question = by_id.get(answer.question.as_str());
        let question = question.ok_or_else(|| answer.without_question(label, of_questions))?;
        records.extend(import.records(label, question, answer)?);
    }
    Ok(records)
}

fn header(
    args: &ImportArgs,
    (vocabulary, tokens): (&Fingerprint, usize),
    eos: Vec<TokenId>,
    named: Option<String>,
    records: &[Record],
) -> Header {
    let model = args.model.clone().or(named);
    let model = model.unwrap_or_else(|| UNKNOWN.to_owned());
    let vocab_size = args.vocab_size.unwrap_or(tokens);
    // Retokenized, a text may have one token more than the target generated.
    let longest = records.iter().map(|record| record.output.len()).max();
    let options =
        Options::default().with_max_new_tokens(args.max_new_tokens.max(longest.unwrap_or(0)));
    let architecture = Architecture::DecoderOnly;
    let mut header = Header::measured(model, architecture, vocabulary, vocab_size, &options);
    header.provenance = Provenance::Imported;
    header.revision.clone_from(&args.revision);
    header.dtype.clone_from(&args.dtype);
    header.eos = eos;
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
