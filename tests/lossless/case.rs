//! A case: settings that are drawn from a seed, and what they are called.

use std::fmt::{self, Debug};
use std::time::Duration;

use cascade_config::{ClassifierEntry, Config, Drafter, HeadEntry, StopRuleConfig};
use cascade_core::{Architecture, Penalties, Prompt, TokenId};
use cascade_engine::{Branching, Expand, Options, Placement, Rule, Siblings};
use cascade_eval::lossless::{settings, with_random_settings};
use cascade_models::{CacheType, DType};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::models::{Family, HEADS_TARGET, Models, TOY_TOKENS, goldens, toy_drafters};

/// A case's seed, and its number among the cases of that seed.
pub(crate) type CaseId = (u64, u64);

/// Beside whom the texts of a case are generated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Company {
    /// One after the other by one cascade, with one of [`Models::threads`].
    Alone(Option<usize>),
    /// By a batch of so many cascades.
    Batch(usize),
    /// By cascades of their own that join, pause and leave.
    Threads,
}

/// One text of a case.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) prompt: Prompt,
    pub(crate) options: Options,
    /// Steps after which it is broken off.
    pub(crate) steps: Option<usize>,
    /// Time before it begins.
    pub(crate) wait: Duration,
    /// Which prefixes it shares with others, if any.
    pub(crate) scope: Option<usize>,
}

