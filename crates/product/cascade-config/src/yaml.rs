//! Configurations written as YAML.

use std::fmt::Write;
use std::path::Path;

use cascade_engine::{Branching, Expand, Placement, Rule, DEFAULT_MAX_NODES};
use cascade_models::ModelSource;
use cascade_ngram::{
    BigramConfig, MaxGramConfig, MaxGramTreeConfig, Occurrence, PromptLookupConfig, TableLocator,
};
use serde::Serialize;

use crate::{Config, Drafter, Error, GenerationSettings, Neural, Result};

impl Config {
    /// The configuration as a file: reading it gives the same cascade, wherever the file is, since
    /// folders are written as absolute paths. Settings at their defaults are left out.
    ///
    /// # Errors
    /// [`Error::Unwritable`] for a kind of drafter that is not of this project, and a path that is
    /// not text.
    pub fn to_yaml(&self) -> Result<String> {
        let mut out = String::new();
        let writer = Writer { config: self };
        writer.write(&mut out)?;
        Ok(out)
    }
}

struct Writer<'a> {
    config: &'a Config,
}

/// Adds a line; writing to a string does not fail.
macro_rules! line {
    ($out:expr, $($arguments:tt)*) => {{
        let _ = writeln!($out, $($arguments)*);
    }};
}

impl Writer<'_> {
    fn write(&self, out: &mut String) -> Result<()> {
        let config = self.config;
        line!(out, "target:");
        self.neural(out, "  ", &config.target)?;
        self.drafters(out)?;
        line!(out, "");
        line!(out, "lenience: {}", config.lenience.get());
        if config.statistical_lenience.get() != 1.0 {
            let lenience = config.statistical_lenience.get();
            line!(out, "statistical_lenience: {lenience}");
        }
        self.tree(out);
        line!(out, "");
        line!(out, "prompt: {}", config.prompt);
        line!(out, "");
        generation(out, &config.generation);
        line!(out, "");
        line!(out, "device: {}", config.device);
        Ok(())
    }

    fn drafters(&self, out: &mut String) -> Result<()> {
        let drafters = self.config.drafters();
        if drafters.is_empty() {
            return Ok(());
        }
        line!(out, "\ndrafters:");
        for drafter in drafters {
            match drafter {
                Drafter::Neural {
                    model, branching, ..
                } => {
                    self.neural(out, "    ", model)?;
                    branches(out, branching);
                }
                statistical => self.statistical(out, statistical)?,
            }
            if let Some(rule) = drafter.stop_rule() {
                line!(out, "    stop_rule: {}", rule.to_yaml());
            }
        }
        // Each entry begins with a dash in place of the last two blanks before its first key.
        let entries = out.replace("\n    model:", "\n  - model:");
        *out = entries;
        let Some(k) = self.config.k() else {
            line!(out, "\nschedule: {}", self.config.schedule().name());
            return Ok(());
        };
        line!(out, "\nk:\n  convention: added");
        let rows = k.rows().iter().map(|row| format!("{row:?}"));
        let rows: Vec<_> = rows.collect();
        line!(out, "  matrix: [{}]", rows.join(",\n           "));
        Ok(())
    }

    fn neural(&self, out: &mut String, indent: &str, neural: &Neural) -> Result<()> {
        let source = self.source(&neural.source)?;
        line!(out, "{indent}model: {}", text(&source));
        if neural.name != crate::reader::last_part(&source) {
            line!(out, "{indent}name: {}", text(&neural.name));
        }
        if let Some(tokenizer) = &neural.tokenizer {
            line!(out, "{indent}tokenizer: {}", text(&self.source(tokenizer)?));
        }
        if let Some(dtype) = neural.dtype {
            line!(out, "{indent}dtype: {dtype}");
        }
        if let Some(cache) = neural.cache_dtype {
            line!(out, "{indent}cache_dtype: {cache}");
        }
        if let Some(device) = neural.device {
            line!(out, "{indent}device: {device}");
        }
        if neural.rule != Rule::default() {
            line!(out, "{indent}rule: {}", neural.rule);
        }
        if let Some(classifier) = &neural.classifier {
            line!(out, "{indent}classifier:");
            line!(
                out,
                "{indent}  file: {}",
                quoted(&classifier.file.display().to_string())
            );
            if let Some(threshold) = classifier.threshold {
                line!(out, "{indent}  threshold: {threshold}");
            }
            if let Some(longest) = classifier.longest {
                line!(out, "{indent}  longest: {longest}");
            }
        }
        if let Some(head) = &neural.head {
            line!(out, "{indent}head:");
            let folder = head.folder.display().to_string();
            line!(out, "{indent}  folder: {}", quoted(&folder));
            let lengths = [("shortest", head.shortest), ("longest", head.longest)];
            if let Some(threshold) = head.threshold {
                line!(out, "{indent}  threshold: {threshold}");
            }
            for (key, length) in lengths {
                if let Some(length) = length {
                    line!(out, "{indent}  {key}: {length}");
                }
            }
        }
        Ok(())
    }

    fn statistical(&self, out: &mut String, drafter: &Drafter) -> Result<()> {
        let entry = if let Some(max_gram) = drafter.settings::<MaxGramConfig>() {
            format!("max_gram: {}", self.max_gram(max_gram)?)
        } else if let Some(tree) = drafter.settings::<MaxGramTreeConfig>() {
            format!("max_gram_tree: {}", self.max_gram_tree(tree)?)
        } else if let Some(bigram) = drafter.settings::<BigramConfig>() {
            let table = text(&self.table(&bigram.table)?);
            format!("bigram: {table}\n    width: {}", bigram.width)
        } else if let Some(lookup) = drafter.settings::<PromptLookupConfig>() {
            let PromptLookupConfig {
                max_ngram,
                branches,
                ..
            } = lookup;
            format!("prompt_lookup: {{ max_ngram: {max_ngram}, branches: {branches} }}")
        } else {
            let problem = format!(
                "the drafter `{}` is of a kind without a form",
                drafter.name()
            );
            return Err(self.unwritable(problem));
        };
        line!(out, "  - {entry}\n    name: {}", text(drafter.name()));
        Ok(())
    }

    fn max_gram(&self, config: &MaxGramConfig) -> Result<String> {
        let mut settings = Vec::new();
        if let Some(table) = &config.bigram {
            settings.push(format!("bigram: {}", text(&self.table(table)?)));
        }
        if config.occurrence == Occurrence::Latest {
            settings.push("occurrence: latest".to_owned());
        }
        for (key, value) in [
            ("min_match", config.min_match),
            ("branches", config.branches),
            ("width", config.width),
        ] {
            if value != 1 {
                settings.push(format!("{key}: {value}"));
            }
        }
        Ok(map(&settings))
    }

    fn max_gram_tree(&self, config: &MaxGramTreeConfig) -> Result<String> {
        let mut settings = Vec::new();
        for (key, file) in [("table", &config.table), ("weights", &config.weights)] {
            if let Some(file) = file {
                settings.push(format!("{key}: {}", text(&self.table(file)?)));
            }
        }
        let default = MaxGramTreeConfig::default();
        for (key, value, default) in [
            (
                "min_probability",
                config.min_probability,
                default.min_probability,
            ),
            ("learning_rate", config.learning_rate, default.learning_rate),
        ] {
            if value != default {
                settings.push(format!("{key}: {value}"));
            }
        }
        for (key, value, default) in [
            (
                "session_tokens",
                config.session_tokens,
                default.session_tokens,
            ),
            ("hints", config.hints, default.hints),
        ] {
            if value != default {
                settings.push(format!("{key}: {value}"));
            }
        }
        Ok(map(&settings))
    }

    fn tree(&self, out: &mut String) {
        let config = self.config;
        let merged = config.placement != Placement::default();
        if config.max_nodes == DEFAULT_MAX_NODES && !merged {
            return;
        }
        line!(out, "\ntree:\n  max_nodes: {}", config.max_nodes);
        if merged {
            line!(out, "  placement: {}", word(&config.placement));
        }
    }

    /// As a configuration writes it, wherever it is read from.
    fn source(&self, source: &ModelSource) -> Result<String> {
        match source {
            ModelSource::Folder(path) | ModelSource::File(path) => self.path(path),
            ModelSource::Embedded(model) => Ok(format!("embedded:{}", model.name)),
            other => Ok(other.to_string()),
        }
    }

    fn table(&self, table: &TableLocator) -> Result<String> {
        match table {
            TableLocator::File(path) => self.path(path),
            embedded => Ok(embedded.to_string()),
        }
    }

    fn path(&self, path: &Path) -> Result<String> {
        let absolute = std::path::absolute(path).map_err(|error| {
            self.unwritable(format!("{} has no absolute path: {error}", path.display()))
        })?;
        let text = absolute.to_str().map(str::to_owned);
        text.ok_or_else(|| self.unwritable(format!("{} is not UTF-8", path.display())))
    }

    fn unwritable(&self, problem: String) -> Error {
        Error::Unwritable {
            file: self.config.label.clone(),
            problem,
        }
    }
}

