//! generation_config.json, and what GGUF files have of it: which tokens end a generation, and how
//! other programs would choose tokens.
//!
//! How tokens are chosen is for the user to say: temperature and the like are a recommendation.
//! What changes the choice in ways that are not done here (tokens that are forced or suppressed) is
//! warned about by name, and so is what is not known.

use std::collections::BTreeSet;

use cascade_checkpoint::{gguf_generation_config, read_json};
use cascade_core::{StatedSampling, TokenId};
use cascade_hub::{ModelFiles, WeightFormat};
use serde_json::{Map, Value, json};

use crate::checks::bad;
use crate::config::in_file;
use crate::settings::Neutral;
use crate::{Error, ModelFile, Result};

/// Keys that are read elsewhere, are for the user to say, or change no token, one a line.
const HARMLESS: &str = include_str!("generation/harmless.txt");

/// What changes the choice of tokens, and the value that does not.
const NEUTRAL: &[(&str, Neutral)] = &[
    ("bad_words_ids", Neutral::Off),
    ("begin_suppress_tokens", Neutral::Off),
    ("constraints", Neutral::Off),
    ("dola_layers", Neutral::Absent),
    ("encoder_no_repeat_ngram_size", Neutral::Off),
    ("encoder_repetition_penalty", Neutral::One),
    ("epsilon_cutoff", Neutral::Off),
    ("eta_cutoff", Neutral::Off),
    ("exponential_decay_length_penalty", Neutral::Absent),
    ("force_words_ids", Neutral::Off),
    ("forced_bos_token_id", Neutral::Absent),
    ("forced_decoder_ids", Neutral::Off),
    ("forced_eos_token_id", Neutral::Absent),
    ("guidance_scale", Neutral::One),
    ("min_length", Neutral::Off),
    ("min_new_tokens", Neutral::Off),
    ("no_repeat_ngram_size", Neutral::Off),
    ("num_beams", Neutral::AtMostOne),
    ("penalty_alpha", Neutral::Off),
    ("sequence_bias", Neutral::Off),
    ("stop_strings", Neutral::Off),
    ("suppress_tokens", Neutral::Off),
    ("token_healing", Neutral::Off),
    ("top_h", Neutral::One),
    ("typical_p", Neutral::One),
    ("watermarking_config", Neutral::Absent),
];

/// Values of a recommended setting that can be followed: its key, whether a number is one, and all
/// of them in words.
type Followed = (&'static str, fn(f32) -> bool, &'static str);

#[rustfmt::skip]
const FOLLOWED: [Followed; 5] = [
    ("temperature", |t| t.is_finite() && t >= 0.0, "a number from 0"),
    ("top_k", |k| k >= 0.0 && k.fract() == 0.0, "a whole number from 0"),
    ("top_p", |p| p > 0.0 && p <= 1.0, "a number above 0 and at most 1"),
    ("min_p", |p| (0.0..=1.0).contains(&p), "a number from 0 to 1"),
    ("repetition_penalty", |r| r.is_finite() && r > 0.0, "a number above 0"),
];

/// Tokens that end an answer, in order, and what should be known of others, in sentences.
type Ends = (Vec<TokenId>, Vec<String>);

/// What the files of a model say of generation.
#[derive(Debug)]
pub(crate) struct Generation {
    /// The tokens that end an answer, in order.
    pub(crate) ends: Vec<TokenId>,
    /// What the user should know, in sentences.
    pub(crate) warnings: Vec<String>,
    pub(crate) recommended: StatedSampling,
}

