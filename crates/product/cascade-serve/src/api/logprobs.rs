//! Log probabilities in OpenAI's two forms.

use cascade_core::TokenId;
use cascade_engine::StepReport;
use serde_json::{json, Map, Value};

use crate::token_text::TokenTexts;

/// What stands for the logarithm of 0, which JSON does not have; as OpenAI has it.
const LEAST: f64 = -9999.0;

/// Log probabilities of the tokens of an answer, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct Logprobs {
    tokens: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    token: TokenId,
    logprob: f64,
    top: Vec<(TokenId, f64)>,
}

impl Logprobs {
    pub(crate) fn add(&mut self, report: &StepReport) {
        let tokens = report.tokens.iter().zip(&report.logprobs);
        self.tokens.extend(tokens.map(|(&token, found)| Entry {
            token,
            logprob: found.logprob,
            top: found.top.clone(),
        }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The form of `/v1/chat/completions`.
    pub(crate) fn chat(&self, texts: &TokenTexts) -> Value {
        let one = |token: TokenId, logprob: f64| {
            let text = texts.of(token);
            json!({"token": text.text, "logprob": finite(logprob), "bytes": text.bytes})
        };
        let entry = |entry: &Entry| {
            let mut shown = one(entry.token, entry.logprob);
            let top = entry
                .top
                .iter()
                .map(|&(token, logprob)| one(token, logprob));
            shown["top_logprobs"] = top.collect();
            shown
        };
        let content: Vec<Value> = self.tokens.iter().map(entry).collect();
        json!({"content": content, "refusal": null})
    }

    /// The form of `/v1/completions`. `offset` counts characters before these tokens, and moves on.
    pub(crate) fn completion(&self, texts: &TokenTexts, offset: &mut usize) -> Value {
        let (mut tokens, mut offsets, mut tops) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &self.tokens {
            let text = texts.of(entry.token).text;
            offsets.push(*offset);
            *offset += text.chars().count();
            tokens.push(text);
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
            .map(|entry| finite(entry.logprob))
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
