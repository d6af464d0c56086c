//! From a configuration to the entries of its file.

use std::path::Path;

use cascade_engine::{Branching, Convention, DEFAULT_MAX_NODES, Expand, Rule};
use cascade_ngram::Builtin;

use crate::config::{Config, Drafter, GenerationSettings, Neural};
use crate::file::{BranchesEntry, Entry, File, GenerationEntry, HeadSource, KEntry, TreeEntry};
use crate::locator::{last_part, model_text};
use crate::reader::Reader;
use crate::stop_rule::StopRuleEntry;
use crate::{Error, ScheduleConfig};

impl Config {
    /// The configuration as a file: reading it gives the same cascade, wherever the file is, since
    /// folders are written as absolute paths. Most settings at their defaults are left out. With
    /// drafters of kinds that are not of this project, it is read by
    /// [`parse_with`](Self::parse_with).
    ///
    /// # Errors
    /// What reading refuses; a path that is not text ([`Error::Unwritable`]).
    pub fn to_yaml(&self) -> crate::Result<String> {
        let file = || File::<Builtin>::of(self).map_err(|problem| self.unwritable(problem));
        let base = Path::new("");
        let label = &self.label;
        // Nothing is written that reading would refuse.
        Reader { label, base }.config(file()?)?;
        serde_yaml::to_string(&file()?).map_err(|error| self.unwritable(error.to_string()))
    }

    fn unwritable(&self, problem: String) -> Error {
        Error::Unwritable {
            file: self.label.clone(),
            problem,
        }
    }
}

// What follows names all fields, so that one that is added is not forgotten.

impl<K> File<K> {
    fn of(config: &Config) -> Result<Self, String> {
        let Config {
            label: _,
            target,
            drafters,
            schedule,
            lenience,
            statistical_lenience,
            placement,
            max_nodes,
            prompt,
            generation,
            device,
        } = config;
        let k = schedule.k().filter(|k| k.size() > 0);
        let online = *schedule == ScheduleConfig::Online;
        Ok(Self {
            target: Entry::of_model(target)?,
            drafters: drafters
                .iter()
                .map(Entry::of_drafter)
                .collect::<Result<_, _>>()?,
            k: k.map(|k| KEntry {
                convention: Convention::Added,
                matrix: k.rows().to_vec(),
            }),
            schedule: online.then(|| schedule.name().to_owned()),
            lenience: Some(lenience.get()),
            statistical_lenience: Some(statistical_lenience.get())
                .filter(|&lenience| lenience != 1.0),
            tree: TreeEntry {
                max_nodes: Some(*max_nodes).filter(|&nodes| nodes != DEFAULT_MAX_NODES),
                placement: *placement,
            },
            prompt: prompt.map(|prompt| prompt.to_string()),
            generation: GenerationEntry::of(generation),
            device: Some(device.to_string()),
        })
    }
}

impl<K> Entry<K> {
    fn of_drafter(drafter: &Drafter) -> Result<Self, String> {
        let mut entry = match drafter {
            Drafter::Neural {
                model, branching, ..
            } => Self {
                branches: BranchesEntry::of(branching),
                ..Self::of_model(model)?
            },
            Drafter::Statistical { name, config, .. } => Self {
                name: Some(name.clone()).filter(|name| *name != config.own_name()),
                statistical: vec![config.clone()],
                ..Self::default()
            },
        };
        let stop_rule = drafter.stop_rule().cloned();
        entry.stop_rule = stop_rule.map(StopRuleEntry::of).transpose()?;
        Ok(entry)
    }

    fn of_model(neural: &Neural) -> Result<Self, String> {
        let Neural {
            name,
            source: at,
            tokenizer,
            dtype,
            cache_dtype,
            rule,
            device,
            is_head,
        } = neural;
        let model = model_text(at)?;
        // A head has the target's.
        let tokenizer = tokenizer.as_ref().filter(|_| !is_head);
        let mut entry = Self {
            name: Some(name.clone()).filter(|name| *name != last_part(&model)),
            model: Some(model),
            tokenizer: tokenizer.map(model_text).transpose()?,
            dtype: dtype.map(|dtype| dtype.to_string()),
            cache_dtype: cache_dtype.map(|cache| cache.to_string()),
            device: device.map(|device| device.to_string()),
            rule: Some(rule.to_string()).filter(|_| *rule != Rule::default()),
            ..Self::default()
        };
        entry.head = entry.model.take_if(|_| *is_head).map(HeadSource);
        Ok(entry)
    }
}

impl BranchesEntry {
    fn of(branching: &Branching) -> Option<Self> {
        let Branching {
            widths,
            expand,
            siblings,
        } = branching;
        (*branching != Branching::chain()).then(|| Self {
            widths: match expand {
                Expand::MostProbable => Vec::new(),
                _ => widths.clone(),
            },
            expand: *expand,
            siblings: *siblings,
        })
    }
}

impl GenerationEntry {
    fn of(generation: &GenerationSettings) -> Self {
        let GenerationSettings {
            max_new_tokens,
            ignore_eos,
            sampling,
            seed,
            stop,
            prompt_limit,
        } = generation;
        let stop = stop.iter().flat_map(|stop| stop.iter());
        let stated = sampling.stated();
        Self {
            max_new_tokens: Some(*max_new_tokens),
            ignore_eos: ignore_eos.then_some(true),
            temperature: stated.temperature,
            top_k: stated.top_k,
            top_p: stated.top_p,
            min_p: stated.min_p,
            repetition_penalty: stated.repetition_penalty,
            presence_penalty: stated.presence_penalty,
            frequency_penalty: stated.frequency_penalty,
            seed: Some(*seed).filter(|&seed| seed != 0),
            stop: stop.map(str::to_owned).collect(),
            max_prompt_tokens: prompt_limit.map(|limit| limit.max_tokens),
            truncate_prompt: prompt_limit.map(|limit| limit.truncate),
        }
    }
}