impl Generation {
    /// Reads generation_config.json if there is one, and what a GGUF file has in its place.
    /// `config` is what config.json says.
    ///
    /// # Errors
    /// A file that cannot be read, is no object, or ends answers with what is no id.
    pub(crate) fn of(files: &ModelFiles, config: &Value, vocab_size: usize) -> Result<Self> {
        let (file, stated) = match &files.generation_config {
            Some(file) => (file, read_json(file)?),
            None if files.weight_format == WeightFormat::Gguf => {
                (&files.config, gguf_generation_config(&files.config)?)
            }
            None => (&files.config, json!({})),
        };
        let told = warnings(&short(file), &stated, config);
        let mut warnings = told.map_err(|error| in_file(file, error))?;
        let (ends, unknown) = end_tokens(&[(file, &stated), (&files.config, config)], vocab_size)?;
        warnings.extend(unknown);
        Ok(Self {
            ends,
            warnings,
            recommended: recommended(&stated),
        })
    }
}

/// The tokens that end a generation: those of the first of `files` that names any. A file may name
/// one, or several in a list. An id that a vocabulary of `vocab_size` has not is never generated,
/// so it ends nothing, with a warning; -1 is how some files say that there is none.
///
/// # Errors
/// [`Error::Config`] for what is no id.
fn end_tokens(files: &[(&ModelFile, &Value)], vocab_size: usize) -> Result<Ends> {
    let mut warnings = Vec::new();
    for (file, json) in files {
        let named = &json["eos_token_id"];
        let ids: Vec<&Value> = match named {
            Value::Null => continue,
            Value::Array(ids) => ids.iter().collect(),
            id => vec![id],
        };
        let ids: Option<BTreeSet<i64>> = ids.into_iter().map(Value::as_i64).collect();
        let ids = ids
            .filter(|ids| ids.iter().all(|id| *id >= -1))
            .ok_or_else(|| {
                let problem = format!("\"eos_token_id\" is {named}, not an id or a list of such");
                let cure = format!("take {} from the model the weights came from", short(file));
                Error::config(file, problem, cure)
            })?;
        let known = |id: &i64| {
            let id = TokenId::try_from(*id).ok();
            id.filter(|id| (*id as usize) < vocab_size)
        };
        let unknown = ids.iter().filter(|id| **id >= 0 && known(id).is_none());
        warnings.extend(unknown.map(|id| {
            format!(
                "{} says that token {id} ends an answer, and the vocabulary has {vocab_size} \
                 tokens: nothing ends there",
                short(file)
            )
        }));
        let ids: Vec<TokenId> = ids.iter().filter_map(known).collect();
        if !ids.is_empty() || named.as_array().is_some_and(Vec::is_empty) {
            return Ok((ids, warnings));
        }
    }
    Ok((Vec::new(), warnings))
}

/// The sampling that a file recommends: nothing but a penalty if its `do_sample` is false or its
/// temperature is 0. Values that change nothing or cannot be followed are left out.
fn recommended(generation: &Value) -> StatedSampling {
    let stated = |key: &str, neutral: f32| {
        followed(key, &generation[key]).filter(|number| *number != neutral)
    };
    let temperature = followed("temperature", &generation["temperature"]);
    let all = StatedSampling {
        temperature,
        top_k: stated("top_k", 0.0).map(|k| k as usize),
        top_p: stated("top_p", 1.0),
        min_p: stated("min_p", 0.0),
        repetition_penalty: stated("repetition_penalty", 1.0),
        ..StatedSampling::default()
    };
    let penalties = StatedSampling {
        repetition_penalty: all.repetition_penalty,
        ..StatedSampling::default()
    };
    let samples = generation["do_sample"].as_bool();
    if samples.unwrap_or(all != penalties) && temperature != Some(0.0) {
        let temperature = temperature.or(Some(1.0));
        StatedSampling { temperature, ..all }
    } else {
        penalties
    }
}

/// The value of a recommended setting, if it is one of [`FOLLOWED`].
fn followed(key: &str, value: &Value) -> Option<f32> {
    let number = value.as_f64()? as f32;
    let mut known = FOLLOWED.iter();
    known
        .any(|(name, is_one, _)| *name == key && is_one(number))
        .then_some(number)
}

