//! The models of an experiment, and the configuration that each variant is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cascade_config::{
    AssembleOptions, Assembly, ClassifierEntry, Config, CostFile, Drafter, DrafterModel, HeadEntry,
    ModelPool, PromptTemplate, ScheduleConfig, StopRuleConfig, Target,
};
use cascade_core::{
    Architecture, Fingerprint, Prompt, RowTimes, Scorer, TextCodec, TokenId, TokenTree, Want,
};
use cascade_engine::{
    AssumedTimes, Branching, Cascade, Convention, GenerationOutput, KMatrix, Lenience, Placement,
    Rule, VirtualClock,
};
use cascade_eval::ForwardBench;
use cascade_models::{Head, LoadedModel, ModelFile, Participant, Tokenizer};
use cascade_ngram::{MaxGramConfig, MaxGramTreeConfig, NgramTable, PromptLookupConfig};
use cascade_traces::trace::{Oracle, Trace, TraceScorer};

use crate::definition::AssumedCosts;
use crate::draft_rule::{DraftRule, Network};
use crate::oracle::KnownLengths;
use crate::plan::PlannedModel;
use crate::report::{Evidence, Sha256, Weights};
use crate::trained::TrainedRules;
use crate::variant::{Role, Variant};
use crate::{Definition, Error, ErrorKind, ExperimentKind, Result};

/// Nodes of a draft at most, whatever the models' configuration says: more than any K matrix of the
/// papers asks for, with eight children at each depth.
const MAX_NODES: usize = 256;

/// The models of an experiment, each loaded once. A variant is a configuration of them, and every
/// cascade has sessions of its own.
pub(crate) struct Models {
    pool: ModelPool,
    target: Answers,
    /// What every variant starts from: the target of the models' configuration in the settings of
    /// the papers.
    base: Config,
    /// The drafters that the experiment's variants name.
    drafters: BTreeMap<Role, Drafter>,
    /// Weights of the neural ones.
    neural: BTreeMap<Role, Arc<LoadedModel>>,
    /// Heads, which read the target's states.
    heads: BTreeMap<Role, Arc<Head>>,
    table: Option<Arc<NgramTable>>,
    /// Trained rules, if any are compared.
    rules: TrainedRules,
    /// What forwards are assumed to cost by rules that weigh them.
    assumed: Option<AssumedCosts>,
    /// What they cost by files: of the target, and of each neural drafter.
    costs: Option<(RowTimes, BTreeMap<Role, RowTimes>)>,
}

/// Tokens before the forwards that are timed.
const CONTEXT: usize = 64;

/// A recording of the target, and its tokenizer if there is one.
pub(crate) type Recording = (Arc<Trace>, Option<Tokenizer>);

/// Where the target's answers come from.
enum Answers {
    Live(Arc<LoadedModel>),
    /// With a tokenizer to show its tokens by, if there is one.
    Recorded(Arc<Trace>, Option<Tokenizer>),
}

impl Answers {
    fn recorded(trace: Arc<Trace>, tokenizer: Option<Tokenizer>) -> Result<Self> {
        let expected = trace.header.tokenizer();
        let other = tokenizer
            .as_ref()
            .filter(|tokenizer| tokenizer.fingerprint() != expected);
        if let Some(tokenizer) = other {
            let message = format!(
                "{} was recorded with the tokenizer {expected}, and {} is {}; give the target's own with --tokenizer",
                trace.label,
                tokenizer.file(),
                tokenizer.fingerprint()
            );
            return Err(Error::new(ErrorKind::Request, message));
        }
        Ok(Self::Recorded(trace, tokenizer))
    }

    fn model(&self) -> Option<&Arc<LoadedModel>> {
        match self {
            Self::Live(model) => Some(model),
            Self::Recorded(..) => None,
        }
    }

    fn vocabulary(&self) -> Fingerprint {
        match self {
            Self::Live(model) => model.tokenizer.fingerprint(),
            Self::Recorded(trace, _) => trace.header.tokenizer(),
        }
    }
}

