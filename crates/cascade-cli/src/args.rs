//! The command line.

use std::path::PathBuf;

use cascade_config::DataSource;
use cascade_eval::{Dataset, PromptTemplate};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::bench::BenchCommand;
use crate::bigram::BigramCommand;
use crate::ewif::EwifCommand;
use crate::replay::ReplayArgs;
use crate::reproduce::ReproduceArgs;
use crate::trace::TraceCommand;
use crate::tune::TuneArgs;
use crate::verify::VerifyArgs;

/// Faster language model generation with unchanged answers, by cascade speculative drafting.
#[derive(Debug, Parser)]
#[command(name = "cascade", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate text with a cascade.
    ///
    /// Without --prompt, --prompts or --dataset, three GSM8K test questions are answered.
    ///
    /// Samples of several turns (mt-bench, spec-bench, lists in the field of prompts) are held as conversations if the prompt
    /// template has a place for them, as vicuna has: the prompt of each turn contains the turns before it with the model's own
    /// answers, without white space around them, and each turn has a record of its own. Other templates ask the first turn.
    Run(RunArgs),
    /// Show that a configuration is lossless: that it says what its target says.
    ///
    /// Greedy, every emitted token is re-scored by the plain target. Sampled (--temperature above 0), many short generations
    /// are compared with the target's enumerated distribution. Exit status: 0 if lossless, 1 if not, 2 for an error.
    Verify(VerifyArgs),
    /// Search K and lenience for a configuration's drafters, by predicted cost on recorded texts of its target.
    Tune(TuneArgs),
    /// Look at configurations.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Count what follows what in text, and look at the tables.
    Bigram {
        #[command(subcommand)]
        command: BigramCommand,
    },
    /// Record what a target says, and look at recordings.
    Trace {
        #[command(subcommand)]
        command: TraceCommand,
    },
    /// Run a cascade with a recorded target in place of the real one.
    ///
    /// The drafters of the configuration are loaded, its target is not. Tokens, steps and calls are those of a run with the
    /// real target; times are not, and are not shown.
    Replay(ReplayArgs),
    /// Measure what forwards cost on this machine.
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Compute what drafting can gain, from acceptance rates and costs.
    ///
    /// Expected walltime improvement factors: how many times faster than plain decoding, if every token is accepted
    /// independently with a known rate. Nothing is measured.
    Ewif {
        #[command(subcommand)]
        command: EwifCommand,
    },
    /// Make the papers' tables and figures again.
    Reproduce(ReproduceArgs),
    /// Show devices, threads, cache folders and versions.
    Doctor,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration and show the cascade that it describes.
    Check {
        /// The configuration.
        file: PathBuf,
        /// Load the models too (and download them if need be), and check that they fit each other.
        #[arg(long)]
        load: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,

    /// Decode plainly: the target alone, one token per forward.
    #[arg(long)]
    pub(crate) no_speculation: bool,

    /// Decode plainly as well, check that the output is equal, and print the ratio of speeds. Samples are not compared token
    /// by token: two ways to draw from one distribution.
    #[arg(long, conflicts_with = "no_speculation")]
    pub(crate) compare: bool,

    /// Colour each token by the model that proposed it first.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,

    /// Print one JSON object per prompt and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What generates, from what, and how: the same for every command that generates.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// Configuration of the cascade; `embedded:demo-t5` if not given.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,

    /// Where to compute, in place of the configuration's device: cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
}

/// Where prompts come from.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// A prompt, given to the model as it is.
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Prompts, one JSON object per line: {"prompt": …}. Other fields are carried through to --json.
    #[arg(long, value_name = "FILE.jsonl", group = "input")]
    pub(crate) prompts: Option<PathBuf>,

    /// A dataset, put into a prompt template: gsm8k, mmlu, humaneval, mbpp, alpaca, mt-bench, spec-bench, cnn-dailymail,
    /// prompts, or prompts:FIELD for the prompts in any field. All but gsm8k, whose 1,319 test questions are embedded, need
    /// --data.
    #[arg(long, value_name = "NAME", group = "input")]
    pub(crate) dataset: Option<Dataset>,

    /// The dataset's file: JSON lines, a JSON array or Parquet, plain or gzip, or CSV for mmlu; or a folder of such files. Or
    /// the Hugging Face hub: `hub` for the dataset's own repository and test split, `hub@REVISION`, or
    /// `hub:org/name[@REVISION][/SPLIT]`.
    #[arg(long, value_name = "FILE|hub", requires = "dataset")]
    pub(crate) data: Option<DataSource>,

    /// Prompt template for the dataset, in place of the configuration's.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["prompt", "prompts"])]
    pub(crate) template: Option<PromptTemplate>,

    /// How many prompts to take.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// How many prompts to pass over first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,

    /// Of these, take N at random, in their order.
    #[arg(long, value_name = "N", conflicts_with = "prompt")]
    pub(crate) sample: Option<usize>,

    /// What the random sample depends on, the same on every machine; 0 if not given.
    #[arg(long, value_name = "S", requires = "sample")]
    pub(crate) sample_seed: Option<u64>,
}

impl InputArgs {
    /// Whether nothing is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.prompt.is_none() && self.prompts.is_none() && self.dataset.is_none()
    }
}

/// How tokens are chosen, and how many.
#[derive(Debug, Args)]
pub(crate) struct DecodingArgs {
    /// Tokens to generate at most, in place of the configuration's number.
    #[arg(long, value_name = "N")]
    pub(crate) max_new_tokens: Option<usize>,

    /// Sample at this temperature; 0 is greedy decoding.
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f32>,

    /// Sample from the K most probable tokens only.
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,

    /// Sample from the fewest most probable tokens whose probabilities sum to P.
    #[arg(long, value_name = "P")]
    pub(crate) top_p: Option<f32>,

    /// Sample from tokens with at least P times the probability of the most probable one.
    #[arg(long, value_name = "P")]
    pub(crate) min_p: Option<f32>,

    /// Seed of the samples: the same seed gives the same output. Prompt i uses seed + i.
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// If standard output is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
