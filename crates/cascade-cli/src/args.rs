//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::bigram::BigramCommand;
use crate::ewif::EwifCommand;

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
    Run(RunArgs),
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
    /// Compute what drafting can gain, from acceptance rates and costs.
    ///
    /// Expected walltime improvement factors: how many times faster than plain decoding, if every token is accepted
    /// independently with a known rate. Nothing is measured.
    Ewif {
        #[command(subcommand)]
        command: EwifCommand,
    },
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

/// Without --prompt, --prompts or --dataset, three GSM8K test questions are answered.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Configuration of the cascade; `embedded:demo-t5` if not given.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A prompt, given to the model as it is.
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Prompts, one JSON object per line: {"prompt": …}. Other fields are carried through to --json.
    #[arg(long, value_name = "FILE.jsonl", group = "input")]
    pub(crate) prompts: Option<PathBuf>,

    /// A dataset, put into the configuration's prompt template.
    #[arg(long, value_name = "NAME", group = "input")]
    pub(crate) dataset: Option<DatasetName>,

    /// How many prompts to take.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// How many prompts to pass over first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,

    /// Tokens to generate at most, in place of the configuration's number.
    #[arg(long, value_name = "N")]
    pub(crate) max_new_tokens: Option<usize>,

    /// Decode plainly: the target alone, one token per forward.
    #[arg(long)]
    pub(crate) no_speculation: bool,

    /// Decode plainly as well, check that the output is equal, and print the ratio of speeds.
    #[arg(long, conflicts_with = "no_speculation")]
    pub(crate) compare: bool,

    /// Colour each token by the model that proposed it first.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,

    /// Print one JSON object per prompt and nothing else.
    #[arg(long)]
    pub(crate) json: bool,

    /// Where to compute, in place of the configuration's device: cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DatasetName {
    /// The 1,319 test questions of GSM8K, embedded.
    Gsm8k,
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