impl Models {
    /// Loads the models of a configuration: its target, its largest neural drafter as base and its
    /// smallest as small, the table and the options of its Max-Gram. In a replay a recording takes
    /// the target's place, and a tokenizer is there to show tokens as text.
    ///
    /// # Errors
    /// Models that cannot be loaded; an experiment that needs a drafter that the configuration does
    /// not have; a tokenizer that is not the recorded target's; a model that no file with costs is
    /// of.
    pub(crate) fn load(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        recorded: Option<Recording>,
        rules: TrainedRules,
    ) -> Result<Self> {
        let pool = config.pool(options);
        let target = match recorded {
            None => Answers::Live(pool.target(config)?),
            Some((trace, tokenizer)) => Answers::recorded(trace, tokenizer)?,
        };
        let mut drafters = drafters(definition, config)?;
        let vocabulary = target.vocabulary();
        let mut base = in_the_papers_settings(config);
        base.label = format!("{} with {}", definition.name, config.label);
        let neural = load_drafters(&pool, &base, &drafters, &vocabulary)?;
        let heads = match target.model() {
            Some(target) => heads(definition, config, &pool, target, &mut drafters)?,
            None => BTreeMap::new(),
        };
        let table = match drafters.get(&Role::Mag).and_then(bigram) {
            Some(locator) => Some(pool.table(locator, &vocabulary)?),
            None => None,
        };
        Ok(Self {
            pool,
            target,
            base,
            drafters,
            neural,
            heads,
            table,
            rules,
            assumed: definition.assumed,
            costs: None,
        })
    }

    /// The models, for samples: by the rule that samples without regard to what is drafted, so that
    /// all variants say the same.
    pub(crate) fn sampling(mut self, sampled: bool) -> Self {
        if sampled {
            self.base.target.rule = Rule::Coupled;
        }
        self
    }

    /// The models with costs of forwards from files, one of the target and of each neural drafter;
    /// without files, as it was.
    ///
    /// # Errors
    /// A model that no file is of.
    pub(crate) fn with_costs(self, files: &[(String, CostFile)]) -> Result<Self> {
        if files.is_empty() {
            return Ok(self);
        }
        let (target, context) = match &self.target {
            Answers::Live(model) => (&model.name, CONTEXT),
            Answers::Recorded(trace, _) => (&trace.header.model, trace.typical_context()),
        };
        let of = |model: &str| {
            let found = files.iter().find(|(_, file)| file.of.model == model);
            found
                .map(|(_, file)| file.times(context))
                .ok_or_else(|| no_costs(model))
        };
        let drafters = self
            .neural
            .iter()
            .map(|(&role, model)| Ok((role, of(&model.name)?)));
        Ok(Self {
            costs: Some((of(target)?, drafters.collect::<Result<_>>()?)),
            ..self
        })
    }

    /// Where figures of these models come from.
    pub(crate) fn evidence(&self) -> Evidence {
        match &self.target {
            Answers::Live(_) => Evidence::Measured,
            Answers::Recorded(..) => Evidence::Replayed,
        }
    }

    /// How the target reads its prompt.
    pub(crate) fn architecture(&self) -> Architecture {
        match &self.target {
            Answers::Live(model) => model.info().architecture,
            Answers::Recorded(trace, _) => trace.header.architecture,
        }
    }

    /// What the models' configuration asks questions with.
    pub(crate) fn prompt_template(&self) -> PromptTemplate {
        self.base.prompt()
    }

    /// The tokens of a text, where the target reads them.
    ///
    /// # Errors
    /// Text that the tokenizer refuses. A recorded target has none, and its prompts are tokens.
    pub(crate) fn encode(&self, text: &str) -> Result<Prompt> {
        match &self.target {
            Answers::Live(model) => {
                let tokens = model.tokenizer.encode(text)?;
                Ok(Prompt::new(model.info().architecture, tokens))
            }
            Answers::Recorded(trace, _) => Err(Error::needless_trace(&trace.label)),
        }
    }

    /// What turns the target's tokens into text; `None` for a recording that came without.
    pub(crate) fn tokenizer(&self) -> Option<&Tokenizer> {
        match &self.target {
            Answers::Live(model) => Some(&model.tokenizer),
            Answers::Recorded(_, tokenizer) => tokenizer.as_ref(),
        }
    }