/// A map in one line.
fn map(settings: &[String]) -> String {
    match settings.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", settings.join(", ")),
    }
}

fn branches(out: &mut String, branching: &Branching) {
    if *branching == Branching::chain() {
        return;
    }
    if branching.expand == Expand::MostProbable {
        line!(out, "    branches: {{ expand: most_probable }}");
        return;
    }
    line!(
        out,
        "    branches: {{ widths: {:?}, expand: {}, siblings: {} }}",
        branching.widths,
        word(&branching.expand),
        word(&branching.siblings)
    );
}

fn generation(out: &mut String, generation: &GenerationSettings) {
    let sampling = generation.sampling;
    line!(out, "generation:");
    line!(out, "  max_new_tokens: {}", generation.max_new_tokens);
    if generation.ignore_eos {
        line!(out, "  ignore_eos: true");
    }
    if let Some(limit) = generation.prompt_limit {
        line!(out, "  max_prompt_tokens: {}", limit.max_tokens);
        line!(out, "  truncate_prompt: {}", word(&limit.truncate));
    }
    line!(out, "  temperature: {}", sampling.temperature());
    if let Some(k) = sampling.top_k() {
        line!(out, "  top_k: {k}");
    }
    if let Some(p) = sampling.top_p() {
        line!(out, "  top_p: {p}");
    }
    if let Some(p) = sampling.min_p() {
        line!(out, "  min_p: {p}");
    }
    if let Some(budget) = generation.lossy {
        line!(out, "  lossy: {budget}");
    }
    if generation.seed != 0 {
        line!(out, "  seed: {}", generation.seed);
    }
    if let Some(stop) = &generation.stop {
        let stop: Vec<_> = stop.iter().map(quoted).collect();
        line!(out, "  stop: [{}]", stop.join(", "));
    }
}

/// The word that serde has for a value without fields.
fn word(value: &impl Serialize) -> String {
    let word = serde_json::to_value(value).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// A text, in quotes where YAML would read it as something else.
fn text(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./@-".contains(c);
    let bare = text.strip_prefix("embedded:").unwrap_or(text);
    let is_name = bare.contains(['/', '-'])
        && bare.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic());
    match is_name && bare.chars().all(plain) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// A JSON string is one of YAML too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
