//! Configurations that are written are read as they were: random ones, of all settings.
//!
//! Structures are put together field by field, so that one with a new field does not compile until
//! the field is drawn here; and to be equal, it has to be written and read.

use cascade_core::StatedSampling;
use cascade_engine::{
    Branching, Convention, Expand, KMatrix, Lenience, Placement, Rule, Siblings, StopSequences,
};
use cascade_models::{CacheType, DType};
use cascade_ngram::{
    BigramConfig, MaxGramConfig, MaxGramTreeConfig, Occurrence, PromptLookupConfig, TableLocator,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::Neural;
use crate::{
    ClassifierEntry, Config, DeviceSpec, Drafter, Error, GenerationSettings, HeadEntry,
    PromptLimit, PromptTemplate, SamplingSettings, ScheduleConfig, StopRuleConfig, Truncate,
    model_source,
};

/// Draws settings.
struct Draw(StdRng);

impl Draw {
    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.random_range(0..all.len())].clone()
    }

    fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.0.random_bool(0.5).then(|| draw(self))
    }

    fn count(&mut self) -> usize {
        self.0.random_range(1..40)
    }

    fn share(&mut self) -> f32 {
        self.0.random_range(0.0..1.0)
    }

    /// Words that YAML may take for something else.
    fn text(&mut self) -> String {
        let words: Vec<&str> =
            "a,true,null,~,1e3,0x1F,no,- x,x: y,# z, x,y ,\",',é,\n,\t,{},[,&a,*a,!t,\
            %,|,>,\\,2026-01-01,\u{85},\u{feff},\u{1f600},\r\n,"
                .split(',')
                .collect();
        let count = self.0.random_range(1..4);
        (0..count).map(|_| self.of(&words)).collect()
    }

    /// A text that may be a part of a path.
    fn path(&mut self) -> String {
        let text = self.text().replace('\\', "_");
        format!("/models/{text}z")
    }

    fn table(&mut self) -> TableLocator {
        TableLocator::File(self.path().into())
    }

    fn neural(&mut self) -> Neural {
        let source = match self.0.random_range(0..4) {
            0 => "org/name".to_owned(),
            1 => "org/name@main".to_owned(),
            2 => format!("{}.gguf", self.path()),
            _ => self.path(),
        };
        let name = match self.maybe(Self::text) {
            Some(text) => text,
            None => crate::locator::last_part(&source),
        };
        Neural {
            name,
            source: model_source(&source).unwrap(),
            tokenizer: self.maybe(|draw| model_source(&draw.path()).unwrap()),
            dtype: self.maybe(|draw| draw.of(&DType::ALL)),
            cache_dtype: self.maybe(|draw| draw.of(&CacheType::ALL)),
            rule: self.of(&[
                Rule::Coupled,
                Rule::Match,
                Rule::Speculative,
                Rule::Iterated,
            ]),
            device: self.maybe(Self::device),
            is_head: false,
        }
    }

    /// Some of the neural drafters are heads over the target.
    fn with_head(&mut self, mut drafter: Drafter, target: &Neural) -> Drafter {
        if let Drafter::Neural { model, .. } = &mut drafter
            && self.0.random_bool(0.3)
            && !model.source.is_gguf()
        {
            let Neural {
                tokenizer, is_head, ..
            } = Neural::head(model.source.clone(), target);
            (model.tokenizer, model.is_head) = (tokenizer, is_head);
        }
        drafter
    }

    fn device(&mut self) -> DeviceSpec {
        let gpus = [
            DeviceSpec::Cuda(self.count()),
            DeviceSpec::Metal(self.count()),
        ];
        self.of(&[
            DeviceSpec::Auto,
            DeviceSpec::Cpu,
            DeviceSpec::CandleCpu,
            gpus[0],
            gpus[1],
        ])
    }

    fn branching(&mut self) -> Branching {
        let widths = self.0.random_range(1..4);
        Branching {
            widths: (0..widths).map(|_| self.0.random_range(1..5)).collect(),
            expand: self.of(&[Expand::MainPath, Expand::AllLeaves]),
            siblings: self.of(&[
                Siblings::TopK,
                Siblings::WithReplacement,
                Siblings::WithoutReplacement,
            ]),
        }
    }

    fn stop_rule(&mut self, neural: bool) -> StopRuleConfig {
        let rules = if neural { 7 } else { 5 };
        let rule = match self.0.random_range(0..rules) {
            0 => StopRuleConfig::Length(self.count()),
            1 => StopRuleConfig::Heuristic {
                start: self.count(),
            },
            2 => StopRuleConfig::Confidence(self.share()),
            3 => StopRuleConfig::AdaptiveConfidence {
                start: self.share(),
            },
            4 => StopRuleConfig::Mdp {
                cost: self.0.random_range(0.01..9.0),
                delta: self.0.random_range(0.0..9.0),
            },
            5 => StopRuleConfig::Classifier(ClassifierEntry {
                file: self.path().into(),
                threshold: self.maybe(Self::share),
                longest: self.maybe(Self::count),
            }),
            _ => StopRuleConfig::Head(HeadEntry {
                folder: self.path().into(),
                threshold: self.maybe(Self::share),
                shortest: self.maybe(Self::count),
                longest: self.maybe(Self::count),
            }),
        };
        // A new rule is drawn above, and then it is named here.
        match rule {
            StopRuleConfig::Length(_)
            | StopRuleConfig::Heuristic { .. }
            | StopRuleConfig::Confidence(_)
            | StopRuleConfig::AdaptiveConfidence { .. }
            | StopRuleConfig::Mdp { .. }
            | StopRuleConfig::Classifier(_)
            | StopRuleConfig::Head(_) => rule,
        }
    }

    /// The fields of these settings are all drawn in `cascade-ngram`.
    fn statistical(&mut self) -> Drafter {
        match self.0.random_range(0..4) {
            0 => Drafter::statistical(MaxGramConfig {
                bigram: self.maybe(Self::table),
                occurrence: self.of(&[Occurrence::Earliest, Occurrence::Latest]),
                width: self.count(),
                ..MaxGramConfig::default()
            }),
            1 => Drafter::statistical(MaxGramTreeConfig {
                table: self.maybe(Self::table),
                min_probability: self.share(),
                ..MaxGramTreeConfig::default()
            }),
            2 => {
                let mut config = BigramConfig::new(self.table());
                config.width = self.count();
                Drafter::statistical(config)
            }
            _ => {
                let mut config = PromptLookupConfig::default();
                config.branches = self.count();
                Drafter::statistical(config)
            }
        }
    }

    fn drafter(&mut self) -> Drafter {
        if self.0.random_bool(0.4) {
            let mut drafter = self.statistical();
            *drafter.stop_rule_mut() = self.maybe(|draw| draw.stop_rule(false));
            return match self.maybe(Self::text) {
                Some(name) => drafter.named(name),
                None => drafter,
            };
        }
        Drafter::Neural {
            model: Box::new(self.neural()),
            branching: match self.maybe(Self::branching) {
                Some(branching) => branching,
                None => Branching::chain(),
            },
            stop_rule: self.maybe(|draw| draw.stop_rule(true)),
        }
    }

    fn generation(&mut self) -> GenerationSettings {
        let (top_k, top_p, min_p) = (
            self.maybe(Self::count),
            self.maybe(Self::share),
            self.maybe(Self::share),
        );
        let temperature = self.maybe(Self::share).unwrap_or(0.0);
        let top_p = top_p.map(|p| p.max(0.01));
        let sampling = SamplingSettings::try_from(StatedSampling {
            temperature: self.maybe(|_| temperature),
            top_k,
            top_p,
            min_p,
            repetition_penalty: self.maybe(|draw| 1.0 + draw.share()),
            presence_penalty: self.maybe(Self::share),
            frequency_penalty: self.maybe(Self::share),
        });
        let texts = |draw: &mut Self| [draw.text() + "x", draw.text() + "y"];
        GenerationSettings {
            max_new_tokens: self.count(),
            ignore_eos: self.0.random_bool(0.5),
            sampling: sampling.unwrap(),
            seed: self.of(&[0, 7, u64::MAX]),
            stop: self
                .maybe(texts)
                .map(|texts| StopSequences::new(texts).unwrap()),
            prompt_limit: self.maybe(|draw| PromptLimit {
                max_tokens: draw.count(),
                truncate: draw.of(&[Truncate::Refuse, Truncate::Left, Truncate::Right]),
            }),
        }
    }

    fn lenience(&mut self) -> Lenience {
        let above = self.maybe(Self::share).unwrap_or(0.0);
        Lenience::new(1.0 + above).unwrap()
    }

    fn schedule(&mut self, drafters: usize) -> ScheduleConfig {
        if self.0.random_bool(0.3) {
            return ScheduleConfig::Online;
        }
        let mut entry = |row: usize, column: usize| {
            if column < row {
                0
            } else {
                self.0.random_range(0..9)
            }
        };
        let rows = (0..drafters).map(|row| (0..drafters).map(|j| entry(row, j)).collect());
        let k = KMatrix::new(rows.collect(), Convention::Added).unwrap();
        ScheduleConfig::Static(k)
    }

    fn config(&mut self) -> Config {
        let drafters = self.0.random_range(0..4);
        let target = self.neural();
        let drafter = |draw: &mut Self| {
            let drafter = draw.drafter();
            draw.with_head(drafter, &target)
        };
        Config {
            label: "random".to_owned(),
            drafters: (0..drafters).map(|_| drafter(self)).collect(),
            target: target.clone(),
            schedule: self.schedule(drafters),
            lenience: self.lenience(),
            statistical_lenience: self.lenience(),
            placement: self.of(&[Placement::Sequential, Placement::Merged]),
            max_nodes: self.count(),
            prompt: self.maybe(|draw| draw.of(&PromptTemplate::ALL)),
            generation: self.generation(),
            device: self.device(),
        }
    }
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let mut draw = Draw(StdRng::seed_from_u64(1));
    let (mut written, mut heads) = (0, 0);
    for case in 0..3000 {
        let config = draw.config();
        let yaml = match config.to_yaml() {
            Ok(yaml) => yaml,
            Err(error @ Error::Unwritable { .. }) => panic!("{error}: {config:#?}"),
            // Settings at odds with each other: what reading refuses is not written.
            Err(_) => continue,
        };
        let again = Config::parse(&yaml, "random", "/elsewhere")
            .unwrap_or_else(|error| panic!("{case}: {error}\n{yaml}\n{config:#?}"));
        assert_eq!(format!("{again:#?}"), format!("{config:#?}"), "{yaml}");
        written += 1;
        let head = |line: &str| line.trim_start_matches(['-', ' ']).starts_with("head: ");
        heads += usize::from(yaml.lines().any(head));
    }
    assert!(written > 500 && heads > 20, "{written}, {heads} with heads");
}