    /// A cascade with sessions of its own. Its forwards are shared if it takes part with others.
    /// It answers tokens, which is all that is measured.
    ///
    /// # Errors
    /// What [`ModelPool::assemble`] fails with.
    pub(crate) fn cascade(&self, variant: &Variant, with: Option<&Participant>) -> Result<Cascade> {
        let config = self.config(variant)?;
        let mut target = self.target()?;
        let rule = variant.setting.rule.as_ref();
        if rule.is_some_and(DraftRule::weighs_times) {
            target.times = self.times(variant);
        }
        let pool = &self.pool;
        let assembly = Assembly::of(&config).target(target).sharing(with);
        Ok(pool.assemble(assembly)?.cascade)
    }

    /// What forwards of a variant are taken to cost by rules that weigh times: by files if there
    /// are any, each drafter its own.
    fn times(&self, variant: &Variant) -> Option<AssumedTimes> {
        let Some((target, drafters)) = &self.costs else {
            return self.assumed.map(|costs| self.assumed_times(costs, variant));
        };
        let of_variant = variant.drafters.iter();
        Some(AssumedTimes {
            clock: VirtualClock::default(),
            target: target.clone(),
            drafters: of_variant
                .filter_map(|role| drafters.get(role).cloned())
                .collect(),
            text: None,
        })
    }

    /// Times on a clock of their own; only their ratios matter. A drafter's is by its parameters if
    /// none is said.
    fn assumed_times(&self, costs: AssumedCosts, variant: &Variant) -> AssumedTimes {
        const FORWARD: f64 = 1e-3;
        let target = self
            .target
            .model()
            .map_or(0, |model| model.num_parameters());
        let share = |parameters: usize| parameters as f64 / target.max(1) as f64;
        let by_parameters = variant.drafters.iter().filter_map(|role| {
            let model = self.neural.get(role).map(|model| model.num_parameters());
            let head = self
                .heads
                .get(role)
                .map(|head| head.parameters_per_forward());
            model.or(head).map(share)
        });
        let drafters: Vec<f64> = match costs.drafter {
            Some(drafter) => vec![drafter],
            None => by_parameters.collect(),
        };
        let times = |cost: f64| RowTimes::linear(cost * FORWARD, costs.row);
        AssumedTimes {
            clock: VirtualClock::default(),
            target: times(1.0),
            drafters: drafters.into_iter().map(times).collect(),
            text: None,
        }
    }

    /// A cascade that drafts as many tokens as the target, which will say these, will keep. A
    /// statistical drafter's proposal is cut there; how far a neural one gets is found by drafting
    /// until the first rejection, in a generation before.
    ///
    /// # Errors
    /// What [`cascade`](Self::cascade) and generating fail with.
    pub(crate) fn oracle(
        &self,
        variant: &Variant,
        said: &[TokenId],
        generate: impl Fn(&mut Cascade) -> Result<GenerationOutput>,
    ) -> Result<Cascade> {
        let config = self.config(variant)?;
        let (oracle, text) = Oracle::new();
        let assembly = Assembly::of(&config).target(self.target()?);
        let mut cascade = self.pool.assemble(assembly.schedule(oracle))?.cascade;
        text.set(said);
        if !variant.drafters.iter().any(|role| role.is_neural()) {
            return Ok(cascade);
        }
        let lengths = KnownLengths::of(&generate(&mut cascade)?);
        let assembly = Assembly::of(&config).target(self.target()?);
        Ok(self.pool.assemble(assembly.schedule(lengths))?.cascade)
    }

