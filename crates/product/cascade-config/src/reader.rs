//! From the entries of a file to checked values.

use std::path::Path;

use cascade_core::Decoding;
use cascade_engine::{
    check_exact, Branching, KMatrix, Options, Reviewer, Rule, StaticSchedule, StopSequences,
};
use cascade_models::{parse_dtype, DType, ModelSource};
use cascade_ngram::{MaxGramOptions, Occurrence};

use crate::config::{Drafter, Neural, Table};
use crate::file::{
    BranchesEntry, DrafterEntry, GenerationEntry, KEntry, MaxGramEntry, NeuralEntry,
    OccurrenceEntry,
};
use crate::{place, Error, PromptError, PromptTemplate, Result, SamplingSettings};

/// Turns entries into checked values, and knows what to call them in messages.
pub(crate) struct Reader<'a> {
    pub(crate) label: &'a str,
    pub(crate) base: &'a Path,
}

impl Reader<'_> {
    fn error(&self, key: &str, problem: impl Into<String>, cure: impl Into<String>) -> Error {
        Error::Entry {
            file: self.label.to_owned(),
            key: key.to_owned(),
            problem: problem.into(),
            cure: cure.into(),
        }
    }

    fn cascade(&self, source: impl Into<cascade_engine::Error>) -> Error {
        Error::Cascade {
            file: self.label.to_owned(),
            source: Box::new(source.into()),
        }
    }

    pub(crate) fn neural(&self, key: &str, entry: NeuralEntry) -> Result<Neural> {
        if entry.lenience.is_some() {
            return Err(self.error(
                &format!("{key}.lenience"),
                "the target reviews strictly, or its answers would change",
                "remove it; `lenience` at the top loosens the reviews of the drafters",
            ));
        }
        let source = self.source(&format!("{key}.model"), &entry.model)?;
        let tokenizer = entry
            .tokenizer
            .map(|text| self.source(&format!("{key}.tokenizer"), &text))
            .transpose()?;
        let dtype = match entry.dtype {
            None => DType::F32,
            Some(text) => parse_dtype(&text).map_err(|source| Error::Model {
                file: self.label.to_owned(),
                key: format!("{key}.dtype"),
                source: Box::new(source),
            })?,
        };
        Ok(Neural {
            name: entry.name.unwrap_or_else(|| last_part(&entry.model)),
            source,
            tokenizer,
            dtype,
            rule: self.rule(key, entry.rule)?,
        })
    }

    fn rule(&self, key: &str, name: Option<String>) -> Result<Rule> {
        match name {
            None => Ok(Rule::default()),
            Some(name) => name.parse().map_err(|error: cascade_engine::UnknownRule| {
                let cure = format!("`{}` is the default", Rule::default());
                self.error(&format!("{key}.rule"), error.to_string(), cure)
            }),
        }
    }

    fn branching(&self, key: &str, entry: Option<BranchesEntry>) -> Result<Branching> {
        let Some(entry) = entry else {
            return Ok(Branching::chain());
        };
        let key = format!("{key}.branches");
        if entry.widths.is_empty() {
            let cure = "give the number of children at each depth; the last holds for all below";
            return Err(self.error(&format!("{key}.widths"), "it is empty", cure));
        }
        for (depth, &width) in entry.widths.iter().enumerate() {
            self.positive(&key, &format!("widths[{depth}]"), width)?;
        }
        Ok(Branching {
            widths: entry.widths,
            expand: entry.expand,
            siblings: entry.siblings,
        })
    }

    fn source(&self, key: &str, text: &str) -> Result<ModelSource> {
        place::model(text, self.base).map_err(|(problem, cure)| self.error(key, problem, cure))
    }

    fn table(&self, key: &str, text: &str) -> Result<Table> {
        place::table(text, self.base).map_err(|(problem, cure)| self.error(key, problem, cure))
    }

    pub(crate) fn drafter(&self, key: &str, entry: DrafterEntry) -> Result<Drafter> {
        let DrafterEntry {
            model,
            name,
            tokenizer,
            dtype,
            rule,
            branches,
            max_gram,
            bigram,
            width,
            prompt_lookup,
        } = entry;
        let of_neural =
            tokenizer.is_some() || dtype.is_some() || rule.is_some() || branches.is_some();
        if model.is_none() && of_neural {
            return Err(self.error(
                key,
                "a statistical drafter has no tokenizer, no dtype, no rule and no `branches` of its own",
                "remove them",
            ));
        }
        if bigram.is_none() && width.is_some() {
            return Err(self.error(
                &format!("{key}.width"),
                "only a bigram table has a width here",
                "remove it; Max-Gram's stands inside `max_gram`",
            ));
        }
        let or = |default: &str| name.clone().unwrap_or_else(|| default.to_owned());
        match (model, max_gram, bigram, prompt_lookup) {
            (Some(model), None, None, None) => {
                let entry = NeuralEntry {
                    model,
                    name,
                    tokenizer,
                    dtype,
                    rule,
                    lenience: None,
                };
                Ok(Drafter::Neural {
                    model: self.neural(key, entry)?,
                    branching: self.branching(key, branches)?,
                })
            }
            (None, Some(entry), None, None) => self.max_gram(key, or("max-gram"), entry),
            (None, None, Some(table), None) => Ok(Drafter::Bigram {
                name: or("bigram"),
                table: self.table(&format!("{key}.bigram"), &table)?,
                width: self.positive(key, "width", width.unwrap_or(1))?,
            }),
            (None, None, None, Some(entry)) => Ok(Drafter::PromptLookup {
                name: or("prompt-lookup"),
                max_ngram: self.positive(key, "max_ngram", entry.max_ngram.unwrap_or(3))?,
                branches: self.positive(key, "branches", entry.branches.unwrap_or(1))?,
            }),
            _ => Err(self.error(
                key,
                "it is not clear what this drafter is",
                "give exactly one of `model`, `max_gram`, `bigram` and `prompt_lookup`",
            )),
        }
    }

    fn max_gram(&self, key: &str, name: String, entry: MaxGramEntry) -> Result<Drafter> {
        let defaults = MaxGramOptions::default();
        let bigram = entry
            .bigram
            .map(|text| self.table(&format!("{key}.max_gram.bigram"), &text))
            .transpose()?;
        let occurrence = match entry.occurrence {
            None => defaults.occurrence,
            Some(OccurrenceEntry::Earliest) => Occurrence::Earliest,
            Some(OccurrenceEntry::Latest) => Occurrence::Latest,
        };
        let count = |name: &str, value: Option<usize>, default: usize| {
            self.positive(key, &format!("max_gram.{name}"), value.unwrap_or(default))
        };
        Ok(Drafter::MaxGram {
            name,
            bigram,
            options: MaxGramOptions {
                occurrence,
                min_match: count("min_match", entry.min_match, defaults.min_match)?,
                branches: count("branches", entry.branches, defaults.branches)?,
                width: count("width", entry.width, defaults.width)?,
            },
        })
    }

    pub(crate) fn positive(&self, key: &str, what: &str, value: usize) -> Result<usize> {
        if value == 0 {
            return Err(self.error(&format!("{key}.{what}"), "it is 0", "give 1 or more"));
        }
        Ok(value)
    }

    pub(crate) fn k_matrix(&self, entry: Option<KEntry>, drafters: usize) -> Result<KMatrix> {
        let k = match entry {
            Some(entry) => KMatrix::new(entry.matrix, entry.convention),
            None if drafters == 0 => KMatrix::new(Vec::new(), Default::default()),
            None => return Err(self.cascade(cascade_engine::Error::NoKMatrix { drafters })),
        };
        let k = k.map_err(|error| self.cascade(error))?;
        if k.size() != drafters {
            return Err(self.cascade(cascade_engine::Error::KMatrixSize {
                size: k.size(),
                drafters,
            }));
        }
        Ok(k)
    }

    /// Refuses before anything is loaded what the builder would refuse after.
    pub(crate) fn check_exact(
        &self,
        target: &Neural,
        drafters: &[Drafter],
        k: &KMatrix,
    ) -> Result<()> {
        let chain = Branching::chain();
        let target = Reviewer {
            name: &target.name,
            rule: &target.rule,
            branching: &chain,
        };
        let drafters = drafters.iter().map(|drafter| match drafter {
            Drafter::Neural { model, branching } => Some(Reviewer {
                name: &model.name,
                rule: &model.rule,
                branching,
            }),
            _ => None,
        });
        let levels: Vec<_> = std::iter::once(Some(target)).chain(drafters).collect();
        check_exact(&levels, &StaticSchedule::new(k.clone())).map_err(|error| self.cascade(error))
    }

    pub(crate) fn lenience(&self, key: &str, value: Option<f32>) -> Result<f32> {
        let value = value.unwrap_or(1.0);
        match cascade_engine::Lenience::new(value) {
            Ok(_) => Ok(value),
            Err(error) => Err(self.error(key, error.to_string(), "1 is the default")),
        }
    }

    pub(crate) fn prompt(&self, name: Option<String>) -> Result<PromptTemplate> {
        match name {
            None => Ok(PromptTemplate::Raw),
            Some(name) => name.parse().map_err(|error: PromptError| {
                self.error("prompt", error.to_string(), "`raw` is the default")
            }),
        }
    }

    pub(crate) fn sampling(&self, entry: &GenerationEntry) -> Result<(SamplingSettings, Decoding)> {
        let settings = SamplingSettings {
            temperature: entry.temperature.unwrap_or(0.0),
            top_k: entry.top_k,
            top_p: entry.top_p,
            min_p: entry.min_p,
        };
        match settings.decoding() {
            Ok(decoding) => Ok((settings, decoding)),
            Err(error) => {
                let cure = "a temperature of 0 is greedy decoding, the default";
                Err(self.error("generation", error.to_string(), cure))
            }
        }
    }

    pub(crate) fn options(&self, entry: &GenerationEntry, decoding: Decoding) -> Result<Options> {
        let defaults = Options::default();
        let stop = match &entry.stop {
            none if none.is_empty() => None,
            some => Some(StopSequences::new(some).map_err(|error| self.cascade(error))?),
        };
        let (max_new_tokens, seed) = (defaults.max_new_tokens, defaults.seed);
        Ok(defaults
            .with_max_new_tokens(entry.max_new_tokens.unwrap_or(max_new_tokens))
            .with_stop(stop)
            .with_decoding(decoding)
            .with_seed(entry.seed.unwrap_or(seed)))
    }
}

/// `flan-t5-base` of `google/flan-t5-base@main`; `demo-t5-base` of `embedded:demo-t5-base`.
fn last_part(source: &str) -> String {
    let source = source.trim_end_matches('/');
    let without_revision = match source.split_once('@') {
        Some((id, _)) if !id.starts_with('.') => id,
        _ => source,
    };
    let last = without_revision.rsplit(['/', ':']).next();
    last.unwrap_or(source).to_owned()
}
