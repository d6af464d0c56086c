//! Log probabilities in OpenAI's two forms.

use cascade_core::TokenId;
use cascade_engine::{StepReport, TokenLogprobs};
use serde_json::{Map, Value, json};

use crate::token_text::TokenTexts;

/// What stands for the logarithm of 0, which JSON does not have; as OpenAI has it.
const LEAST: f64 = -9999.0;

/// Log probabilities of the tokens of an answer, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct Logprobs {
    /// Tokens, and what is known of each: nothing of the first one of a prompt, which follows
    /// nothing.
    tokens: Vec<(TokenId, Option<TokenLogprobs>)>,
    /// How many of them are the prompt's.
    prompt: usize,
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
        let found = report.logprobs.iter().cloned().map(Some);
        self.tokens.extend(report.tokens.iter().copied().zip(found));
    }

    /// Adds those of a prompt's tokens, `found` for all but the first one, before all others.
    pub(crate) fn add_prompt(&mut self, tokens: &[TokenId], found: Vec<TokenLogprobs>) {
        let found = std::iter::once(None).chain(found.into_iter().map(Some));
        self.tokens = tokens.iter().copied().zip(found).collect();
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
        let entry = |(token, found): &(TokenId, Option<TokenLogprobs>)| {
            let mut shown = one(*token, found.as_ref().map(|found| found.logprob));
            let top = found.iter().flat_map(|found| &found.top);
            shown["top_logprobs"] = top
                .map(|&(token, logprob)| one(token, Some(logprob)))
                .collect();
            shown
        };
        let content: Vec<Value> = self.tokens.iter().map(entry).collect();
        json!({"content": content, "refusal": null})
    }

    /// The form of `/v1/completions`. `offset` is that of the first token behind the prompt, and
    /// moves on.
    pub(crate) fn completion(&self, texts: &TokenTexts, offset: &mut Offset) -> Value {
        let (mut tokens, mut logprobs, mut tops) = (Vec::new(), Vec::new(), Vec::new());
        let prompt = self.tokens[..self.prompt].iter().map(|(token, _)| *token);
        let mut offsets = texts.offsets(prompt);
        for (at, (token, found)) in self.tokens.iter().enumerate() {
            let text = texts.of(*token).text;
            if at >= self.prompt {
                offsets.push(offset.0);
                offset.0 += text.chars().count();
            }
            tokens.push(text);
            let Some(found) = found else {
                logprobs.push(Value::Null);
                tops.push(Value::Null);
                continue;
            };
            logprobs.push(finite(found.logprob));
            let mut top = Map::new();
            for &(token, logprob) in &found.top {
                // Of tokens with one text the most probable one stays.
                top.entry(texts.of(token).text).or_insert(finite(logprob));
            }
            tops.push(Value::Object(top));
        }
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
