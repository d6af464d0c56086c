//! Running the variants of an experiment over its prompts.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use cascade_config::{AssembleOptions, Config};
use cascade_core::TokenId;
use cascade_engine::{GenerationOutput, Options};
use cascade_eval::trace::Trace;
use cascade_models::Tokenizer;
use cascade_report::{write_atomically, Evidence, Results};

use crate::folder;
use crate::models::Models;
use crate::plan::{Plan, LARGEST_OWN};
use crate::prompts::{Choice, Prompts, Ready};
use crate::record::{Difference, Run, Walltime};
use crate::samples::{self, Sampled, Samples};
use crate::variant::Variant;
use crate::{Definition, Error, Result};

/// The file of times.
pub(crate) const WALLTIME: &str = "walltime.jsonl";

/// The file of what forwards cost on this machine.
pub(crate) const COSTS: &str = "costs.json";

/// A part of an experiment's prompts: those whose number leaves the remainder `part` when divided
/// by `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: usize,
    of: usize,
}

impl Default for Shard {
    /// All prompts.
    fn default() -> Self {
        Self { part: 0, of: 1 }
    }
}

impl Shard {
    fn has(self, prompt: usize) -> bool {
        prompt % self.of == self.part
    }
}

/// `i/n`, from 1.
impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Shard {
            text: text.to_owned(),
        };
        let (part, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (part, of) = (number(part)?, number(of)?);
        match 1 <= part && part <= of {
            true => Ok(Self { part: part - 1, of }),
            false => Err(wrong()),
        }
    }
}

/// An experiment with its models loaded and its prompts read.
pub struct Experiment {
    models: Models,
    plan: Plan,
    variants: Vec<Variant>,
    ready: Vec<Ready>,
}

impl Experiment {
    /// Loads the models of a configuration and reads the datasets.
    ///
    /// # Errors
    /// Those of models and datasets; [`Error::NoData`]; [`Error::OtherDataset`];
    /// [`Error::NoDrafter`].
    pub fn prepare(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        choice: &Choice,
    ) -> Result<Self> {
        let models = Models::load(definition, config, options)?;
        let prompts = Prompts::read(definition, choice, &models)?;
        Self::new(definition, &config.label, choice, models, prompts)
    }

    /// The same on a recording of the target. With its tokenizer, samples in reports have text;
    /// without, token ids.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare); [`Error::OtherTokenizer`].
    pub fn prepare_replay(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        choice: &Choice,
        (trace, tokenizer): (Arc<Trace>, Option<Tokenizer>),
    ) -> Result<Self> {
        let prompts = Prompts::of_trace(definition, choice, &trace);
        let label = trace.label.clone();
        let models = Models::with_trace(definition, config, options, trace, tokenizer)?;
        Self::new(definition, &label, choice, models, prompts)
    }

    fn new(
        definition: &Definition,
        label: &str,
        choice: &Choice,
        models: Models,
        prompts: Prompts,
    ) -> Result<Self> {
        let variants = definition.variants()?;
        let plan = Plan {
            name: definition.name.clone(),
            definition: definition.text.clone(),
            models_from: label.to_owned(),
            models: models.planned()?,
            max_gram: models.max_gram_options(),
            evidence: models.evidence(),
            suites: prompts.suites,
            left_out: prompts.left_out,
            seed: choice.seed,
            max_new_tokens: definition.max_new_tokens,
            variants: variants.len(),
        };
        Ok(Self {
            models,
            plan,
            variants,
            ready: prompts.ready,
        })
    }

    /// What the results depend on.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Number of prompts of a shard.
    pub fn prompts(&self, shard: Shard) -> usize {
        (0..self.ready.len())
            .filter(|&prompt| shard.has(prompt))
            .count()
    }