/// Settings of a cascade, and its texts.
pub(crate) struct Case {
    pub(crate) id: CaseId,
    pub(crate) drawn: Vec<(&'static str, String)>,
    /// What could have been drawn.
    pub(crate) offered: Vec<(&'static str, String)>,
    pub(crate) family: Family,
    pub(crate) config: Config,
    pub(crate) company: Company,
    /// The texts of each cascade.
    pub(crate) texts: Vec<Vec<Text>>,
    /// Whether each answer of the target is compared with that of a fresh session.
    pub(crate) rows_compared: bool,
    /// A further row's share of a forward, in place of the time that passes.
    pub(crate) assumed_times: Option<f64>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CASCADE_LOSSLESS_CASE={}:{}:", self.id.0, self.id.1)?;
        for (axis, value) in &self.drawn {
            write!(f, " {axis}={value}")?;
        }
        write!(f, "; {}", settings(&self.config))
    }
}

impl Case {
    pub(crate) fn draw(id: CaseId, models: &Models) -> Self {
        // Neighbouring numbers of neighbouring seeds are different cases.
        let seed = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id.1;
        let mut draw = Draw {
            rng: StdRng::seed_from_u64(seed),
            models,
            drawn: Vec::new(),
            offered: Vec::new(),
        };
        let family = draw.family();
        let config = draw.config(&family);
        draw.note_settings(&config);
        let alone = family.toy.is_some() || family.is_large();
        let companies = ["alone", "alone", "batch", "threads"];
        let company = draw.pick("company", &companies[..if alone { 1 } else { 4 }]);
        let texts = draw.texts(&family, &config, company);
        let mut assumed_times = None;
        let company = match company {
            "alone" => {
                let assumed = draw.pick("clock", &["measured", "measured", "assumed"]) == "assumed";
                assumed_times = assumed.then(|| draw.rng.random_range(0.0..0.5));
                let threads = draw.pick("threads", &["all", "all", "1", "3"]);
                Company::Alone(["1", "3"].iter().position(|&pool| pool == threads))
            }
            "batch" => Company::Batch(draw.rng.random_range(1..13)),
            _ => Company::Threads,
        };
        // A head reads the weights of its target, which another scorer would hide from a batch.
        let comparable = family.toy.is_none()
            && !matches!(company, Company::Batch(_))
            && (matches!(company, Company::Alone(_)) || !has_head(&config));
        let rows_compared = comparable && draw.pick("rows compared", &["no", "no", "yes"]) == "yes";
        Self {
            id,
            drawn: draw.drawn,
            offered: draw.offered,
            family,
            config,
            company,
            texts,
            rows_compared,
            assumed_times,
        }
    }
}

/// Whether a cascade has drafters that read states of its target.
pub(crate) fn has_head(config: &Config) -> bool {
    let mut drafters = config.drafters().iter();
    drafters.any(|drafter| matches!(drafter, Drafter::Neural { model, .. } if model.is_head))
}

/// Draws settings, and keeps what was drawn and what could have been.
struct Draw<'a> {
    rng: StdRng,
    models: &'a Models,
    drawn: Vec<(&'static str, String)>,
    offered: Vec<(&'static str, String)>,
}

impl Draw<'_> {
    /// One of the values of an axis. What stands there twice is drawn twice as often.
    fn pick<'v>(&mut self, axis: &'static str, values: &[&'v str]) -> &'v str {
        let drawn = *values.choose(&mut self.rng).unwrap();
        self.note(axis, drawn, values);
        drawn
    }

    fn note<V: Debug>(&mut self, axis: &'static str, drawn: V, values: &[V]) {
        let text = |value: &V| (axis, format!("{value:?}").trim_matches('"').to_owned());
        self.drawn.push(text(&drawn));
        self.offered.extend(values.iter().map(text));
    }

    /// A model; more often a toy, which is fast, and the one that has heads.
    fn family(&mut self) -> Family {
        let models = self.models;
        let often = ["toy-decoder", "toy-encoder", HEADS_TARGET.0];
        let chance = self.rng.random_range(0..100);
        let fits = |family: &&Family| family.is_large() == (chance == 0);
        let names = models.families.iter().filter(fits);
        let names: Vec<&str> = match chance {
            1..25 => often.to_vec(),
            _ => names.map(|family| &*family.name).collect(),
        };
        models.family(self.pick("family", &names)).clone()
    }

    /// The keys of a model in a type of weights and one of keys and values.
    fn typed(&mut self, family: &Family) -> Value {
        let mut entry = family.entry.clone();
        if family.toy.is_none() {
            let cache_types = CacheType::ALL.map(CacheType::as_str);
            entry["dtype"] = json!(self.pick("dtype", &DType::ALL.map(DType::as_str)));
            entry["cache_dtype"] = json!(self.pick("cache dtype", &cache_types));
        }
        entry
    }

    fn config(&mut self, family: &Family) -> Config {
        let greedy = self.rng.random();
        let mut target = self.typed(family);
        // By rules that draw, samples are not those of plain decoding.
        let draws = greedy && self.rng.random_bool(0.7);
        target["rule"] = json!(if draws { "match" } else { "coupled" });
        let count = self.rng.random_range(0..5);
        if count == 0 {
            self.pick("drafter", &["none"]);
        }
        let mut drafters: Vec<Value> = (0..count).map(|_| self.drafter(family)).collect();
        // Neural ones first, as they are larger.
        drafters.sort_by_key(|entry| entry.get("model").or(entry.get("head")).is_none());
        if target["rule"] == "match" {
            let neural = drafters
                .iter_mut()
                .filter(|entry| entry.get("model").is_some());
            neural.for_each(|entry| entry["rule"] = json!("match"));
        }
        let temperature = if greedy { 0.0 } else { 1.0 };
        let generation = json!({ "temperature": temperature });
        let yaml = json!({ "target": target, "drafters": drafters, "generation": generation });
        let config = Config::parse(&yaml.to_string(), "case", "").unwrap();
        let mut config = with_random_settings(&config, self.rng.random(), true).unwrap();
        config.generation.ignore_eos = self.pick("eos", &["ignored", "ends"]) == "ignored";
        self.change_drafters(&mut config);
        config
    }

    fn drafter(&mut self, family: &Family) -> Value {
        let models = self.models;
        let mut kinds = vec!["max_gram", "max_gram_tree", "prompt_lookup"];
        if family.table.is_some() {
            kinds.extend(["max_gram, table", "max_gram_tree, table", "bigram, table"]);
        }
        let neural = if family.toy.is_some() { "toy" } else { "model" };
        kinds.resize(2 * kinds.len(), neural);
        if family.name == HEADS_TARGET.0 {
            kinds.resize(2 * kinds.len(), "head");
        }
        let table = |key: &str| json!({ key: family.table });
        match self.pick("drafter", &kinds) {
            "toy" => {
                let toys = toy_drafters(family.toy.unwrap());
                toys.choose(&mut self.rng).unwrap().clone()
            }
            "model" => {
                let fits = |kin: &&Family| kin.vocabulary == family.vocabulary && !kin.is_large();
                let kin: Vec<&Family> = models.families.iter().filter(fits).collect();
                let model = self.pick("drafter's model", &["the target's", "another"]);
                let kin = match kin.choose(&mut self.rng) {
                    Some(kin) if model == "another" => kin,
                    _ => family,
                };
                self.typed(kin)
            }
            "head" => {
                let names: Vec<&str> = models.heads.iter().map(String::as_str).collect();
                let folder = goldens().join("heads").join(self.pick("head", &names));
                json!({ "head": folder })
            }
            "max_gram, table" => json!({ "max_gram": table("bigram") }),
            "max_gram_tree, table" => json!({ "max_gram_tree": table("table") }),
            "bigram, table" => json!({ "bigram": table("table") }),
            kind => json!({ kind: {} }),
        }
    }

    /// Lets drafters for which nobody drafts grow trees of the most probable nodes, and puts
    /// trained networks in the place of stop rules.
    fn change_drafters(&mut self, config: &mut Config) {
        let k = config.k().map(|k| k.rows().to_vec());
        let folder = self.models.folder.path();
        for (level, drafter) in config.drafters_mut().iter_mut().enumerate() {
            let row = k.as_ref().and_then(|rows| rows.get(level + 1));
            let is_alone = row.is_none_or(|row| row.iter().all(|&entry| entry == 0));
            let Drafter::Neural {
                model,
                branching,
                stop_rule,
                ..
            } = drafter
            else {
                continue;
            };
            let has_weights = !model.is_head && model.dtype.is_some();
            if is_alone && self.rng.random_bool(0.3) {
                *branching = Branching::chain();
                branching.expand = Expand::MostProbable;
                *stop_rule = None;
            } else if has_weights && stop_rule.is_some() && self.rng.random_bool(0.4) {
                let head = HeadEntry::new(folder.join("acceptance"));
                let classifier = ClassifierEntry::new(folder.join("classifier"));
                *stop_rule = Some(if model.name == HEADS_TARGET.0 {
                    StopRuleConfig::Head(head)
                } else {
                    StopRuleConfig::Classifier(classifier)
                });
            }
        }
    }

    /// Notes the settings that were drawn together.
    fn note_settings(&mut self, config: &Config) {
        let sampling = config.generation.sampling;
        let samplings = [
            ("greedy", sampling.decoding().is_greedy()),
            ("temperature", !sampling.decoding().is_greedy()),
            ("top_k", sampling.top_k().is_some()),
            ("top_p", sampling.top_p().is_some()),
            ("min_p", sampling.min_p().is_some()),
        ];
        for (name, _) in samplings.iter().filter(|(_, is_there)| *is_there) {
            self.note("sampling", *name, &samplings.map(|(name, _)| name));
        }
        self.note("rule", config.target.rule, &Rule::ALL);
        self.note("schedule", config.schedule().name(), &["static", "online"]);
        let placements = [Placement::Sequential, Placement::Merged];
        self.note("placement", config.placement, &placements);
        for drafter in config.drafters() {
            if let Drafter::Neural { branching, .. } = drafter {
                let expands = [Expand::MainPath, Expand::AllLeaves, Expand::MostProbable];
                self.note("expand", branching.expand, &expands);
                let siblings = [
                    Siblings::TopK,
                    Siblings::WithReplacement,
                    Siblings::WithoutReplacement,
                ];
                self.note("siblings", branching.siblings, &siblings);
            }
            let rules = [
                "none",
                "length",
                "heuristic",
                "confidence",
                "adaptive_confidence",
                "mdp",
            ];
            let rules = [&rules[..], &["classifier", "head"]].concat();
            let rule = drafter.stop_rule().map(ToString::to_string);
            let rule = rule.as_deref().unwrap_or("none").split(['=', ' ']).next();
            self.note("stop rule", rule.unwrap(), &rules);
        }
    }

    fn texts(&mut self, family: &Family, config: &Config, company: &str) -> Vec<Vec<Text>> {
        let (architecture, tokens, room) = match family.toy {
            Some(architecture) => (architecture, TOY_TOKENS, 120),
            None => {
                let target = self.models.pool.target(config).unwrap();
                let info = target.model.info();
                let room = info.max_context.unwrap_or(140).min(140);
                (info.architecture, info.vocab_size as TokenId, room)
            }
        };
        let prefixes = ["own", "alike", "shared"];
        let threads = company == "threads";
        let prefix = self.pick("prefix", &prefixes[..if threads { 3 } else { 2 }]);
        let logprobs = self.pick("log probabilities", &["none", "0", "3"]);
        let penalties = match self.pick("penalties", &["none", "none", "repetition", "all"]) {
            "none" => Penalties::NONE,
            "repetition" => Penalties::new(1.2, 0.0, 0.0).unwrap(),
            _ => Penalties::new(1.1, 0.4, 0.3).unwrap(),
        };
        let mut plan = Plan {
            architecture,
            tokens,
            // The demo's models are larger.
            room: if family.name.starts_with("demo") {
                80
            } else {
                room
            },
            trunk: Vec::new(),
            options: Options::default()
                .with_decoding(config.generation.sampling.decoding())
                .with_penalties(penalties)
                .with_logprobs(logprobs.parse().ok()),
            threads,
            shared: prefix == "shared",
        };
        if prefix != "own" {
            plan.trunk = self.tokens(tokens, plan.room);
        }
        let cascades = match company {
            "alone" => 1,
            // Seldom, since each of them takes time.
            _ if self.rng.random_ratio(1, 16) => 24,
            _ => self.rng.random_range(2..7),
        };
        let mut texts = Vec::new();
        for _ in 0..cascades {
            let count = self.rng.random_range(1..4);
            texts.push((0..count).map(|_| self.text(&plan)).collect());
        }
        texts
    }

    fn text(&mut self, plan: &Plan) -> Text {
        let count = match self.pick("prompt", &["short", "short", "long", "full"]) {
            "short" => self.rng.random_range(1..20),
            "long" => self.rng.random_range(plan.room / 2..plan.room),
            // Fuller than full is an error, whatever drafts.
            _ => plan.room - 4 + self.rng.random_range(0..6),
        };
        let most = plan.trunk.len().min(count);
        let kept = if self.rng.random() {
            most
        } else {
            self.rng.random_range(0..=most)
        };
        let rest = self.tokens(plan.tokens, count - kept);
        let prompt = [&plan.trunk[..kept], &rest].concat();
        let rng = &mut self.rng;
        let wait = *[0, 0, 100, 600].choose(rng).unwrap();
        let options = plan.options.clone().with_seed(rng.random());
        Text {
            prompt: Prompt::new(plan.architecture, prompt),
            options: options.with_max_new_tokens(rng.random_range(1..40)),
            steps: rng.random_bool(0.15).then(|| rng.random_range(0..6)),
            wait: Duration::from_micros(if plan.threads { wait } else { 0 }),
            scope: (plan.shared && rng.random_bool(0.8)).then(|| rng.random_range(0..2)),
        }
    }

    /// Random tokens; few different ones in every second text, which then repeats itself.
    fn tokens(&mut self, tokens: TokenId, count: usize) -> Vec<TokenId> {
        let tokens = if self.rng.random() { tokens } else { 3 };
        (0..count)
            .map(|_| self.rng.random_range(0..tokens))
            .collect()
    }
}

/// What the texts of a case have in common.
struct Plan {
    architecture: Architecture,
    /// Tokens of the vocabulary.
    tokens: TokenId,
    /// Tokens of a prompt, at most.
    room: usize,
    /// What prompts begin with.
    trunk: Vec<TokenId>,
    options: Options,
    threads: bool,
    shared: bool,
}