#[test]
fn a_head_is_named_in_place_of_a_model() {
    let read = |drafter: &str| {
        let yaml = format!("target: {{ model: /t, tokenizer: /words }}\ndrafters: [{drafter}]");
        Config::parse(&yaml, "c.yaml", "")
    };
    let config = read("{ head: /heads/eagle, dtype: q8_0 }").unwrap();
    let Drafter::Neural { model, .. } = &config.drafters()[0] else {
        panic!("a head is a neural drafter");
    };
    assert!(model.is_head && model.dtype == Some(DType::Q8_0));
    assert_eq!(
        (model.name.as_str(), model.tokenizer.as_ref()),
        ("eagle", Some(&model_source("/words").unwrap()))
    );
    for (drafter, word) in [
        ("{ head: /h, model: /m }", "more than one"),
        ("{ head: /h, max_gram: {} }", "more than one"),
        ("{ head: /h, tokenizer: /w }", "drafters[0].tokenizer"),
        ("{ head: /h.gguf }", "GGUF"),
        ("{ head: { folder: /h } }", "stop_rule: { head: … }"),
        (
            "{ head: /h, stop_rule: { head: { folder: /n } } }",
            "a head computes nothing that a head could read",
        ),
    ] {
        let message = read(drafter).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn what_reading_refuses_is_not_written() {
    let mut config = Config::new(Neural::new(model_source("/models/x").unwrap()));
    config.max_nodes = 0;
    let error = config.to_yaml().unwrap_err().to_string();
    assert!(error.contains("tree.max_nodes"), "{error}");
}
