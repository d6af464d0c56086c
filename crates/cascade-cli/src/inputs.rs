//! What to generate from.

use anyhow::{Context, Result};
use cascade_config::Config;
use cascade_eval::{Dataset, PromptTemplate, Sample, Selection};
use serde_json::{Map, Value};

use crate::args::{DatasetName, RunArgs};

/// Questions of the demo when nothing else is asked for.
const DEMO_QUESTIONS: usize = 3;

/// One prompt.
pub(crate) struct Input {
    /// What the model reads, to the byte.
    pub(crate) prompt: String,
    /// What a person wants to see of it.
    pub(crate) title: String,
    /// Fields of the prompt's line that are carried through.
    pub(crate) fields: Map<String, Value>,
}

/// All prompts that the arguments ask for, read and checked before the first is answered.
pub(crate) fn inputs(args: &RunArgs, config: &Config) -> Result<Vec<Input>> {
    let selection = Selection {
        offset: args.offset,
        limit: args.limit,
    };
    if let Some(prompt) = &args.prompt {
        return Ok(vec![Input {
            prompt: prompt.clone(),
            title: prompt.clone(),
            fields: Map::new(),
        }]);
    }
    if let Some(file) = &args.prompts {
        let samples = Dataset::Prompts.read(file, selection)?;
        return samples
            .into_iter()
            .map(|s| input(s, PromptTemplate::Raw))
            .collect();
    }
    let (DatasetName::Gsm8k, selection) = match args.dataset {
        Some(name) => (name, selection),
        None => {
            let limit = Some(args.limit.unwrap_or(DEMO_QUESTIONS));
            (DatasetName::Gsm8k, Selection { limit, ..selection })
        }
    };
    let samples = Dataset::Gsm8k.parse(
        "embedded gsm8k test set",
        cascade_demo::GSM8K_TEST.as_bytes(),
        selection,
    )?;
    samples
        .into_iter()
        .map(|sample| input(sample, config.prompt))
        .collect::<Result<_>>()
        .with_context(|| format!("{}: prompt", config.label))
}

fn input(sample: Sample, template: PromptTemplate) -> Result<Input> {
    let prompt = template.apply(&sample)?;
    let (title, fields) = match sample {
        Sample::Question { question, .. } => (question, Map::new()),
        Sample::MultipleChoice { question, .. } => (question, Map::new()),
        Sample::Text { prompt, fields } => (prompt, fields),
    };
    Ok(Input {
        prompt,
        title,
        fields,
    })
}
