//! `cascade-lab dataset`: a dataset of any format as prompts that `cascade run --prompts` reads.

use std::io::Write;

use anyhow::Result;
use cascade_config::PromptTemplate;
use cascade_eval::{DataSource, Dataset, RandomSample, Selection};
use clap::Args;

use crate::exit::ExitCode;
use crate::{at_most, inputs, terminal};

#[derive(Debug, Args)]
pub(crate) struct DatasetArgs {
    /// The dataset, as `cascade run --dataset` names it: problems, gsm8k, mmlu, humaneval, mbpp,
    /// alpaca, mt-bench, spec-bench, cnn-dailymail, prompts, or prompts:FIELD.
    #[arg(value_name = "NAME")]
    dataset: Dataset,

    /// The dataset's file: JSON lines, a JSON array or Parquet, plain or gzip, or CSV for mmlu; or
    /// a folder of such files. Or the Hugging Face hub: `hub` for the dataset's own repository and
    /// test split, `hub@REVISION`, or `hub:org/name[@REVISION][/SPLIT]`.
    #[arg(long, value_name = "FILE|hub")]
    data: Option<DataSource>,

    /// Prompt template that makes texts of samples; multiple choice, MBPP's tasks and Alpaca's
    /// need one [default: what is asked, as it is].
    #[arg(long, value_name = "NAME", value_parser = template)]
    template: Option<PromptTemplate>,

    /// Maximum number of prompts [default: all; of problems 1000].
    #[arg(long, value_name = "N", value_parser = at_most(1 << 30))]
    limit: Option<usize>,

    /// Number of prompts to skip first.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Take a random sample of N of the selected prompts, in dataset order.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,

    /// Seed of the random sample; the same on every machine.
    #[arg(long, value_name = "S", default_value_t = 0)]
    sample_seed: u64,
}

fn template(name: &str) -> Result<PromptTemplate, String> {
    PromptTemplate::from_name(name).ok_or_else(|| {
        let known: Vec<_> = PromptTemplate::ALL.iter().map(|one| one.name()).collect();
        format!(
            "there is no prompt template of this name; there are {}",
            known.join(", ")
        )
    })
}

/// Prints one JSON object per sample.
pub(crate) fn run(args: &DatasetArgs) -> Result<ExitCode> {
    let seed = args.sample_seed;
    let selection = Selection {
        offset: args.offset,
        limit: args.limit,
        random: args.sample.map(|size| RandomSample { size, seed }),
    };
    let samples = inputs::of_dataset(&args.dataset, args.data.as_ref(), selection)?;
    let mut out = terminal::stdout();
    for sample in samples {
        terminal::write_json(&mut out, &sample.prompt_line(args.template)?)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
