//! Arguments of every command that generates: configuration, prompts, decoding, device.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use cascade_config::{DeviceSpec, Overrides, ScheduleName, StopRuleConfig, Variables};
use cascade_core::StatedSampling;
use cascade_engine::Rule;
use cascade_eval::{DataSource, Dataset};
use cascade_models::{CacheType, DType, parse_cache_type};
use clap::{Args, ValueEnum};

use crate::at_most;

/// What to generate with, from what, and how.
#[derive(Debug, Args)]
pub struct JobArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    #[command(flatten)]
    pub input: InputArgs,

    #[command(flatten)]
    pub decoding: DecodingArgs,

    /// Device of all models, overriding the configuration: auto, cpu, cuda:N or metal:N, or
    /// candle:cpu, the second engine on the CPU. auto is the first GPU if it can be used, else
    /// the CPU.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceSpec>,
}

/// A cascade: as a configuration, or by the names of its models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models and drafting")]
pub struct ModelArgs {
    /// Configuration of the cascade [default: an embedded demo].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Target model, in place of a configuration: a folder, a hub id (org/name, org/name@revision)
    /// or embedded:NAME.
    #[arg(long, short, value_name = "MODEL", conflicts_with = "config")]
    pub model: Option<String>,

    /// Neural drafter, written as --model; repeat it, largest first. `head:MODEL` is a head that
    /// reads the target's hidden states. Without any, the Max-Gram tree drafts.
    #[arg(
        long = "drafter",
        short = 'd',
        value_name = "MODEL",
        requires = "model",
        conflicts_with = "config"
    )]
    pub drafters: Vec<String>,

    /// Add the paper's Max-Gram after the neural drafters, or draft with it alone.
    #[arg(long, requires = "model", conflicts_with_all = ["config", "tree"])]
    pub max_gram: bool,

    /// Add the Max-Gram tree after the neural drafters; without neural drafters, it drafts anyway.
    /// Without --model, it takes the place of the demo's Max-Gram.
    #[arg(long, conflicts_with = "config")]
    pub tree: bool,

    /// Table of Max-Gram or of its tree: a file, embedded:NAME, or `none` [default: the embedded
    /// table of the target's vocabulary, if there is one]. Implies --max-gram after neural
    /// drafters.
    #[arg(
        long,
        value_name = "TABLE",
        requires = "model",
        conflicts_with = "config"
    )]
    pub ngram: Option<String>,

    /// Number of tokens that each drafter adds, largest drafter first and Max-Gram last, such as -k
    /// 5,10; of a tree, its maximum depth [default: as many as pay; with --schedule static, see
    /// docs/command-line.md].
    #[arg(
        long = "draft-tokens",
        short = 'k',
        value_name = "K,…",
        value_delimiter = ',',
        requires = "model",
        conflicts_with = "config"
    )]
    pub draft_tokens: Option<Vec<usize>>,

    /// How much is drafted: `online`, a token only if its expected gain exceeds its measured cost,
    /// or `static`, what the K matrix says [default: `static` with --draft-tokens and where the
    /// configuration has `k`, else `online`].
    #[arg(long, value_name = "SCHEDULE")]
    pub schedule: Option<ScheduleArg>,

    /// Stop rule of all drafters, by which a draft ends early: length=N, heuristic[=START],
    /// confidence=P, adaptive_confidence[=P] or mdp[=COST] (docs/schedules.md). Changes the speed,
    /// never the output.
    #[arg(long, value_name = "RULE")]
    pub stop_rule: Option<StopRuleConfig>,

    /// Maximum number of nodes of a draft [default: 64; with --schedule static, for the Max-Gram
    /// tree alone, 32 on a GPU and 8 on the CPU].
    #[arg(long, value_name = "N", requires = "model", conflicts_with = "config")]
    pub nodes: Option<usize>,

    /// Lenience of drafters that review the drafts of smaller ones: they keep a token with up to L
    /// times the probability of an exact review, which is 1 [default: 1, or 3 with two neural
    /// drafters or more]. Changes the speed, never the output.
    #[arg(long, value_name = "L", requires = "model", conflicts_with = "config")]
    pub lenience: Option<f32>,

    /// Measured costs of forwards of a model of the cascade, which the `online` schedule starts
    /// with: a file that `cascade bench model --save` wrote on this machine. Repeat it for each
    /// model. Changes the speed, never the output.
    #[arg(long = "costs", value_name = "FILE")]
    pub costs: Vec<PathBuf>,

    /// Keep the costs of --costs instead of updating them while running.
    #[arg(long, requires = "costs")]
    pub fixed_costs: bool,

    /// Data type of the weights of all models, overriding the configuration: f32, f16, bf16, q8_0,
    /// on a CPU also q4_0, or stored (as in the file) [default: stored for GGUF files; else
    /// bf16 on a GPU, f32 on a CPU].
    #[arg(long, value_name = "DTYPE")]
    pub dtype: Option<DType>,

    /// Data type of keys and values on a CPU, overriding the configuration: f32, bf16 or f16. 16
    /// bits halve the memory and round the values [default: f32].
    #[arg(long, value_name = "DTYPE", value_parser = parse_cache_type)]
    pub cache_dtype: Option<CacheType>,

    /// Tokenizer of all models, for models that come without one: written as --model.
    #[arg(
        long,
        value_name = "MODEL",
        requires = "model",
        conflicts_with = "config"
    )]
    pub tokenizer: Option<String>,
}

