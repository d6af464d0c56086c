//! The readers, and the rest of what belongs to their files.

use std::fs;
use std::path::Path;

use cascade_bigram::corpus::{self, Corpus, Options};
use cascade_chat::{ChatFile, Message, ModelChat, Role};
use cascade_config::trained::{ClassifierFile, HeadFolder};
use cascade_config::{Config, Content, CostFile, PromptTemplate, Turns};
use cascade_engine::CLASSIFIER_FEATURES;
use cascade_eval::{Dataset, Selection};
use cascade_models::{LoadOptions, LoadedModel, ModelSource, Tokenizer, load};
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig, NgramTable, Weights};
use cascade_reproduce::report::Manifest;
use cascade_reproduce::theory::rejection::{LARGEST_CHAIN, Markov, expected_rejections};
use cascade_reproduce::{Definition, Plan};
use cascade_traces::trace::Trace;
use cascade_traces::trace::spec_bench::Answers;

use crate::Reader;

type Outcome = Result<(), String>;

/// Files of a folder, by their names.
macro_rules! files {
    ($folder:literal, $($name:literal),+) => {
        &[$(($name, include_bytes!(concat!($folder, $name)))),+]
    };
}

/// A good model, of which one file at a time is replaced: a LLaMA of one layer.
const MODEL: &[(&str, &[u8])] = files!(
    "../good/",
    "config.json",
    "model.safetensors",
    "tokenizer.json"
);

/// A good T5, of which one file at a time is replaced.
#[rustfmt::skip]
const T5: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("../../../../tests/goldens/models/tiny-t5-v1.1/config.json")),
    ("model.safetensors", include_bytes!("../../../../tests/goldens/models/tiny-t5-v1.1/model.safetensors")),
    ("tokenizer.json", include_bytes!("../good/tokenizer.json")),
];

/// A good folder of results.
const RESULTS: &[(&str, &[u8])] = files!(
    "../good/results/",
    "plan.json",
    "experiment.json",
    "results.jsonl",
    "samples.jsonl",
    "manifest.json",
    "walltime.jsonl",
    "costs.json"
);

/// A good acceptance head.
#[rustfmt::skip]
const HEAD: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("../../../../tests/hostile/head-config/good.json")),
    ("model.safetensors", include_bytes!("../../../../tests/hostile/head-weights/good.safetensors")),
];

