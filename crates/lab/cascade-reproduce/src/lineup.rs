//! Line-ups: loaded models in their places, from which any arm is put together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cascade_config::{AssembleOptions, Config, Drafter, Neural, Table};
use cascade_core::{
    Architecture, Fingerprint, Prompt, Scorer, TextCodec, TokenId, TokenTree, Want,
};
use cascade_engine::{Branching, Cascade, CascadeBuilder, Lenience, NeuralOptions};
use cascade_eval::trace::{Trace, TraceScorer};
use cascade_eval::ForwardBench;
use cascade_models::{load, parse_device, LoadOptions, LoadedModel, ModelFile, Tokenizer};
use cascade_ngram::{BigramTable, MaxGram, MaxGramOptions, PromptLookup};
use cascade_report::{Evidence, Sha256, Weights};

use crate::arm::{Arm, Role};
use crate::plan::PlannedModel;
use crate::{Definition, Error, Result};

/// Longest n-gram that prompt lookup looks up.
const PROMPT_LOOKUP_NGRAM: usize = 3;

/// Nodes of a draft at most: more than any K matrix of the papers asks for, with eight children at each depth.
const MAX_NODES: usize = 256;

/// Models in their places. The weights are loaded once; every cascade has sessions of its own.
pub struct Lineup {
    label: String,
    target: Target,
    drafters: BTreeMap<Role, LoadedModel>,
    /// What each place computes in.
    dtypes: BTreeMap<&'static str, &'static str>,
    /// `None` if no cascade has it.
    max_gram: Option<MaxGramOptions>,
    table: Option<(String, Arc<BigramTable>)>,
}

enum Target {
    Live(Box<LoadedModel>),
    /// With a tokenizer to show its tokens by, if there is one.
    Recorded(Arc<Trace>, Option<Tokenizer>),
}

impl Lineup {
    /// Loads the models of a configuration: its target, its largest neural drafter as base and its smallest as small, the
    /// table and the options of its Max-Gram.
    ///
    /// # Errors
    /// Those of the models; [`Error::NoDrafter`] if the experiment needs a drafter that the configuration does not have.
    pub fn load(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
    ) -> Result<Self> {
        let target = config.load_target(options)?;
        let fingerprint = target.tokenizer.fingerprint();
        Self::around(
            definition,
            config,
            options,
            Target::Live(Box::new(target)),
            &fingerprint,
        )
    }

    /// The same around a recording of the target. The tokenizer is there to show tokens as text.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`Error::OtherTokenizer`].
    pub fn around_trace(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        trace: Arc<Trace>,
        tokenizer: Option<Tokenizer>,
    ) -> Result<Self> {
        let fingerprint = trace.header.tokenizer();
        if let Some(tokenizer) = &tokenizer {
            check_tokenizer(&trace, tokenizer, &fingerprint)?;
        }
        Self::around(
            definition,
            config,
            options,
            Target::Recorded(trace, tokenizer),
            &fingerprint,
        )
    }

    fn around(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        target: Target,
        vocabulary: &Fingerprint,
    ) -> Result<Self> {
        let mut lineup = Self {
            label: config.label.clone(),
            target,
            drafters: BTreeMap::new(),
            dtypes: BTreeMap::from([("target", config.target.dtype.as_str())]),
            max_gram: None,
            table: None,
        };
        let wanted = |role: Role| {
            definition
                .rows
                .iter()
                .any(|row| row.drafters.contains(&role))
        };
        lineup.add_neural(definition, config, options, &wanted)?;
        if wanted(Role::Mag) || wanted(Role::MagAlone) {
            lineup.add_max_gram(definition, config, vocabulary, wanted(Role::Mag))?;
        }
        Ok(lineup)
    }

    fn add_neural(
        &mut self,
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        wanted: &impl Fn(Role) -> bool,
    ) -> Result<()> {
        let neural: Vec<&Neural> = config.drafters.iter().filter_map(neural).collect();
        let places = [
            (Role::Base, neural.first(), "base"),
            (Role::Small, neural.last(), "small"),
        ];
        for (role, model, what) in places {
            if !wanted(role) {
                continue;
            }
            let model = model.ok_or_else(|| Error::NoDrafter {
                models: self.label.clone(),
                experiment: definition.name.clone(),
                what: "neural drafter",
            })?;
            let loaded = load_neural(model, config, options)?;
            self.check_vocabulary(what, &loaded)?;
            self.dtypes.insert(role.name(), model.dtype.as_str());
            self.drafters.insert(role, loaded);
        }
        Ok(())
    }

    fn check_vocabulary(&self, name: &str, model: &LoadedModel) -> Result<()> {
        let (found, expected) = (model.tokenizer.fingerprint(), self.vocabulary());
        if found == expected {
            return Ok(());
        }
        Err(cascade_config::Error::Vocabulary {
            file: self.label.clone(),
            drafter: name.to_owned(),
            found: found.to_string(),
            target: self.target_name(),
            expected: expected.to_string(),
        }
        .into())
    }

