//! Prompts of an experiment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cascade_config::CostFile;
use cascade_core::{Architecture, Prompt, TokenId};
use cascade_engine::{Finish, GenerationOutput};
use cascade_eval::{
    DataSource, Dataset, ProblemSet, PromptError, PromptTemplate, RandomSample, Sample, Selection,
    seed_of_turn,
};
use cascade_models::HubOptions;
use cascade_traces::trace::{Record, Trace, limit};

use crate::models::Models;
use crate::plan::{Asked, Suite};
use crate::record::hash;
use crate::{Definition, Error, ErrorKind, Result};

/// Which prompts to take, and which trained rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// Datasets to take, in place of those that `data` has or, if that is empty, of those that the
    /// program makes itself.
    pub datasets: Vec<String>,
    /// Where the others are.
    pub data: BTreeMap<String, DataSource>,
    /// Prompts of each dataset, in place of the definition's number; of a recording all if not
    /// given.
    pub limit: Option<usize>,
    /// Seed of the choice among the prompts of a dataset and the records of a recording, of the
    /// problems that the program makes, and of samples.
    pub seed: u64,
    /// Whether to sample as the experiment's paper does, in place of greedy decoding. A recording
    /// is replayed as it was made.
    pub sampled: bool,
    /// The folder of trained rules, for experiments that compare such.
    pub rules: Option<PathBuf>,
    /// Files with costs of forwards of the target and of each neural drafter, with their names, in
    /// place of what is assumed and of what a bench measures; none, or of all.
    pub costs: Vec<(String, CostFile)>,
}

/// A prompt that is ready to be answered.
pub(crate) struct Ready {
    pub(crate) prompt: Prompt,
    /// Tokens to generate at most.
    pub(crate) max_new_tokens: usize,
    /// The seed of its sample, if it is sampled: that of `cascade run` with the same prompts.
    pub(crate) seed: u64,
    /// Its text, if it was made from one.
    pub(crate) text: Option<String>,
    /// What was recorded, in a replay.
    pub(crate) recorded: Option<Recorded>,
}

/// A recorded output, as far as it is replayed.
pub(crate) struct Recorded {
    pub(crate) tokens: Vec<TokenId>,
    /// Whether the text ended there by itself.
    is_complete: bool,
}

impl Ready {
    /// The prompt of a record, with its output up to `max_new_tokens` or its own limit.
    fn of_record(record: &Record, max_new_tokens: usize) -> Self {
        let max_new_tokens = limit(record, max_new_tokens);
        let length = record.output.len().min(max_new_tokens);
        Self {
            prompt: record.prompt(),
            max_new_tokens,
            seed: record.seed.unwrap_or_default(),
            text: None,
            recorded: Some(Recorded {
                tokens: record.output[..length].to_vec(),
                is_complete: length == record.output.len() && record.finish.ends_text(),
            }),
        }
    }

    /// Whether the text of an answer ended by itself.
    pub(crate) fn is_complete(&self, generation: &GenerationOutput) -> bool {
        match &self.recorded {
            Some(recorded) => recorded.is_complete,
            None => matches!(generation.finish, Finish::Eos | Finish::StopSequence(_)),
        }
    }
}

/// Prompts, and how a plan records them.
pub(crate) struct Prompts {
    pub(crate) suites: Vec<Suite>,
    pub(crate) left_out: Vec<String>,
    /// Recorded answers that are longer than what is replayed of them.
    pub(crate) cut: usize,
    pub(crate) ready: Vec<Ready>,
}

impl Prompts {
    /// Reads datasets. One that was not asked for by name and is not there is left out, as long as
    /// another is.
    pub(crate) fn read(definition: &Definition, choice: &Choice, models: &Models) -> Result<Self> {
        let mut prompts = Self {
            suites: Vec::new(),
            left_out: Vec::new(),
            cut: 0,
            ready: Vec::new(),
        };
        for name in names(definition, choice)? {
            let optional = choice.datasets.is_empty();
            match samples(&name, choice, definition.samples) {
                Err(error) if optional && error.kind() == ErrorKind::NoData => {
                    prompts.left_out.push(name);
                }
                samples => {
                    let limits = (definition.max_new_tokens, choice.seed);
                    prompts.add(&name, &samples?, limits, models)?;
                }
            }
        }
        match (prompts.suites.is_empty(), prompts.left_out.first()) {
            (true, Some(dataset)) => Err(Error::no_data(dataset)),
            _ => Ok(prompts),
        }
    }