/// Puts the good files around a hostile one.
pub(crate) fn surround(reader: &Reader, folder: &Path) {
    let good = match reader.file.split('/').next() {
        Some("model" | "pickled") => MODEL,
        Some("t5") => T5,
        Some("results") => RESULTS,
        Some("head") => HEAD,
        _ => return,
    };
    for (name, bytes) in good {
        // An index is only looked for where there is no file of weights.
        let name = match (reader.name, *name) {
            ("pytorch", "model.safetensors") => continue,
            ("weights-index", "model.safetensors") => "model-00001-of-00001.safetensors",
            (_, name) => name,
        };
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let read = cascade_core::fs::read(path, 64 * cascade_core::fs::MIB);
    read.map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn config(path: &Path) -> Outcome {
    // Some of the files name the demo's models.
    cascade_demo::register();
    let config = said(Config::open(path))?;
    config.warnings();
    Ok(())
}

pub(crate) fn costs(path: &Path) -> Outcome {
    let costs = said(CostFile::open(path))?;
    for context in costs.contexts() {
        costs.times(context).seconds(usize::MAX);
    }
    Ok(())
}

pub(crate) fn experiment(path: &Path) -> Outcome {
    let definition = said(Definition::open(path))?;
    said(definition.variants()).map(|_| ())
}

pub(crate) fn chain(path: &Path) -> Outcome {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = cascade_core::fs::read_text(path, LARGEST_CHAIN).map_err(|error| named(&error))?;
    let chain = Markov::from_json(&text).map_err(|error| named(&error))?;
    let rejections = expected_rejections(&chain).expected;
    if rejections.is_finite() && rejections >= 0.0 {
        Ok(())
    } else {
        panic!("{rejections} rejections are expected")
    }
}

pub(crate) fn classifier(path: &Path) -> Outcome {
    let file = said(ClassifierFile::open(path))?;
    let probability = file.weights.probability(&[0.1; CLASSIFIER_FEATURES]);
    if (0.0..=1.0).contains(&probability) {
        Ok(())
    } else {
        // Weights of 1e38 overflow.
        Err(format!(
            "{}: the probability is {probability}",
            path.display()
        ))
    }
}

pub(crate) fn head(path: &Path) -> Outcome {
    let head = said(HeadFolder::open(path))?;
    let state = vec![0.1; head.weights.size()];
    match head.weights.probability(&state) {
        Some(probability) if (0.0..=1.0).contains(&probability) => Ok(()),
        // Weights of 1e38 overflow.
        other => Err(format!("{}: the probability is {other:?}", path.display())),
    }
}

pub(crate) fn trace(path: &Path) -> Outcome {
    said(Trace::open_any(path)).map(|_| ())
}

pub(crate) fn answers(path: &Path) -> Outcome {
    let label = path.display().to_string();
    let text =
        cascade_core::fs::read_text(path, cascade_traces::trace::spec_bench::LARGEST_ANSWERS)
            .map_err(|error| format!("{label}: {error}"))?;
    said(Answers::parse(&label, &text)).map(|_| ())
}

pub(crate) fn prompts(path: &Path) -> Outcome {
    said(Dataset::PROMPTS.read(path, Selection::ALL)).map(|_| ())
}

pub(crate) fn gsm8k(path: &Path) -> Outcome {
    said(Dataset::Gsm8k.read(path, Selection::ALL)).map(|_| ())
}

pub(crate) fn mmlu(path: &Path) -> Outcome {
    said(Dataset::Mmlu.read(path, Selection::ALL)).map(|_| ())
}

/// Any text can be asked, by every template that accepts its kind, in one turn or several.
pub(crate) fn templates(path: &Path) -> Outcome {
    let bytes = read(path)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let turns: Vec<String> = text.split('\n').take(4).map(str::to_owned).collect();
    let contents = [
        Content::Text(text.as_str().into()),
        Content::Text(Turns::new(turns).ok_or("a text has a line")?),
        Content::Question(text.clone()),
        Content::MultipleChoice {
            question: text.clone(),
            choices: std::array::from_fn(|_| text.clone()),
        },
        Content::Code(text.clone()),
        Content::Task {
            description: text.clone(),
            tests: vec![text.clone()],
        },
        Content::Instruction {
            instruction: text.clone(),
            input: Some(text.clone()),
        },
        Content::Article(text.clone()),
    ];
    for (template, content) in PromptTemplate::ALL
        .iter()
        .flat_map(|template| contents.iter().map(move |content| (*template, content)))
    {
        let mut answers = Vec::new();
        while template.apply_after(content, &answers).is_ok() {
            answers.push(text.clone());
        }
        assert_eq!(answers.is_empty(), !template.accepts(content.kind()));
    }
    Ok(())
}

/// Documents are stripped of their markup, and there is no more text than was read.
pub(crate) fn corpus(path: &Path) -> Outcome {
    let mut first = None;
    for document in said(Corpus::open([path], Options::default()))? {
        match document {
            Ok(document) => drop(document.into_text()),
            Err(error) => first = first.or(Some(error.to_string())),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Any text is wikitext.
pub(crate) fn wikitext(path: &Path) -> Outcome {
    let bytes = read(path)?;
    let source = String::from_utf8_lossy(&bytes);
    assert!(corpus::wikitext::strip(&source).len() <= source.len());
    Ok(())
}

/// A table that opens can be read as a whole, every id is in its vocabulary, and no context has
/// more continuations than it says.
pub(crate) fn table(path: &Path) -> Outcome {
    let table = said(NgramTable::open_any(path))?;
    let tokens = table.vocab_size() as u32;
    for (context, after) in table.contexts() {
        assert!(context.iter().all(|&token| token < tokens));
        let (total, mut left) = (after.total(), after.total());
        for (token, count) in after {
            assert!(
                token < tokens && (1..=left).contains(&count),
                "{count} of {total}"
            );
            left -= count;
        }
    }
    assert!(table.unigrams().iter().all(|unigram| unigram.0 < tokens));
    Ok(())
}

/// Whatever the weights are that are read: drafts are within their budget, with probabilities, also
/// after the weights have learned as fast as they may.
pub(crate) fn drafter_weights(path: &Path) -> Outcome {
    use cascade_core::{Budget, Drafter, Observation};

    let weights = Weights::open(path)?;
    assert_eq!(
        Weights::from_json(&weights.to_json()?).as_ref(),
        Ok(&weights)
    );
    let options = MaxGramTreeConfig {
        learning_rate: 1.0,
        ..MaxGramTreeConfig::default()
    };
    let mut drafter = MaxGramTree::new(options, None).with_weights(weights);
    let budget = Budget {
        depth: 9,
        nodes: 10,
    };
    let text: Vec<u32> = (0..120).map(|i| i * i % 17).collect();
    for at in 1..text.len() {
        let draft = drafter.propose(&text[..at], budget);
        assert!(draft.tree().len() <= budget.nodes && draft.tree().height() <= budget.depth);
        let estimates = (0..draft.tree().len()).map(|node| draft.probability(node));
        assert!(estimates.flatten().all(|p| (0.0..=1.0).contains(&p)));
        let argmax = vec![text[at]; draft.tree().len() + 1];
        let said = &text[at..=at];
        drafter.observe(&Observation::new(
            &text[..at],
            draft.tree(),
            &[],
            said,
            &argmax,
        ));
    }
    Ok(())
}

pub(crate) fn table_json(path: &Path) -> Outcome {
    let provenance = cascade_ngram::Provenance {
        tokenizer: cascade_core::Fingerprint::from_stored("any".to_owned()),
        sources: Vec::new(),
        command: String::new(),
        version: String::new(),
    };
    said(cascade_ngram::import_json(path, provenance)).map(|_| ())
}

/// A tokenizer that is read can encode and decode.
pub(crate) fn tokenizer(path: &Path) -> Outcome {
    let tokenizer = said(Tokenizer::from_file(path))?;
    let tokens = said(tokenizer.encode_plain(TEXT))?;
    said(tokenizer.decode(&tokens))?;
    tokenizer.fingerprint();
    Ok(())
}

/// A model that is loaded can score.
pub(crate) fn model(folder: &Path) -> Outcome {
    use cascade_core::{Scorer, TokenTree, Want};
    let model = loaded(&ModelSource::Folder(folder.to_owned()))?;
    let mut session = model.session();
    let scored = match model.info().architecture {
        cascade_core::Architecture::DecoderOnly => {
            session.score(&[0], &TokenTree::new(), Want::LOGITS)
        }
        cascade_core::Architecture::EncoderDecoder => session
            .set_source(&[0])
            .and_then(|()| session.score(&[], &TokenTree::new(), Want::LOGITS)),
    };
    let place = |error| format!("{}: {error}", folder.display());
    said(scored).map(|_| ()).map_err(place)
}

/// A model in one file, which has a tokenizer too.
pub(crate) fn gguf(path: &Path) -> Outcome {
    let model = loaded(&ModelSource::File(path.to_owned()))?;
    said(model.tokenizer.encode_plain(TEXT)).map(|_| ())
}

fn loaded(source: &ModelSource) -> Result<LoadedModel, String> {
    let options = LoadOptions {
        progress: false,
        ..LoadOptions::default()
    };
    said(load(source, &options))
}

/// A text that every tokenizer can encode.
const TEXT: &str = "A text of \u{1f600} words,\n\0 and more.";

/// The templates of a model, rendered.
pub(crate) fn chat(path: &Path) -> Outcome {
    let bytes = read(path)?;
    let place = path.display().to_string();
    let chat = ModelChat::new(place, vec![(ChatFile::TokenizerConfig, bytes)]);
    let Some(templates) = said(chat.templates())? else {
        return Ok(());
    };
    let messages = [
        Message::new(Role::System, "Be brief."),
        Message::new(Role::User, "Hello \u{1f600}"),
    ];
    for name in templates.names() {
        if let Ok(template) = templates.get(Some(name)) {
            said(template.render(&messages))?;
        }
    }
    Ok(())
}

pub(crate) fn plan(folder: &Path) -> Outcome {
    let plan = said(Plan::of_folder(folder))?;
    said(plan.definition())?;
    report(folder)
}

pub(crate) fn manifest(folder: &Path) -> Outcome {
    said(Manifest::of_folder(folder)).map(|_| ())
}

/// Results are read, and the report written of them.
pub(crate) fn report(folder: &Path) -> Outcome {
    let manifest = said(Manifest::of_folder(folder))?
        .ok_or_else(|| format!("{}: no manifest", folder.display()))?;
    said(cascade_reproduce::report(folder, manifest)).map(|_| ())
}
