//! The models, tables and configurations that are part of the program.

use std::sync::{PoisonError, RwLock};

use cascade_models::{EmbeddedModel, ModelSource};

use super::{EMBEDDED, Unknown};

/// Files that are part of a program, each with the name by which `embedded:NAME` finds it.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedFiles {
    /// Models, by their own names.
    pub models: Vec<EmbeddedModel>,
    /// Bigram tables, which are aligned to 64 bytes.
    pub tables: Vec<(&'static str, &'static [u8])>,
    /// Configurations, as YAML.
    pub configs: Vec<(&'static str, &'static str)>,
}

static FILES: RwLock<EmbeddedFiles> = RwLock::new(EmbeddedFiles {
    models: Vec::new(),
    tables: Vec::new(),
    configs: Vec::new(),
});

/// Makes files that are part of the program known by `embedded:NAME`, in the whole process, from
/// now on. This crate has none of its own: the program, or the library's facade, brings them. A
/// name that is known already keeps its file.
pub fn register_embedded(files: EmbeddedFiles) {
    let mut known = FILES.write().unwrap_or_else(PoisonError::into_inner);
    add(&mut known.models, files.models, |model| model.name);
    add(&mut known.tables, files.tables, |(name, _)| name);
    add(&mut known.configs, files.configs, |(name, _)| name);
}

fn add<T>(known: &mut Vec<T>, files: Vec<T>, name: fn(&T) -> &'static str) {
    for file in files {
        if known.iter().all(|other| name(other) != name(&file)) {
            known.push(file);
        }
    }
}

/// Reads what is known.
fn with_files<T>(read: impl FnOnce(&EmbeddedFiles) -> T) -> T {
    read(&FILES.read().unwrap_or_else(PoisonError::into_inner))
}

fn find<T: Clone>(
    what: &str,
    wanted: &str,
    files: &[T],
    name: fn(&T) -> &'static str,
) -> Result<T, Unknown> {
    let found = files.iter().find(|file| name(file) == wanted).cloned();
    found.ok_or_else(|| unknown(what, wanted, files.iter().map(name)))
}

pub(super) fn model(name: &str) -> Result<ModelSource, Unknown> {
    let found = with_files(|files| find("model", name, &files.models, |model| model.name));
    found.map(ModelSource::Embedded)
}

pub(super) fn models_hint() -> String {
    with_files(|files| {
        let names = files.models.iter().map(|model| model.name);
        match in_words(names) {
            None => "check the text".to_owned(),
            Some(names) => format!("or name one of the program's own models: {names}"),
        }
    })
}

pub(super) fn table(name: &str) -> Result<&'static [u8], Unknown> {
    let found = with_files(|files| find("table", name, &files.tables, |(name, _)| name));
    found.map(|(_, table)| table)
}

/// Names and bytes of all tables.
pub(super) fn tables() -> Vec<(&'static str, &'static [u8])> {
    with_files(|files| files.tables.clone())
}

/// `None` if there is none of that name, but others.
pub(super) fn config(name: &str) -> Result<Option<&'static str>, Unknown> {
    with_files(|files| {
        let found = find("configuration", name, &files.configs, |(name, _)| name);
        match found {
            Err(unknown) if files.configs.is_empty() => Err(unknown),
            found => Ok(found.ok().map(|(_, config)| config)),
        }
    })
}

fn in_words(names: impl Iterator<Item = &'static str>) -> Option<String> {
    let names: Vec<String> = names.map(|name| format!("{EMBEDDED}{name}")).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn unknown(what: &str, name: &str, names: impl Iterator<Item = &'static str>) -> Unknown {
    match in_words(names) {
        Some(names) => (
            format!("there is no embedded {what} `{name}`"),
            format!("take one of {names}"),
        ),
        None => (
            format!("this program has no embedded {what}s"),
            "give a file or folder; the library knows its demo files after `cascade::demo::register()`, with the \
             feature \"demo\""
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, model_source};

    const MODEL: EmbeddedModel = EmbeddedModel {
        name: "tiny",
        config: b"{}",
        generation_config: None,
        tokenizer: b"",
        weights: &[],
        further: &[],
    };

    /// One test, as what is registered stays.
    #[test]
    fn embedded_files_are_those_that_were_registered() {
        let config = Config::open("embedded:tiny").unwrap_err();
        let model = model_source("embedded:tiny").unwrap_err();
        for error in [config, model] {
            let message = error.to_string();
            assert!(message.contains("cascade::demo::register()"), "{message}");
        }
        let files = |text| EmbeddedFiles {
            models: vec![MODEL],
            tables: vec![("t", b"table")],
            configs: vec![("tiny", text)],
        };
        register_embedded(files("target: { model: embedded:tiny }"));
        // Names are taken once.
        register_embedded(files("nothing"));
        let config = Config::open("embedded:tiny").unwrap();
        assert_eq!(config.target.source, ModelSource::Embedded(MODEL));
        let yaml = config.to_yaml().unwrap();
        assert!(yaml.contains("model: embedded:tiny"), "{yaml}");
        assert_eq!(table("t").unwrap(), b"table");
        let (problem, cure) = table("u").unwrap_err();
        assert_eq!(problem, "there is no embedded table `u`");
        assert_eq!(cure, "take one of embedded:t");
    }
}