    /// Runs what is missing in a folder of results, and calls `on_prompt` after each prompt.
    ///
    /// All cascades answer a prompt one after the other, and each prompt starts with another of
    /// them, so that a machine whose speed drifts favours none.
    ///
    /// # Errors
    /// [`Error::NotResumed`] for a folder that has records already, unless `resume`; another
    /// experiment's folder; models that fail; a folder that cannot be written.
    pub fn run(
        &self,
        folder: &Path,
        shard: Shard,
        resume: bool,
        mut on_prompt: impl FnMut(),
    ) -> Result<()> {
        folder::refuse_foreign(folder)?;
        let results = Results::<Run>::open(folder, &self.plan.experiment())?;
        if !resume && !results.records().is_empty() {
            return Err(Error::NotResumed {
                folder: folder.to_owned(),
            });
        }
        self.plan.save(folder)?;
        self.measure_forwards(folder)?;
        let mut files = Files {
            results,
            walltimes: Walltimes::open(folder)?,
            samples: Samples::open(folder)?,
        };
        let kept = samples::kept(&self.plan);
        let mut warm = false;
        for prompt in (0..self.ready.len()).filter(|&prompt| shard.has(prompt)) {
            let missing = self.missing(&files.results, prompt);
            let sample = kept.contains(&prompt) && !files.samples.contains(prompt);
            if sample || !missing.is_empty() {
                if !std::mem::replace(&mut warm, true) {
                    self.warm_up(prompt)?;
                }
                self.answer(prompt, &missing, sample, &mut files)?;
            }
            on_prompt();
        }
        Ok(())
    }

    /// Variants that have no record of a prompt yet.
    fn missing(&self, results: &Results<Run>, prompt: usize) -> Vec<usize> {
        let index = |variant: usize| (prompt * self.variants.len() + variant) as u64;
        (0..self.variants.len())
            .filter(|&variant| !results.contains(index(variant)))
            .collect()
    }

    /// Plain decoding and the last variant, untimed: caches and clocks.
    fn warm_up(&self, prompt: usize) -> Result<()> {
        for variant in [self.variants.first(), self.variants.last()]
            .into_iter()
            .flatten()
        {
            self.generate(prompt, variant)?;
        }
        Ok(())
    }

    /// Answers a prompt with the variants that are missing, or with all if a sample is to be kept
    /// of it.
    fn answer(
        &self,
        prompt: usize,
        missing: &[usize],
        sample: bool,
        files: &mut Files,
    ) -> Result<()> {
        let generations =
            self.generations(prompt, |variant| sample || missing.contains(&variant))?;
        if generations.len() == self.variants.len() && self.plan.evidence == Evidence::Measured {
            // A replay has no target to time.
            let seconds: Vec<f64> = generations.values().map(|g| g.wall.as_secs_f64()).collect();
            files.walltimes.append(&Walltime {
                prompt: prompt as u64,
                seconds,
            })?;
        }
        let ready = &self.ready[prompt];
        let recorded = ready.recorded.as_ref().map(|recorded| &recorded.tokens);
        let plain = recorded.unwrap_or(&generations[&0].tokens);
        for &variant in missing {
            let generation = &generations[&variant];
            let mut run = Run::new(
                &self.plan,
                prompt,
                (variant, &self.variants[variant]),
                (generation, ready.is_complete(generation)),
            );
            run.differs = self.difference(prompt, plain, &generation.tokens)?;
            files.results.append(run)?;
        }
        if sample {
            let all: Vec<&GenerationOutput> = generations.values().collect();
            let tokenizer = self.models.tokenizer();
            let sampled = Sampled::new(prompt, ready, plain, &all, tokenizer)?;
            files.samples.insert(sampled)?;
        }
        Ok(())
    }