    fn add_max_gram(
        &mut self,
        definition: &Definition,
        config: &Config,
        vocabulary: &Fingerprint,
        with_table: bool,
    ) -> Result<()> {
        let found = config.drafters.iter().find_map(|drafter| match drafter {
            Drafter::MaxGram {
                bigram, options, ..
            } => Some((bigram, options)),
            _ => None,
        });
        let (bigram, options) = found.ok_or_else(|| Error::NoDrafter {
            models: self.label.clone(),
            experiment: definition.name.clone(),
            what: "`max_gram`",
        })?;
        self.max_gram = Some(*options);
        if let Some(table) = bigram.as_ref().filter(|_| with_table) {
            let table = match table {
                Table::File(path) => BigramTable::open(path, vocabulary),
                Table::Embedded { name, bytes } => {
                    BigramTable::from_static(name.clone(), bytes, vocabulary)
                }
            }?;
            self.table = Some((table.file().to_owned(), Arc::new(table)));
        }
        Ok(())
    }

    /// Where figures of these models come from.
    pub fn evidence(&self) -> Evidence {
        match &self.target {
            Target::Live(_) => Evidence::Measured,
            Target::Recorded(..) => Evidence::Replayed,
        }
    }

    /// How the target reads its prompt.
    pub fn architecture(&self) -> Architecture {
        match &self.target {
            Target::Live(model) => model.architecture(),
            Target::Recorded(trace, _) => trace.header.architecture,
        }
    }

    fn vocabulary(&self) -> Fingerprint {
        match &self.target {
            Target::Live(model) => model.tokenizer.fingerprint(),
            Target::Recorded(trace, _) => trace.header.tokenizer(),
        }
    }

    fn target_name(&self) -> String {
        match &self.target {
            Target::Live(model) => model.name.clone(),
            Target::Recorded(trace, _) => trace.header.model.clone(),
        }
    }

    /// The tokens of a text, where the target reads them.
    ///
    /// # Errors
    /// Those of the tokenizer. A recorded target has none, and its prompts are tokens.
    pub(crate) fn encode(&self, text: &str) -> Result<Prompt> {
        match &self.target {
            Target::Live(model) => {
                let tokens = model.tokenizer.encode(text)?;
                Ok(Prompt::new(model.architecture(), tokens))
            }
            Target::Recorded(trace, _) => Err(Error::NeedlessTrace {
                experiment: trace.label.clone(),
            }),
        }
    }

    /// What turns the target's tokens into text; `None` for a recording that came without.
    pub(crate) fn tokenizer(&self) -> Option<&Tokenizer> {
        match &self.target {
            Target::Live(model) => Some(&model.tokenizer),
            Target::Recorded(_, tokenizer) => tokenizer.as_ref(),
        }
    }

    /// A cascade with sessions of its own.
    ///
    /// # Errors
    /// Those of [`CascadeBuilder::build`].
    pub fn cascade(&self, arm: &Arm) -> Result<Cascade> {
        let mut builder = match &self.target {
            Target::Live(model) => Cascade::builder()
                .target("target", model.session())
                .eos(model.eos_token_ids.iter().copied()),
            Target::Recorded(trace, _) => Cascade::builder()
                .target("target", TraceScorer::new(trace.clone())?)
                .eos(trace.header.eos.iter().copied()),
        };
        builder = builder
            .k_matrix(arm.k.clone())
            .lenience(Lenience::new(arm.lenience()).map_err(cascade_engine::Error::from)?)
            .max_nodes(MAX_NODES);
        for &role in &arm.drafters {
            builder = self.add(builder, role, arm.children);
        }
        Ok(builder.build()?)
    }

    fn add(&self, builder: CascadeBuilder, role: Role, children: usize) -> CascadeBuilder {
        let max_gram = MaxGram::new().with_options(self.max_gram.unwrap_or_default());
        match (role, &self.table) {
            (Role::Mag, Some((_, table))) => {
                builder.statistical(role.name(), max_gram.with_bigram(table.clone()))
            }
            (Role::Mag | Role::MagAlone, _) => builder.statistical(role.name(), max_gram),
            (Role::PromptLookup, _) => {
                builder.statistical(role.name(), PromptLookup::new(PROMPT_LOOKUP_NGRAM))
            }
            (Role::Base | Role::Small, _) => match self.drafters.get(&role) {
                Some(model) => {
                    let options = NeuralOptions {
                        branching: Branching::main_path(children),
                        ..NeuralOptions::default()
                    };
                    builder.neural_with(role.name(), model.session(), options)
                }
                // `add_neural` has loaded every role that the definition names.
                None => builder,
            },
        }
    }

    /// By how much the target's logit for one token is above that for another after a prompt and some tokens; `None` for a
    /// recording.
    pub(crate) fn gap(
        &self,
        prompt: &Prompt,
        said: &[TokenId],
        token: TokenId,
        other: TokenId,
    ) -> Result<Option<f32>> {
        let Target::Live(model) = &self.target else {
            return Ok(None);
        };
        let mut session = model.session();
        session.set_source(&prompt.source)?;
        let context = [prompt.context.as_slice(), said].concat();
        let scores = session.score(&context, &TokenTree::default(), Want::LOGITS)?;
        Ok(scores.logits.map(|logits| {
            let row = logits.row(0);
            row[token as usize] - row[other as usize]
        }))
    }