impl ModelArgs {
    /// The settings that take precedence over those of a configuration.
    pub fn overrides(&self, decoding: Option<&DecodingArgs>) -> Overrides {
        let of_models = Overrides {
            schedule: self.schedule.map(ScheduleName::from),
            stop_rule: self.stop_rule.clone(),
            dtype: self.dtype,
            cache_dtype: self.cache_dtype,
            ..Overrides::default()
        };
        let Some(decoding) = decoding else {
            return of_models;
        };
        Overrides {
            max_new_tokens: decoding.max_new_tokens,
            sampling: StatedSampling {
                temperature: decoding.temperature,
                top_k: decoding.top_k,
                top_p: decoding.top_p,
                min_p: decoding.min_p,
                repetition_penalty: decoding.repetition_penalty,
                presence_penalty: decoding.presence_penalty,
                frequency_penalty: decoding.frequency_penalty,
            },
            seed: decoding.seed,
            rule: decoding.rule,
            stop: decoding.stop.clone(),
            ..of_models
        }
    }
}

/// How much is drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleArg {
    /// Draft a token only if its expected gain exceeds its measured cost.
    Online,
    /// Draft what the K matrix says.
    Static,
}

impl From<ScheduleArg> for ScheduleName {
    fn from(schedule: ScheduleArg) -> Self {
        match schedule {
            ScheduleArg::Online => Self::Online,
            ScheduleArg::Static => Self::Static,
        }
    }
}

/// Where prompts come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompts")]
pub struct InputArgs {
    /// A single prompt, or `-` for standard input; `run` puts behind it what is piped in. Asked
    /// with the model's chat template if it has one, unless --raw, another template or the
    /// configuration says otherwise: the demo's asks it as the question of a word problem.
    #[arg(value_name = "PROMPT", group = "input")]
    pub positional: Option<String>,

    /// Prompt, as PROMPT, for prompts that begin with a hyphen.
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    pub prompt: Option<String>,

    /// Prompts, one JSON object per line: {"prompt": …}, or {"messages": [{"role": …, "content":
    /// …}, …]} for the chat template. Other fields are copied to --json output.
    #[arg(long, value_name = "FILE.jsonl", group = "input")]
    pub prompts: Option<PathBuf>,

    /// A dataset, formatted by a prompt template: problems, gsm8k, mmlu, humaneval, mbpp, alpaca,
    /// mt-bench, spec-bench, cnn-dailymail, prompts, or prompts:FIELD to read prompts from any
    /// field. All but problems, which the program makes, need --data. problems:KIND:SPLIT:SEED
    /// chooses others than word-problem:test:0: see `cascade-lab demo problems --help`.
    #[arg(long, value_name = "NAME", group = "input")]
    pub dataset: Option<Dataset>,

    /// The dataset's file: JSON lines, a JSON array or Parquet, plain or gzip, or CSV for mmlu; or
    /// a folder of such files. Or the Hugging Face hub: `hub` for the dataset's own repository and
    /// test split, `hub@REVISION`, or `hub:org/name[@REVISION][/SPLIT]`.
    #[arg(long, value_name = "FILE|hub", requires = "dataset")]
    pub data: Option<DataSource>,

    /// Prompt template, overriding the configuration: one of the program's (vicuna, raw, …), a file
    /// (Jinja, or a tokenizer_config.json), or one of the model's by its name.
    #[arg(long, value_name = "NAME|FILE")]
    pub template: Option<String>,

    /// Ask with the chat template that the model comes with, which must be there: datasets too, and
    /// whatever the configuration says.
    #[arg(long, conflicts_with = "template")]
    pub chat: bool,

    /// Continue texts as they are, without the model's chat template.
    #[arg(long, conflicts_with_all = ["template", "chat", "system"])]
    pub raw: bool,

