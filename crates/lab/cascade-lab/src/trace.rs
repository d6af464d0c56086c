//! `cascade-lab trace`: records and imports a target's outputs.

mod import;
mod record;
mod score;
mod show;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use crate::args::{JobArgs, batch_size};
use crate::exit::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Record the outputs of a configuration's target, by plain decoding.
    ///
    /// Writes one line per prompt: the tokens of the prompt, the target's tokens, and for each the
    /// gap between its logit and the runner-up. With --temperature, samples are recorded with their
    /// seeds, those of `cascade run`. Drafters are not loaded, and options of drafting change
    /// nothing. Format: docs/traces.md.
    Record(Box<RecordArgs>),
    /// Make a trace from what other programs have recorded.
    Import(ImportArgs),
    /// Say how well a model predicts a trace: perplexity, and how many tokens are its own choice.
    ///
    /// Each recorded token is predicted after the prompt and the recorded tokens before it. So it
    /// shows what a data type costs, or how near a drafter is to the recorded target.
    Score(score::ScoreArgs),
    /// Describe a trace.
    Show {
        /// The trace, plain or gzip.
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

    /// The trace to write.
    #[arg(long, short, value_name = "FILE.jsonl")]
    output: PathBuf,

    /// Samples: also record the N most probable tokens of each distribution that is drawn from, so
    /// that `trace score` and `replay` know how often drafts are kept.
    #[arg(long, value_name = "N", value_parser = crate::at_most(1 << 20))]
    top_probabilities: Option<usize>,

    /// Generate N outputs at a time: on a CPU their forwards are shared, on a GPU they take turns.
    /// The file is that of 1 [default: as many as there is memory for, up to 16; 1 on a GPU].
    #[arg(long, value_name = "N", value_parser = batch_size)]
    batch: Option<NonZeroUsize>,

    /// Record anew if the file exists, replacing it.
    #[arg(long, conflicts_with = "resume")]
    force: bool,

    /// Resume after the last complete record; the file equals that of an uninterrupted recording.
    #[arg(long)]
    resume: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Format of the recording.
    #[arg(long, value_name = "FORMAT", default_value = "spec-bench")]
    format: Format,

    /// The questions of texts: Spec-Bench's or MT-bench's question.jsonl.
    #[arg(long, value_name = "FILE")]
    questions: Option<PathBuf>,

    /// The recorded answers.
    #[arg(long, value_name = "FILE.jsonl")]
    answers: PathBuf,

    /// The target's tokenizer: a tokenizer.json, a folder or hub model that has one, or
    /// `embedded:NAME`. Texts need it; of token ids, it is what drafters are compared with.
    #[arg(long, value_name = "TOKENIZER")]
    tokenizer: Option<String>,

    /// Name of the target, such as lmsys/vicuna-7b-v1.3 [default: the name in the answers].
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Commit or branch of the model.
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,

    /// Data type the target computed in.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,

    /// Columns of the target's logits, if more than the tokenizer has tokens, or without one, than
    /// ids were recorded.
    #[arg(long, value_name = "N")]
    vocab_size: Option<usize>,

    /// Token limit of the recording: texts of this length are taken to be cut off.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_new_tokens: usize,

    /// The trace to write.
    #[arg(long, short, value_name = "FILE.jsonl")]
    output: PathBuf,

    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Answer files of Spec-Bench or MT-bench in Vicuna's conversation format: `choices[0].turns`,
    /// joined with the questions by `question_id`.
    SpecBench,
    /// The simulator's files of SpecDecode-Bench: token ids, and for each place how many tokens a
    /// forward yields with the drafters that were recorded, which `replay` prints beside ours.
    SpecDecodeBench,
}

pub(crate) fn run(command: TraceCommand) -> Result<ExitCode> {
    match command {
        TraceCommand::Record(args) => record::record(&args),
        TraceCommand::Import(args) => import::import(&args),
        TraceCommand::Score(args) => score::score(&args),
        TraceCommand::Show { file, json } => show::show(&file, json),
    }?;
    Ok(ExitCode::SUCCESS)
}