    /// The models, with the hashes of their files. Reads every file once.
    ///
    /// # Errors
    /// Files that cannot be read any more.
    pub fn planned(&self) -> Result<Vec<PlannedModel>> {
        let mut planned = Vec::new();
        match &self.target {
            Target::Live(model) => planned.push(self.planned_model("target", model)?),
            Target::Recorded(trace, _) => planned.push(planned_trace(trace)),
        }
        for (role, model) in &self.drafters {
            planned.push(self.planned_model(role.name(), model)?);
        }
        if let Some((file, table)) = &self.table {
            let hash = Sha256::of(table.as_bytes());
            planned.push(PlannedModel {
                place: "bigram table".to_owned(),
                parameters: 0,
                dtype: None,
                weights: weights("bigram table", file, [(base_name(file), hash)]),
            });
        }
        Ok(planned)
    }

    /// A model with the hashes of all files that its answers depend on.
    fn planned_model(&self, place: &str, model: &LoadedModel) -> Result<PlannedModel> {
        let loaded = &model.files;
        let all = loaded
            .weights
            .iter()
            .chain([&loaded.config, &loaded.tokenizer]);
        let mut files = Vec::new();
        for file in all.chain(&loaded.generation_config) {
            files.push(match file {
                // Read piece by piece: it may be larger than the memory.
                ModelFile::Disk(path) => (base_name(&file.to_string()), Sha256::of_file(path)?),
                other => (
                    own_name(&other.to_string()),
                    Sha256::of(&other.read().map_err(cascade_models::Error::from)?),
                ),
            });
        }
        Ok(PlannedModel {
            place: place.to_owned(),
            parameters: model.num_parameters(),
            dtype: self.dtypes.get(place).map(|&dtype| dtype.to_owned()),
            weights: weights(place, &model.name, files),
        })
    }

    /// Options of Max-Gram as they are put on record.
    pub(crate) fn max_gram_options(&self) -> Option<String> {
        self.max_gram.map(|options| format!("{options:?}"))
    }

    /// Median time of a forward of one row in each neural model, by place: a short bench in a context of 64 tokens.
    ///
    /// # Errors
    /// Those of the models.
    pub(crate) fn forward_times(&self) -> Result<Vec<(String, Duration)>> {
        let Target::Live(target) = &self.target else {
            return Ok(Vec::new());
        };
        let drafters = self
            .drafters
            .iter()
            .map(|(role, model)| (role.name(), model));
        let bench = ForwardBench {
            contexts: vec![64],
            rows: vec![1],
            repeats: 51,
            ..ForwardBench::default()
        };
        let mut times = Vec::new();
        for (place, model) in std::iter::once(("target", &**target)).chain(drafters) {
            let costs = bench.run(&mut model.session())?;
            times.extend(costs.first().map(|cost| (place.to_owned(), cost.median)));
        }
        Ok(times)
    }
}

fn check_tokenizer(trace: &Trace, tokenizer: &Tokenizer, expected: &Fingerprint) -> Result<()> {
    let found = tokenizer.fingerprint();
    match found == *expected {
        true => Ok(()),
        false => Err(Error::OtherTokenizer {
            trace: trace.label.clone(),
            expected: expected.to_string(),
            tokenizer: tokenizer.file().to_owned(),
            found: found.to_string(),
        }),
    }
}

fn neural(drafter: &Drafter) -> Option<&Neural> {
    match drafter {
        Drafter::Neural { model, .. } => Some(model),
        _ => None,
    }
}

fn load_neural(model: &Neural, config: &Config, options: &AssembleOptions) -> Result<LoadedModel> {
    let device = options.device.as_ref().unwrap_or(&config.device);
    let options = LoadOptions {
        device: parse_device(device)?,
        dtype: model.dtype,
        hub: options.hub.clone(),
        progress: options.progress,
        tokenizer: model.tokenizer.clone(),
    };
    Ok(load(&model.source, &options)?)
}

/// A path without its folders: where a file lies is not what it is.
fn base_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(
        || path.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// `config.json` of `config.json of demo-t5-target`.
fn own_name(name: &str) -> String {
    name.split(" of ").next().unwrap_or(name).to_owned()
}

/// What a recording hashes to: its records, in their order.
fn planned_trace(trace: &Trace) -> PlannedModel {
    let mut text = String::new();
    for record in &trace.records {
        text.push_str(&format!("{record:?}\n"));
    }
    let header = &trace.header;
    let files = [(header.model.clone(), Sha256::of(text.as_bytes()))];
    PlannedModel {
        place: "target".to_owned(),
        parameters: 0,
        dtype: None,
        weights: weights("target (recorded)", &header.model, files),
    }
}

fn weights(name: &str, source: &str, files: impl IntoIterator<Item = (String, Sha256)>) -> Weights {
    Weights {
        name: name.to_owned(),
        source: source.to_owned(),
        files: files.into_iter().collect(),
    }
}
