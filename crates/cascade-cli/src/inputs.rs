//! Inputs: what to generate from.

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Config};
use cascade_data::{Content, Dataset, PromptTemplate, RandomSample, Sample, Selection};
use serde_json::{json, Map, Value};

use crate::args::InputArgs;

/// Number of demo questions if no input is given.
const DEMO_QUESTIONS: usize = 3;

/// An input of one or several turns.
pub(crate) struct Input {
    sample: Sample,
    template: PromptTemplate,
    /// Fields copied to the output.
    pub(crate) fields: Map<String, Value>,
}

impl Input {
    /// An input whose first prompt can be formatted, and therefore all of them.
    fn new(sample: Sample, template: PromptTemplate, fields: Map<String, Value>) -> Result<Self> {
        sample.prompt(template)?;
        Ok(Self {
            sample,
            template,
            fields,
        })
    }

    /// Number of turns asked.
    pub(crate) fn turns(&self) -> usize {
        self.template.turns(&self.sample.content)
    }

    /// The exact prompt after these answers.
    pub(crate) fn prompt(&self, answers: &[String]) -> Result<String> {
        Ok(self.sample.prompt_after(self.template, answers)?)
    }

    /// Its id in the dataset.
    pub(crate) fn id(&self) -> &str {
        &self.sample.id
    }

    /// Its subject or category, if the dataset has one.
    pub(crate) fn category(&self) -> Option<&str> {
        self.sample.category.as_deref()
    }

    /// The text shown for a turn, from 0.
    pub(crate) fn title(&self, turn: usize) -> &str {
        let turns = self.sample.content.turns();
        turns.get(turn).map_or("", |title| title.trim())
    }

    fn has_unasked_turns(&self) -> bool {
        self.sample.content.turns().len() > self.turns()
    }
}

/// One turn of an input.
pub(crate) struct Question<'a> {
    pub(crate) input: &'a Input,
    /// Index of the input, from 0.
    pub(crate) index: usize,
    /// Index of the turn, from 0.
    pub(crate) turn: usize,
    pub(crate) prompt: String,
}

impl Question<'_> {
    /// Its seed: consecutive for inputs, and far apart for the turns of one input.
    pub(crate) fn seed(&self, first: u64) -> u64 {
        first
            .wrapping_add(self.index as u64)
            .wrapping_add((self.turn as u64) << 32)
    }
}

/// All inputs, read and checked before the first prompt is answered.
pub(crate) fn inputs(args: &InputArgs, config: &Config) -> Result<Vec<Input>> {
    if let Some(prompt) = &args.prompt {
        let sample = Sample::new("0", Content::Text(prompt.as_str().into()));
        return Ok(vec![Input::new(sample, PromptTemplate::Raw, Map::new())?]);
    }
    if let Some(file) = &args.prompts {
        let samples = Dataset::PROMPTS.read(file, selection(args))?;
        return samples
            .into_iter()
            .map(|sample| {
                let fields = sample.fields.clone();
                Input::new(sample, PromptTemplate::Raw, fields)
            })
            .collect();
    }
    let template = args.template.unwrap_or(config.prompt);
    let inputs = samples(args)?
        .into_iter()
        .map(|sample| {
            let fields = carried(&sample);
            Input::new(sample, template, fields)
        })
        .collect::<Result<_>>();
    match args.template {
        Some(_) => inputs.context("--template"),
        None => {
            inputs.with_context(|| format!("{}: prompt (or choose a --template)", config.label))
        }
    }
}

/// Number of inputs with turns that their template does not ask.
pub(crate) fn cut_short(inputs: &[Input]) -> usize {
    inputs
        .iter()
        .filter(|input| input.has_unasked_turns())
        .count()
}

fn samples(args: &InputArgs) -> Result<Vec<Sample>> {
    let dataset = args.dataset.as_ref().unwrap_or(&Dataset::Gsm8k);
    let mut selection = selection(args);
    if args.dataset.is_none() && selection.random.is_none() {
        selection.limit = selection.limit.or(Some(DEMO_QUESTIONS));
    }
    match (&args.data, dataset) {
        (Some(data), dataset) => {
            let AssembleOptions { hub, progress, .. } = AssembleOptions::default();
            Ok(data.read(dataset, selection, &hub, progress)?)
        }
        (None, Dataset::Gsm8k) => {
            let label = "embedded gsm8k test set";
            Ok(dataset.parse(label, cascade_demo::GSM8K_TEST.as_bytes(), selection)?)
        }
        (None, other) => bail!(
            "the dataset {other} is not part of the program; download it with --data hub, or give its \
             file with --data FILE (docs/datasets.md lists the sources)"
        ),
    }
}

fn selection(args: &InputArgs) -> Selection {
    let seed = args.sample_seed.unwrap_or_default();
    Selection {
        offset: args.offset,
        limit: args.limit,
        random: args.sample.map(|size| RandomSample { size, seed }),
    }
}

/// Fields of a sample copied to its record; its own fields last, so that they take precedence.
fn carried(sample: &Sample) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), json!(sample.id));
    if let Some(category) = &sample.category {
        fields.insert("category".to_owned(), json!(category));
    }
    if !sample.references.is_empty() {
        fields.insert("references".to_owned(), json!(sample.references));
    }
    fields.extend(sample.fields.clone());
    fields
}