    fn add(
        &mut self,
        dataset: &str,
        samples: &[Sample],
        (max_new_tokens, seed): (usize, u64),
        models: &Models,
    ) -> Result<()> {
        let template = template(dataset, models)?;
        let mut asked = Vec::with_capacity(samples.len());
        for (number, sample) in samples.iter().enumerate() {
            let text = sample.prompt(template)?;
            let prompt = models.encode(&text)?;
            asked.push(of_prompt(&sample.id, sample.category.as_ref(), &prompt));
            self.ready.push(Ready {
                prompt,
                max_new_tokens,
                seed: seed_of_turn(seed, number, 0),
                text: Some(text),
                recorded: None,
            });
        }
        self.suites.push(Suite {
            dataset: dataset.to_owned(),
            template: template.name().to_owned(),
            prompts: asked,
        });
        Ok(())
    }

    /// The prompts of a recording.
    pub(crate) fn of_trace(definition: &Definition, choice: &Choice, trace: &Trace) -> Self {
        let records = chosen(&trace.records, choice);
        let (mut asked, mut ready, mut cut) = (Vec::new(), Vec::new(), 0);
        for record in records {
            let replayed = Ready::of_record(record, definition.max_new_tokens);
            let id = format!("{}, turn {}", record.id, record.turn);
            let category = record.category.as_ref();
            asked.push(of_prompt(&id, category, &replayed.prompt));
            cut += usize::from(replayed.max_new_tokens < record.output.len());
            ready.push(replayed);
        }
        let suite = Suite {
            dataset: trace
                .header
                .dataset
                .clone()
                .unwrap_or_else(|| "recorded".to_owned()),
            template: trace
                .header
                .template
                .clone()
                .unwrap_or_else(|| "as recorded".to_owned()),
            prompts: asked,
        };
        Self {
            suites: vec![suite],
            left_out: Vec::new(),
            cut,
            ready,
        }
    }
}

/// All records, or as many as are wanted, at random by the seed and in their order.
fn chosen<'t>(records: &'t [Record], choice: &Choice) -> Vec<&'t Record> {
    let size = choice.limit.unwrap_or(usize::MAX).min(records.len());
    let seed = choice.seed;
    let positions = RandomSample { size, seed }.positions(records.len());
    let positions = positions.unwrap_or_default().into_iter();
    positions.map(|position| &records[position]).collect()
}

fn of_prompt(id: &str, category: Option<&String>, prompt: &Prompt) -> Asked {
    Asked {
        id: id.to_owned(),
        category: category.cloned(),
        tokens: hash(&[prompt.source.as_slice(), &prompt.context].concat()),
    }
}

fn names(definition: &Definition, choice: &Choice) -> Result<Vec<String>> {
    let asked = choice.datasets.iter().chain(choice.data.keys());
    for name in asked {
        if !definition.datasets.contains(name) {
            let known = definition.datasets.join(", ");
            let problem = format!("does not have the dataset {name}; it has {known}");
            return Err(Error::request(&definition.name, problem));
        }
    }
    let given = !choice.data.is_empty();
    let wanted = |name: &&String| {
        if choice.datasets.is_empty() {
            !(given && name.parse().is_ok_and(is_made))
        } else {
            choice.datasets.contains(name)
        }
    };
    Ok(definition.datasets.iter().filter(wanted).cloned().collect())
}

/// Whether the program makes a dataset itself.
pub(crate) fn is_made(dataset: Dataset) -> bool {
    matches!(dataset, Dataset::Problems(_))
}

/// The chosen samples: at random by the seed, in the order of the dataset. Problems that the
/// program makes are made by the seed.
fn samples(name: &str, choice: &Choice, default: usize) -> Result<Vec<Sample>> {
    let dataset: Dataset = name.parse()?;
    let size = choice.limit.unwrap_or(default);
    if let Some(source) = choice.data.get(name) {
        let hub = HubOptions::from_env();
        let selection = Selection::random(size, choice.seed);
        return Ok(source.read(&dataset, selection, &hub, true)?);
    }
    let dataset = match dataset {
        Dataset::Problems(set) => Dataset::Problems(ProblemSet {
            seed: set.seed.wrapping_add(choice.seed),
            ..set
        }),
        other => other,
    };
    let made = dataset.made(Selection::first(size));
    Ok(made.ok_or_else(|| Error::no_data(name))??)
}

/// The paper's prompt for a dataset, one form for T5, another for Vicuna; for problems that the
/// program makes the models' own.
fn template(dataset: &str, models: &Models) -> Result<PromptTemplate> {
    if let Ok(Dataset::Problems(set)) = dataset.parse() {
        return Ok(set.template(models.prompt_template()));
    }
    // Questions of several kinds have no form of their own.
    let several = dataset == "spec-bench";
    let name = match models.architecture() {
        Architecture::DecoderOnly if several => "vicuna".to_owned(),
        Architecture::EncoderDecoder => format!("t5-{dataset}"),
        Architecture::DecoderOnly => format!("vicuna-{dataset}"),
    };
    let template = name
        .parse()
        .map_err(|error: PromptError| cascade_eval::Error::from(error))?;
    Ok(template)
}