    /// The configuration that a variant is.
    fn config(&self, variant: &Variant) -> Result<Config> {
        let roles = variant.drafters.iter();
        // All roles that the definition names are there.
        let drafters = roles
            .filter_map(|role| self.drafters.get(role))
            .cloned()
            .collect();
        let rule = variant.setting.rule.as_ref();
        let schedule = match rule {
            Some(DraftRule::Online) => ScheduleConfig::Online,
            _ => variant.k.clone().into(),
        };
        let mut config = self.base.clone().with_drafters(drafters, schedule)?;
        config.lenience = variant.lenience;
        for drafter in config.drafters_mut() {
            // The variant's own rule alone, whatever the models' configuration has.
            let own = rule.and_then(|rule| self.stop_rule(rule));
            // Networks read what neural drafters compute.
            let fits = |own: &StopRuleConfig| {
                own.network().is_none() || matches!(drafter, Drafter::Neural { .. })
            };
            let own = own.filter(fits);
            *drafter.stop_rule_mut() = own;
            if let Drafter::Neural {
                model, branching, ..
            } = drafter
            {
                model.rule = Rule::Iterated;
                *branching = Branching::main_path(variant.children);
            }
        }
        Ok(config)
    }

    /// The stop rule of the drafters; `None` if the schedule decides.
    fn stop_rule(&self, rule: &DraftRule) -> Option<StopRuleConfig> {
        if let DraftRule::Stop(rule) = rule {
            return Some(rule.clone());
        }
        let name = rule.trained()?;
        let path = self.rules.path(name);
        Some(match name.network {
            Network::Classifier => {
                let mut entry = ClassifierEntry::new(path);
                entry.threshold = name.threshold;
                StopRuleConfig::Classifier(entry)
            }
            Network::Head => {
                let mut entry = HeadEntry::new(path);
                entry.threshold = name.threshold;
                StopRuleConfig::Head(entry)
            }
        })
    }

    fn target(&self) -> Result<Target> {
        Ok(match &self.target {
            Answers::Live(model) => {
                let mut target = Target::from(&**model);
                target.codec = None;
                target
            }
            Answers::Recorded(trace, _) => {
                let scorer = TraceScorer::new(trace.clone())?;
                Target::new(scorer, &trace.label, self.target.vocabulary())
                    .with_eos(trace.header.eos.iter().copied())
            }
        })
    }

