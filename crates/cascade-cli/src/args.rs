//! Arguments of every command that generates: configuration, prompts, decoding, device.

use std::path::PathBuf;

use cascade_config::DeviceSpec;
use cascade_data::{DataSource, Dataset, PromptTemplate};
use clap::Args;

/// What to generate with, from what, and how.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// Configuration of the cascade [default: embedded:demo-t5].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) decoding: DecodingArgs,

    /// Device of all models, overriding the configuration: auto, cpu or cuda:N. auto is the first
    /// GPU if it can be used, else the CPU.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceSpec>,
}

/// Where prompts come from.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// A single prompt, passed to the model verbatim.
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,

    /// Prompts, one JSON object per line: {"prompt": …}. Other fields are copied to --json output.
    #[arg(long, value_name = "FILE.jsonl", group = "input")]
    pub(crate) prompts: Option<PathBuf>,

    /// A dataset, formatted by a prompt template: gsm8k, mmlu, humaneval, mbpp, alpaca, mt-bench,
    /// spec-bench, cnn-dailymail, prompts, or prompts:FIELD to read prompts from any field. All but
    /// gsm8k, whose 1,319 test questions are embedded, need --data.
    #[arg(long, value_name = "NAME", group = "input")]
    pub(crate) dataset: Option<Dataset>,

    /// The dataset's file: JSON lines, a JSON array or Parquet, plain or gzip, or CSV for mmlu; or
    /// a folder of such files. Or the Hugging Face hub: `hub` for the dataset's own repository and
    /// test split, `hub@REVISION`, or `hub:org/name[@REVISION][/SPLIT]`.
    #[arg(long, value_name = "FILE|hub", requires = "dataset")]
    pub(crate) data: Option<DataSource>,

    /// Prompt template for the dataset, overriding the configuration.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["prompt", "prompts"])]
    pub(crate) template: Option<PromptTemplate>,

    /// Maximum number of prompts.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Number of prompts to skip first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,

    /// Take a random sample of N of the selected prompts, in dataset order.
    #[arg(long, value_name = "N", conflicts_with = "prompt")]
    pub(crate) sample: Option<usize>,

    /// Seed of the random sample; the same on every machine [default: 0].
    #[arg(long, value_name = "S", requires = "sample")]
    pub(crate) sample_seed: Option<u64>,
}

impl InputArgs {
    /// Whether no input was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.prompt.is_none() && self.prompts.is_none() && self.dataset.is_none()
    }
}

/// How tokens are chosen, and how many.
#[derive(Debug, Args)]
pub(crate) struct DecodingArgs {
    /// Maximum number of new tokens, overriding the configuration.
    #[arg(long, value_name = "N")]
    pub(crate) max_new_tokens: Option<usize>,

    /// Sampling temperature; 0 is greedy decoding.
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) temperature: Option<f32>,

    /// Sample from the K most probable tokens only.
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,

    /// Nucleus sampling: sample from the smallest set of most probable tokens with total
    /// probability P.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f32>,

    /// Sample from tokens with at least P times the probability of the most probable token.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) min_p: Option<f32>,

    /// Sampling seed: the same seed gives the same output. Prompt i uses seed + i.
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
}