/// Recommended settings that cannot be followed.
fn unfollowed(entries: &Map<String, Value>) -> impl Iterator<Item = String> + '_ {
    FOLLOWED.iter().filter_map(|(key, _, values)| {
        let value = entries.get(*key).filter(|value| !value.is_null())?;
        let said =
            || format!("recommends {key} {value}, which is not followed: it is not {values}");
        followed(key, value).is_none().then(said)
    })
}

/// The last part of a file's name.
fn short(file: &ModelFile) -> String {
    let name = file.to_string();
    name.rsplit('/').next().unwrap_or(&name).to_owned()
}

/// What the user should know of a generation_config.json, or of what is in its place in `file`.
///
/// # Errors
/// [`Error::Config`] if it is no object.
fn warnings(file: &str, generation: &Value, config: &Value) -> Result<Vec<String>> {
    let entries = generation
        .as_object()
        .ok_or_else(|| bad("it is not an object of settings"))?;
    let unknown: Vec<&str> = unknown(entries).collect();
    let unknown = (!unknown.is_empty()).then(|| {
        let keys = unknown.join(", ");
        format!("has settings that are not known here: {keys}; others may choose other tokens")
    });
    let told = changing(entries)
        .chain(unfollowed(entries))
        .chain(unknown)
        .chain(other_start(entries, config));
    Ok(told.map(|what| format!("{file} {what}")).collect())
}

/// Settings that transformers follows and we do not.
fn changing(entries: &Map<String, Value>) -> impl Iterator<Item = String> + '_ {
    let stated = NEUTRAL.iter().filter_map(|(key, neutral)| {
        let value = entries.get(*key).filter(|value| !value.is_null())?;
        (!neutral.is(value)).then_some((key, value))
    });
    stated.map(|(key, value)| {
        format!(
            "has {key} {value}, which transformers follows and this program does not: it chooses \
             other tokens"
        )
    })
}

fn unknown(entries: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let stated = entries.iter().filter(|(_, value)| !value.is_null());
    let keys = stated.map(|(key, _)| key.as_str());
    let changes = |key: &str| NEUTRAL.iter().any(|(known, _)| *known == key);
    keys.filter(move |key| !HARMLESS.lines().any(|known| known == *key) && !changes(key))
}