    /// What the wanted variants say, and always the first, which the others are compared with.
    fn generations(
        &self,
        prompt: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<BTreeMap<usize, GenerationOutput>> {
        let count = self.variants.len();
        let turns = (0..count).map(|turn| (turn + prompt) % count);
        turns
            .filter(|&variant| variant == 0 || wanted(variant))
            .map(|variant| Ok((variant, self.generate(prompt, &self.variants[variant])?)))
            .collect()
    }

    fn generate(&self, prompt: usize, variant: &Variant) -> Result<GenerationOutput> {
        let ready = &self.ready[prompt];
        let options = Options::default().with_max_new_tokens(ready.max_new_tokens);
        let mut cascade = self.models.cascade(variant)?;
        let generation = cascade.generate_tokens(&ready.prompt, &options);
        generation.map_err(|source| Error::Generation {
            variant: variant.id.clone(),
            prompt: self.plan.asked(prompt).1.id.clone(),
            source: Box::new(source),
        })
    }

    fn difference(
        &self,
        prompt: usize,
        plain: &[TokenId],
        other: &[TokenId],
    ) -> Result<Option<Difference>> {
        let at = plain.iter().zip(other).take_while(|(a, b)| a == b).count();
        let gap = match (plain.get(at), other.get(at)) {
            (None, None) => return Ok(None),
            (Some(&said), Some(&instead)) => {
                self.models
                    .gap(&self.ready[prompt].prompt, &plain[..at], said, instead)?
            }
            _ => None,
        };
        Ok(Some(Difference { at: at as u64, gap }))
    }

    /// Measures what forwards cost, unless the folder knows.
    fn measure_forwards(&self, folder: &Path) -> Result<()> {
        let file = folder.join(COSTS);
        if file.exists() {
            return Ok(());
        }
        let times = self.models.forward_times()?;
        let seconds: BTreeMap<&str, f64> = times
            .iter()
            .map(|(place, time)| (place.as_str(), time.as_secs_f64()))
            .collect();
        let json = serde_json::to_vec_pretty(&seconds).unwrap_or_default();
        Ok(write_atomically(&file, &json)?)
    }
}

/// The files that a run adds to.
struct Files {
    results: Results<Run>,
    walltimes: Walltimes,
    samples: Samples,
}

/// `walltime.jsonl`, open for appending.
struct Walltimes {
    path: PathBuf,
    file: fs::File,
}

impl Walltimes {
    /// Opens the file; a last line without its end gets one, and is passed over by [`walltimes`].
    fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(WALLTIME);
        let unfinished =
            fs::read(&path).is_ok_and(|bytes| bytes.last().is_some_and(|&b| b != b'\n'));
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .open(&path)
            .map_err(Error::unwritable(&path))?;
        let mut walltimes = Self { path, file };
        if unfinished {
            walltimes.write(b"\n")?;
        }
        Ok(walltimes)
    }

    fn append(&mut self, walltime: &Walltime) -> Result<()> {
        let mut line = serde_json::to_vec(walltime).unwrap_or_default();
        line.push(b'\n');
        self.write(&line)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(Error::unwritable(&self.path))
    }
}

/// The times of a folder, by prompt: the last of each. Lines that are none are passed over, since
/// times are beside the results.
pub(crate) fn walltimes(folder: &Path) -> BTreeMap<u64, Vec<f64>> {
    let text = cascade_fs::read_text(folder.join(WALLTIME), LARGEST_OWN).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Walltime>(line).ok());
    lines
        .map(|walltime| (walltime.prompt, walltime.seconds))
        .collect()
}

/// Seconds of a single-row forward by place, as measured in a folder; empty if they were not.
pub(crate) fn forward_seconds(folder: &Path) -> BTreeMap<String, f64> {
    let text = cascade_fs::read_text(folder.join(COSTS), LARGEST_OWN).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Puts shards of one experiment together in a new folder: the records, byte for byte, of one run;
/// all times; the costs of the first shard; all samples.
///
/// # Errors
/// Shards of different experiments, shards that overlap, or that lack a record; a folder that is
/// not empty.
pub fn merge(shards: &[PathBuf], into: &Path) -> Result<Plan> {
    let first = shards.first().ok_or(cascade_report::Error::NoShards)?;
    let plan = Plan::of_folder(first)?;
    folder::refuse_foreign(into)?;
    cascade_report::merge::<Run>(shards, into)?;
    plan.save(into)?;
    let mut all = BTreeMap::new();
    for shard in shards {
        all.extend(walltimes(shard));
    }
    let mut file = Walltimes::open(into)?;
    for (prompt, seconds) in all {
        file.append(&Walltime { prompt, seconds })?;
    }
    let costs = forward_seconds(first);
    let json = serde_json::to_vec_pretty(&costs).unwrap_or_default();
    write_atomically(&into.join(COSTS), &json)?;
    Samples::merge(shards, into)?;
    Ok(plan)
}
