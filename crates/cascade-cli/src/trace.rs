//! `cascade trace`.

mod import;
mod record;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use crate::args::JobArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Record what a configuration's target says, decoding plainly and greedily.
    ///
    /// For each prompt the file gets a line with the tokens of the prompt, the target's tokens, and by how much the best logit
    /// was above the second best. The drafters of the configuration are not loaded. docs/traces.md tells the format.
    Record(RecordArgs),
    /// Make a trace of recorded texts.
    Import(ImportArgs),
    /// Show what a trace holds.
    Show {
        /// The trace, plain or compressed by gzip.
        file: PathBuf,
        /// Print one JSON object and nothing else.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Where the trace goes.
    #[arg(long, short, value_name = "FILE.jsonl")]
    output: PathBuf,

    /// Go on after the last whole record of the output, if there is one; the file becomes the same as if nothing had happened.
    #[arg(long)]
    resume: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What the texts are.
    #[arg(long, value_name = "FORMAT", default_value = "spec-bench")]
    format: Format,

    /// The questions: Spec-Bench's or MT-bench's question.jsonl.
    #[arg(long, value_name = "FILE")]
    questions: PathBuf,

    /// The recorded answers.
    #[arg(long, value_name = "FILE.jsonl")]
    answers: PathBuf,

    /// The target's tokenizer: a tokenizer.json, a folder or a model of the hub that has one, or `embedded:NAME`.
    #[arg(long, value_name = "TOKENIZER")]
    tokenizer: String,

    /// What the target is, such as lmsys/vicuna-7b-v1.3; what the answers call it if not given.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Commit or branch of the model.
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,

    /// What the target computed in.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,

    /// Columns of the target's logits, if they are more than the tokenizer has tokens.
    #[arg(long, value_name = "N")]
    vocab_size: Option<usize>,

    /// Where the recording stopped: answers of so many tokens have no end of their own.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_new_tokens: usize,

    /// Where the trace goes.
    #[arg(long, short, value_name = "FILE.jsonl")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Answer files of Spec-Bench or MT-bench in Vicuna's conversation: `choices[0].turns`, joined with the questions by
    /// `question_id`.
    SpecBench,
}

pub(crate) fn run(command: TraceCommand) -> Result<ExitCode> {
    match command {
        TraceCommand::Record(args) => record::record(&args),
        TraceCommand::Import(args) => import::import(&args),
        TraceCommand::Show { file, json } => show::show(&file, json),
    }?;
    Ok(ExitCode::SUCCESS)
}
