//! Samples: a few answers kept token by token, so that a report can show who drafted what without
//! the models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cascade_core::TokenId;
use cascade_engine::GenerationOutput;
use cascade_models::Tokenizer;
use serde::{Deserialize, Serialize};

use crate::plan::{LARGEST_OWN, Plan};
use crate::prompts::Ready;
use crate::results::{line, read, write};
use crate::token_texts::token_texts;
use crate::{Error, ErrorKind, Result};

/// The file of samples.
pub(crate) const SAMPLES: &str = "samples.jsonl";

/// Number of prompts of each dataset that samples are kept of.
const KEPT: usize = 3;

/// The prompts that samples are kept of: evenly spread over each dataset, so that they are of
/// different categories.
pub(crate) fn kept(plan: &Plan) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut before = 0;
    for suite in &plan.suites {
        let prompts = suite.prompts.len();
        let count = prompts.min(KEPT);
        kept.extend((0..count).map(|i| before + i * prompts / count));
        before += prompts;
    }
    kept
}

/// One prompt and what every variant did with it: a line of `samples.jsonl`, and like
/// `results.jsonl` a function of the plan alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sampled {
    /// Its number in the experiment.
    pub(crate) prompt: usize,
    /// Its text.
    pub(crate) text: String,
    /// The texts of plain decoding's tokens.
    pub(crate) pieces: Vec<String>,
    /// In the order of the variants.
    #[serde(rename = "arms")]
    pub(crate) variants: Vec<Drafted>,
}

/// Who proposed the tokens of an answer first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drafted {
    /// For each step, the levels of its tokens: 0 for the target, 1 for the variant's first
    /// drafter.
    pub(crate) steps: Vec<Vec<usize>>,
    /// The texts of its own tokens, if they are not plain decoding's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pieces: Option<Vec<String>>,
}

impl Sampled {
    /// What all variants did with a prompt.
    pub(crate) fn new(
        prompt: usize,
        ready: &Ready,
        plain: &[TokenId],
        variants: &[&GenerationOutput],
        tokenizer: Option<&Tokenizer>,
    ) -> Result<Self> {
        let drafted = |generation: &&GenerationOutput| {
            let own = generation.tokens != plain;
            Ok(Drafted {
                steps: steps(generation),
                pieces: own
                    .then(|| token_texts(&generation.tokens, tokenizer))
                    .transpose()?,
            })
        };
        Ok(Self {
            prompt,
            text: text(ready, tokenizer)?,
            pieces: token_texts(plain, tokenizer)?,
            variants: variants.iter().map(drafted).collect::<Result<_>>()?,
        })
    }
}

fn text(ready: &Ready, tokenizer: Option<&Tokenizer>) -> Result<String> {
    let tokens = [ready.prompt.source.as_slice(), &ready.prompt.context].concat();
    Ok(match (&ready.text, tokenizer) {
        (Some(text), _) => text.clone(),
        (None, Some(tokenizer)) => tokenizer
            .decode(&tokens)
            .map_err(cascade_models::Error::from)?,
        (None, None) => format!(
            "{} tokens; the tokenizer of the recording would show their text",
            tokens.len()
        ),
    })
}

/// Proposers by step: what was kept and one token of the target's own, unless the text ended before
/// it.
fn steps(generation: &GenerationOutput) -> Vec<Vec<usize>> {
    let mut proposers = generation.proposers.iter().map(|level| level.0);
    let steps = generation.steps.iter();
    steps
        .map(|step| proposers.by_ref().take(step.accepted + 1).collect())
        .collect()
}

/// The samples of a folder.
pub(crate) struct Samples {
    path: PathBuf,
    by_prompt: BTreeMap<usize, Sampled>,
}

impl Samples {
    /// Reads the file; there are none if it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(SAMPLES);
        let bytes = read(&path, LARGEST_OWN)?.unwrap_or_default();
        let text = cascade_core::fs::text(&bytes).map_err(Error::io("read", &path))?;
        let mut by_prompt = BTreeMap::new();
        for (line, text) in text.lines().enumerate() {
            let sampled: Sampled = serde_json::from_str(text).map_err(|source| {
                let place = format!("{}, line {}", path.display(), line + 1);
                let cure = "delete the file: going on with the run (--resume) makes it again";
                Error::at(ErrorKind::Record, place, format!("{source}; {cure}"))
            })?;
            by_prompt.insert(sampled.prompt, sampled);
        }
        Ok(Self { path, by_prompt })
    }

    pub(crate) fn contains(&self, prompt: usize) -> bool {
        self.by_prompt.contains_key(&prompt)
    }

    /// In the order of the prompts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sampled> {
        self.by_prompt.values()
    }

    /// Adds a sample and writes the file: in the order of the prompts, whatever order they come in.
    pub(crate) fn insert(&mut self, sampled: Sampled) -> Result<()> {
        self.by_prompt.insert(sampled.prompt, sampled);
        self.write()
    }

    /// Puts the samples of shards together.
    pub(crate) fn merge(shards: &[PathBuf], into: &Path) -> Result<()> {
        let mut merged = Self::open(into)?;
        for shard in shards {
            merged.by_prompt.extend(Self::open(shard)?.by_prompt);
        }
        merged.write()
    }

    fn write(&self) -> Result<()> {
        let text = self.iter().map(line).collect::<Result<String>>()?;
        write(&self.path, text.as_bytes())
    }
}