    /// By how much the target's logit for one token is above that for another after a prompt and
    /// some tokens; `None` for a recording.
    pub(crate) fn gap(
        &self,
        prompt: &Prompt,
        said: &[TokenId],
        token: TokenId,
        other: TokenId,
    ) -> Result<Option<f32>> {
        let Answers::Live(model) = &self.target else {
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
    pub(crate) fn planned(&self) -> Result<Vec<PlannedModel>> {
        let mut planned = vec![match &self.target {
            Answers::Live(model) => planned_model("target", model)?,
            Answers::Recorded(trace, _) => planned_trace(trace),
        }];
        for (role, model) in &self.neural {
            if let Some(Drafter::Neural { .. }) = self.drafters.get(role) {
                planned.push(planned_model(role.name(), model)?);
            }
        }
        for (role, head) in &self.heads {
            planned.push(planned_head(role.name(), head)?);
        }
        if let Some(table) = &self.table {
            let (place, file) = ("bigram table", table.file());
            let hash = (base_name(file), Sha256::of(table.as_bytes()));
            planned.push(entry(place, 0, None, weights(place, file, [hash])));
        }
        Ok(planned)
    }

    /// Options of Max-Gram as they are put on record.
    pub(crate) fn max_gram_options(&self) -> Option<String> {
        let max_gram = self.drafters.values().find_map(Drafter::settings);
        max_gram.map(|config: &MaxGramConfig| {
            let MaxGramConfig { occurrence, min_match, branches, width, .. } = config;
            format!(
                "MaxGramOptions {{ occurrence: {occurrence:?}, min_match: {min_match}, branches: {branches}, \
                 width: {width} }}"
            )
        })
    }

    /// Time of a forward of one row in each neural model, by place: of the files with costs if
    /// there are any, else the median of a short bench in a context of 64 tokens; of a recording,
    /// nothing.
    ///
    /// # Errors
    /// Forwards that fail.
    pub(crate) fn forward_times(&self) -> Result<Vec<(String, Duration)>> {
        if let Some((target, drafters)) = &self.costs {
            let drafters = drafters.iter().map(|(role, times)| (role.name(), times));
            let all = std::iter::once(("target", target)).chain(drafters);
            let one = |times: &RowTimes| Duration::from_secs_f64(times.seconds(1));
            return Ok(all
                .map(|(place, times)| (place.to_owned(), one(times)))
                .collect());
        }
        let Answers::Live(target) = &self.target else {
            return Ok(Vec::new());
        };
        let drafters = self.neural.iter().map(|(role, model)| (role.name(), model));
        let bench = ForwardBench {
            contexts: vec![CONTEXT],
            rows: vec![1],
            repeats: 51,
            ..ForwardBench::default()
        };
        let mut times = Vec::new();
        for (place, model) in std::iter::once(("target", target)).chain(drafters) {
            let costs = bench.run(&mut model.session())?;
            times.extend(costs.first().map(|cost| (place.to_owned(), cost.median)));
        }
        Ok(times)
    }
}

/// The models' configuration with the settings that the papers' experiments share, in place of its
/// own: no drafters yet, strict reviews of statistical drafts, each drafter after the one before,
/// and room for the widest tree. Texts end where the target ends them.
fn in_the_papers_settings(config: &Config) -> Config {
    let mut base = config.plain();
    base.target.name = "target".to_owned();
    base.target.rule = Rule::Iterated;
    base.lenience = Lenience::STRICT;
    base.statistical_lenience = Lenience::STRICT;
    base.placement = Placement::Sequential;
    base.max_nodes = MAX_NODES;
    base.generation.ignore_eos = false;
    base
}

/// The drafters of all roles that the rows of an experiment name, from the models' configuration,
/// called by their roles.
fn drafters(definition: &Definition, config: &Config) -> Result<BTreeMap<Role, Drafter>> {
    let roles = definition.rows.iter().flat_map(|row| &row.drafters);
    let mut drafters = BTreeMap::new();
    let optional = definition.kind == ExperimentKind::Drafters;
    for &role in roles.filter(|role| !Role::HEADS.contains(role)) {
        match drafter(role, config, optional) {
            Ok(drafter) => drafters.insert(role, drafter.named(role.name())),
            // Rows that name it are left out.
            Err(_) if optional => None,
            Err(what) => {
                let (models, name) = (&config.label, &definition.name);
                let problem = format!(
                    "the experiment `{name}` needs a {what}, and there is none; add one to its `drafters`"
                );
                return Err(Error::at(ErrorKind::Request, models, problem));
            }
        };
    }
    Ok(drafters)
}

/// The heads that the rows of an experiment name and the models' configuration has, by their kinds;
/// they are added to the drafters.
fn heads(
    definition: &Definition,
    config: &Config,
    pool: &ModelPool,
    target: &LoadedModel,
    drafters: &mut BTreeMap<Role, Drafter>,
) -> Result<BTreeMap<Role, Arc<Head>>> {
    let named = |role: &Role| {
        let mut rows = definition.rows.iter();
        rows.any(|row| row.drafters.contains(role))
    };
    let mut heads = BTreeMap::new();
    let none = !Role::HEADS.iter().any(named);
    for drafter in config.drafters().iter().filter(|_| !none) {
        let model = match drafter {
            Drafter::Neural { model, .. } if model.is_head => model,
            _ => continue,
        };
        let head = pool.head_of(model, &target.model)?;
        let role = match head.kind() {
            "Medusa" => Role::Medusa,
            _ => Role::Eagle,
        };
        if named(&role) && !heads.contains_key(&role) {
            drafters.insert(role, drafter.clone().named(role.name()));
            heads.insert(role, head);
        }
    }
    Ok(heads)
}

/// The drafter of a role, or what the configuration lacks. What drafts from the text may be `usual`
/// where the configuration has no settings of it.
fn drafter(role: Role, config: &Config, usual: bool) -> std::result::Result<Drafter, &'static str> {
    let neural =
        |drafter: &&Drafter| matches!(drafter, Drafter::Neural { model, .. } if !model.is_head);
    let mut all_neural = config.drafters().iter().filter(neural);
    let max_gram = || {
        let found = config.drafters().iter().find_map(Drafter::settings);
        let usual = usual.then(MaxGramConfig::default);
        found.cloned().or(usual).ok_or("`max_gram`")
    };
    match role {
        Role::Base => all_neural.next().cloned().ok_or("neural drafter"),
        Role::Small => all_neural.next_back().cloned().ok_or("neural drafter"),
        Role::Mag => max_gram().map(Drafter::statistical::<MaxGramConfig>),
        Role::MagAlone => max_gram().map(|mut config: MaxGramConfig| {
            config.bigram = None;
            Drafter::statistical(config)
        }),
        Role::Tree => {
            let found = config.drafters().iter().find_map(Drafter::settings);
            let found: Option<&MaxGramTreeConfig> = found;
            Ok(Drafter::statistical(found.cloned().unwrap_or_default()))
        }
        Role::PromptLookup => Ok(Drafter::statistical(PromptLookupConfig::default())),
        Role::Eagle | Role::Medusa => Err("head"),
    }
}

/// Loads the neural drafters and checks that all drafters fit the target's vocabulary, before a
/// prompt is read.
fn load_drafters(
    pool: &ModelPool,
    base: &Config,
    drafters: &BTreeMap<Role, Drafter>,
    vocabulary: &Fingerprint,
) -> Result<BTreeMap<Role, Arc<LoadedModel>>> {
    let rows = vec![vec![0; drafters.len()]; drafters.len()];
    let k = KMatrix::new(rows, Convention::Added).map_err(cascade_engine::Error::from)?;
    let all = drafters.values().cloned().collect();
    let all = base.clone().with_drafters(all, k)?;
    let models = pool.drafters(&all, vocabulary)?;
    let models = drafters.keys().zip(models);
    Ok(models
        .filter_map(|(&role, model)| match model {
            DrafterModel::Neural { model, .. } => Some((role, model)),
            DrafterModel::Statistical(_) => None,
        })
        .collect())
}

fn no_costs(model: &str) -> Error {
    let message = format!(
        "--costs: no file has costs of {model}; measure them with `cascade bench model {model} --save FILE`"
    );
    Error::new(ErrorKind::Request, message)
}

fn bigram(drafter: &Drafter) -> Option<&cascade_ngram::TableLocator> {
    drafter.settings::<MaxGramConfig>()?.bigram.as_ref()
}

/// A model with the hashes of all files that its answers depend on.
fn planned_model(place: &str, model: &LoadedModel) -> Result<PlannedModel> {
    let loaded = &model.files;
    let all = loaded
        .weights
        .iter()
        .chain([&loaded.config])
        .chain(loaded.tokenizer.all());
    let files = hashes(all.chain(&loaded.generation_config))?;
    let (parameters, dtype) = (model.num_parameters(), model.dtype.as_str());
    let weights = weights(place, &model.name, files);
    Ok(entry(place, parameters, Some(dtype), weights))
}

fn entry(place: &str, parameters: usize, dtype: Option<&str>, weights: Weights) -> PlannedModel {
    PlannedModel {
        place: place.to_owned(),
        parameters,
        dtype: dtype.map(str::to_owned),
        weights,
    }
}

/// A head with the hashes of its files, and the parameters that drafting a token reads.
fn planned_head(place: &str, head: &Head) -> Result<PlannedModel> {
    let files = head.files();
    let hashes = hashes(files.weights.iter().chain([&files.config]))?;
    let weights = weights(place, head.name(), hashes);
    Ok(entry(place, head.parameters_per_forward(), None, weights))
}

fn hashes<'f>(files: impl Iterator<Item = &'f ModelFile>) -> Result<Vec<(String, Sha256)>> {
    let mut hashes = Vec::new();
    for file in files {
        hashes.push(match file {
            // Read piece by piece: it may be larger than the memory.
            ModelFile::Disk(path) => (base_name(&file.to_string()), Sha256::of_file(path)?),
            other => {
                let bytes = other.read().map_err(cascade_models::Error::from)?;
                (own_name(&other.to_string()), Sha256::of(&bytes))
            }
        });
    }
    Ok(hashes)
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
    let weights = weights("target (recorded)", &header.model, files);
    entry("target", 0, None, weights)
}

fn weights(name: &str, source: &str, files: impl IntoIterator<Item = (String, Sha256)>) -> Weights {
    Weights {
        name: name.to_owned(),
        source: source.to_owned(),
        files: files.into_iter().collect(),
    }
}