/// Where the file starts decoders with another token than config.json, which is followed.
fn other_start(entries: &Map<String, Value>, config: &Value) -> Option<String> {
    const START: &str = "decoder_start_token_id";
    let stated = entries.get(START).filter(|value| !value.is_null())?;
    let followed = [&config[START], &config["pad_token_id"]];
    let followed = followed.into_iter().find(|value| !value.is_null());
    let is_decoder_alone = config["is_encoder_decoder"] != Value::Bool(true);
    match followed {
        Some(followed) if followed != stated && !is_decoder_alone => Some(format!(
            "has {START} {stated}, and config.json {followed}, which is followed: transformers takes \
             the other"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(generation: Value) -> Vec<String> {
        let config = json!({"is_encoder_decoder": true, "pad_token_id": 0});
        warnings("generation_config.json", &generation, &config).unwrap()
    }

    #[test]
    fn what_real_models_state_is_harmless() {
        for generation in [
            json!({"_from_model_config": true, "bos_token_id": 1, "eos_token_id": 2,
                "pad_token_id": 0, "transformers_version": "4.28.1"}),
            json!({"_from_model_config": true, "decoder_start_token_id": 0, "eos_token_id": 1,
                "pad_token_id": 0, "transformers_version": "4.27.0.dev0"}),
            json!({"bos_token_id": 128_000, "do_sample": true, "eos_token_id": [128_001, 128_009],
                "max_length": 4096, "temperature": 0.6, "top_p": 0.9}),
            json!({"repetition_penalty": 1.0, "num_beams": 1, "suppress_tokens": [],
                "no_repeat_ngram_size": 0, "guidance_scale": null, "typical_p": 1}),
        ] {
            assert_eq!(of(generation), [""; 0]);
        }
    }

    #[test]
    fn ends_are_what_the_vocabulary_has() {
        let file = ModelFile::Embedded {
            name: "generation_config.json".to_owned(),
            bytes: &[],
        };
        let ends = |named: Value, other: Value| {
            let (first, second) = (
                json!({"eos_token_id": named}),
                json!({"eos_token_id": other}),
            );
            end_tokens(&[(&file, &first), (&file, &second)], 10)
        };
        let ids = |named, other| ends(named, other).unwrap().0;
        assert_eq!(ids(json!([7, 2, 7]), json!(3)), [2, 7]);
        assert_eq!(ids(json!(null), json!(3)), [3]);
        assert_eq!(ids(json!([]), json!(3)), [0; 0]);
        // None, in the words of some files.
        assert_eq!(ends(json!(-1), json!(-1)).unwrap(), Ends::default());
        // One that is never generated ends nothing, which a warning says.
        let beyond = ends(json!([2, 10]), json!(3)).unwrap();
        assert_eq!(beyond.0, [2]);
        assert!(beyond.1[0].contains("token 10"), "{beyond:?}");
        let beyond = ends(json!(10), json!(3)).unwrap();
        assert_eq!((beyond.0, beyond.1.len()), (vec![3], 1));
        for wrong in [json!("2"), json!(-2), json!([2.5]), json!({"id": 2})] {
            assert!(ends(wrong, json!(3)).is_err());
        }
    }

    #[test]
    fn sampling_is_a_recommendation() {
        let words = |generation: Value| recommended(&generation).to_string();
        let qwen = json!({"do_sample": true, "repetition_penalty": 1.05, "temperature": 0.7,
            "top_k": 20, "top_p": 0.8});
        let all = "temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05";
        assert_eq!(words(qwen.clone()), all);
        // Without a word about it, and with one against it.
        let with = |value: Value| {
            let mut changed = qwen.clone();
            changed["do_sample"] = value;
            words(changed)
        };
        assert_eq!(
            (with(json!(null)), with(json!(false))),
            (all.to_owned(), "repetition penalty 1.05".to_owned())
        );
        assert_eq!(
            words(json!({"do_sample": true, "top_k": 0, "top_p": 1.0})),
            "temperature 1"
        );
        // What is nothing to follow, or no number.
        for nothing in [
            json!({"eos_token_id": 2}),
            json!({"repetition_penalty": 1.0, "top_p": 1, "top_k": 0, "min_p": 0}),
            json!({"top_p": 0.9, "temperature": 0}),
            json!({"repetition_penalty": -1, "top_p": 7, "top_k": "many", "temperature": null}),
        ] {
            assert!(recommended(&nothing).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_named() {
        for (key, wrong) in [
            ("repetition_penalty", json!(-1)),
            ("top_p", json!(7)),
            ("top_p", json!(0)),
            ("top_k", json!("many")),
            ("top_k", json!(2.5)),
            ("min_p", json!(1.5)),
            ("temperature", json!(-0.5)),
            ("temperature", json!(1e300)),
        ] {
            let warnings = of(json!({key: wrong}));
            let named = format!("generation_config.json recommends {key} {wrong}, ");
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].starts_with(&named), "{warnings:?}");
        }
    }

    #[test]
    fn what_changes_the_choice_is_named() {
        for (key, value) in [
            ("no_repeat_ngram_size", json!(3)),
            ("suppress_tokens", json!([7])),
            ("forced_eos_token_id", json!(2)),
            ("forced_bos_token_id", json!(0)),
            ("num_beams", json!(4)),
            ("min_length", json!(30)),
            ("bad_words_ids", json!([[5]])),
            ("stop_strings", json!(["\n"])),
            ("decoder_start_token_id", json!(9)),
            ("invented_penalty", json!(0.5)),
        ] {
            let warnings = of(json!({key: value}));
            assert_eq!(warnings.len(), 1, "{key}");
            assert!(warnings[0].contains(key), "{warnings:?}");
        }
        assert!(warnings("", &json!([]), &json!({})).is_err());
    }
}
