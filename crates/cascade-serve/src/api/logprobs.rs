//! Log probabilities in OpenAI's two forms.

use cascade_core::TokenId;
use cascade_engine::{StepReport, TokenLogprobs};
use serde_json::{json, Map, Value};

use crate::token_text::TokenTexts;

/// What stands for the logarithm of 0, which JSON does not have; as OpenAI has it.
const LEAST: f64 = -9999.0;

/// Log probabilities of the tokens of an answer, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct Logprobs {
    tokens: Vec<Entry>,
    /// How many of them are the prompt's.
    prompt: usize,
}

#[derive(Debug)]
struct Entry {
    token: TokenId,
    /// None for the first token of a prompt, which follows nothing.
    logprob: Option<f64>,
    top: Vec<(TokenId, f64)>,
}

/// Characters of the text of a completion before its next token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offset(usize);

impl Offset {
    /// Behind a text.
    pub(crate) fn after(text: &str) -> Self {
        Self(text.chars().count())
    }
}

impl Logprobs {
    pub(crate) fn add(&mut self, report: &StepReport) {
        let tokens = report.tokens.iter().zip(&report.logprobs);
        self.tokens.extend(tokens.map(|(&token, found)| Entry {
            token,
            logprob: Some(found.logprob),
            top: found.top.clone(),
        }));
    }

    /// Adds those of a prompt's tokens, `found` for all but the first one, before all others.
    pub(crate) fn add_prompt(&mut self, tokens: &[TokenId], found: Vec<TokenLogprobs>) {
        let found = std::iter::once(None).chain(found.into_iter().map(Some));
        let entries = tokens.iter().zip(found).map(|(&token, found)| Entry {
            token,
            logprob: found.as_ref().map(|found| found.logprob),
            top: found.map(|found| found.top).unwrap_or_default(),
        });
        self.tokens = entries.collect();
        self.prompt = self.tokens.len();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The form of `/v1/chat/completions`.
    pub(crate) fn chat(&self, texts: &TokenTexts) -> Value {
        let one = |token: TokenId, logprob: Option<f64>| {
            let text = texts.of(token);
            json!({"token": text.text, "logprob": logprob.map(finite), "bytes": text.bytes})
        };
        let entry = |entry: &Entry| {
            let mut shown = one(entry.token, entry.logprob);
            let top = entry
                .top
                .iter()
                .map(|&(token, logprob)| one(token, Some(logprob)));
            shown["top_logprobs"] = top.collect();
            shown
        };
        let content: Vec<Value> = self.tokens.iter().map(entry).collect();
        json!({"content": content, "refusal": null})
    }

    /// The form of `/v1/completions`. `offset` is that of the first token behind the prompt, and
    /// moves on.
    pub(crate) fn completion(&self, texts: &TokenTexts, offset: &mut Offset) -> Value {
        let (mut tokens, mut tops) = (Vec::new(), Vec::new());
        let prompt = self.tokens[..self.prompt].iter().map(|entry| entry.token);
        let mut offsets = texts.offsets(prompt);
        for (at, entry) in self.tokens.iter().enumerate() {
            let text = texts.of(entry.token).text;
            if at >= self.prompt {
                offsets.push(offset.0);
                offset.0 += text.chars().count();
            }
            tokens.push(text);
            if entry.logprob.is_none() {
                tops.push(Value::Null);
                continue;
            }
            let mut top = Map::new();
            for &(token, logprob) in &entry.top {
                // Of tokens with one text the most probable one stays.
                top.entry(texts.of(token).text).or_insert(finite(logprob));
            }
            tops.push(Value::Object(top));
        }
        let logprobs: Vec<Value> = self
            .tokens
            .iter()
            .map(|entry| entry.logprob.map_or(Value::Null, finite))
            .collect();
        json!({
            "tokens": tokens,
            "token_logprobs": logprobs,
            "top_logprobs": tops,
            "text_offset": offsets,
        })
    }
}

fn finite(logprob: f64) -> Value {
    json!(logprob.max(LEAST))
}