    /// System message, for chat templates.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub system: Option<String>,

    /// Variables of the chat template, as a JSON object: '{"enable_thinking": false}'.
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<Variables>,

    /// Maximum number of prompts [default: all; of problems 1000].
    #[arg(long, value_name = "N", value_parser = crate::at_most(1 << 30))]
    pub limit: Option<usize>,

    /// Number of prompts to skip first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: usize,

    /// Take a random sample of N of the selected prompts, in dataset order.
    #[arg(long, value_name = "N", conflicts_with_all = ["prompt", "positional"])]
    pub sample: Option<usize>,

    /// Seed of the random sample; the same on every machine [default: 0].
    #[arg(long, value_name = "S", requires = "sample")]
    pub sample_seed: Option<u64>,
}

impl InputArgs {
    /// Whether no input was given.
    pub fn is_empty(&self) -> bool {
        self.text().is_none() && self.prompts.is_none() && self.dataset.is_none()
    }

    /// Whether standard input may hold the prompt, or what it is about.
    pub fn takes_pipe(&self) -> bool {
        self.is_empty() || self.text().is_some_and(|text| text != "-")
    }

    /// The name of the template that was asked for.
    pub fn template(&self) -> Option<&str> {
        self.raw.then_some("raw").or(self.template.as_deref())
    }

    /// The single prompt, however it was given.
    pub fn text(&self) -> Option<&str> {
        self.positional.as_deref().or(self.prompt.as_deref())
    }
}

/// How tokens are chosen, and how many.
#[derive(Debug, Args)]
#[command(next_help_heading = "Decoding")]
pub struct DecodingArgs {
    /// Maximum number of new tokens, overriding the configuration, whose default is 256.
    #[arg(long, short = 'n', visible_alias = "max-tokens", value_name = "N")]
    pub max_new_tokens: Option<usize>,

    /// Sampling temperature, overriding the configuration; 0 is greedy decoding [default: 0; of
    /// `chat` and `serve` what the model's files recommend, as for --top-k,
    /// --top-p, --min-p and --repetition-penalty].
    #[arg(
        long,
        visible_alias = "temp",
        value_name = "T",
        allow_negative_numbers = true
    )]
    pub temperature: Option<f32>,

    /// Sample from the K most probable tokens only [default: from all].
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,

    /// Nucleus sampling: sample from the smallest set of most probable tokens with total
    /// probability P.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,

    /// Sample from tokens with at least P times the probability of the most probable token.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f32>,

    /// Divide the logits above 0 of tokens that the text has already, the prompt included, by R,
    /// and multiply those below: 1.1 breaks most loops.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,

    /// Subtract P from the logits of tokens that were generated already, as OpenAI does.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub presence_penalty: Option<f32>,

    /// Subtract P from the logit of a token for each time that it was generated, as OpenAI does.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f32>,

    /// Sampling seed: the same seed gives the same output. Each further prompt, and each further
    /// turn, uses a hash of it [default: the configuration's, or 0].
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,

    /// Verification rule of samples: coupled (the text of a seed is that of plain decoding), or
    /// match, speculative, iterated or spec_infer (the same distribution, another text) [default:
    /// the configuration's, or coupled].
    #[arg(long, value_name = "RULE")]
    pub rule: Option<Rule>,

    /// Text that ends an answer, and is not part of it; repeat it for several. Replaces those of
    /// the configuration.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
}

/// The most answers at a time: each has a thread, and caches of its own.
const MOST_AT_A_TIME: usize = 256;

/// Parses the N of `--batch`.
pub fn batch_size(text: &str) -> Result<NonZeroUsize, String> {
    let size = at_most(MOST_AT_A_TIME)(text)?;
    NonZeroUsize::new(size).ok_or_else(|| "give 1 or more".to_owned())
}

/// A size in bytes: `2GiB`, `512 MiB`, `4GB`, `1000000`.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1_u64,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        unit => {
            return Err(format!(
                "unknown unit {unit}; give a size such as 512MiB or 2GiB"
            ));
        }
    };
    let number: f64 = digits
        .trim()
        .parse()
        .map_err(|_| "give a size such as 512MiB or 2GiB".to_owned())?;
    let bytes = number * unit as f64;
    if !(1.0..1e18).contains(&bytes) {
        return Err("give a size such as 512MiB or 2GiB".to_owned());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("0.5 g", 1 << 29),
            ("512mib", 512 << 20),
            ("1000", 1000),
            ("3GB", 3_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "2 GiBs", "nan", "0", "1e30"] {
            assert!(size(text).unwrap_err().contains("2GiB"), "{text}");
        }
    }
}
