//! Prompts that are longer than they may be, or than is cheap.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cascade_core::{Architecture, Error, Result, Scorer, TextCodec, TextDecoder, TokenId};
use cascade_core::{TokenTree, Want};
use cascade_models::Model;
use serde::{Deserialize, Serialize};

/// Source tokens from which encoding is announced with its estimated time: attention to all of them
/// takes time quadratic in their number.
pub const LONG_SOURCE: usize = 2048;

/// Tokens whose encoding is timed for the estimate.
const PROBE: usize = 64;

/// What happens to a prompt with more tokens than it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// It is an error.
    #[default]
    Refuse,
    /// Its beginning is left out, with a notice.
    Left,
    /// Its end is left out, with a notice.
    Right,
}

/// How long a prompt may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptLimit {
    /// Its most tokens, those included that the tokenizer adds.
    pub max_tokens: usize,
    /// What happens to a longer one.
    pub truncate: Truncate,
}

/// Where notices go that cannot be returned: what was left out of a prompt, how long it will take,
/// that models which are about to be loaded may not fit into memory.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(&str) + Send + Sync>);

impl Notices {
    /// Notices go to a function.
    pub fn new(notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(notice))
    }

    pub(crate) fn say(&self, notice: &str) {
        (self.0)(notice);
    }
}

/// To standard error, each in a line.
impl Default for Notices {
    fn default() -> Self {
        // That nobody can read it is no reason to stop.
        Self::new(|notice| drop(writeln!(std::io::stderr(), "warning: {notice}")))
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

/// A tokenizer whose prompts are as long as they may be, and announced if they take long.
pub(crate) struct GuardedCodec {
    pub(crate) inner: Arc<dyn TextCodec>,
    pub(crate) limit: Option<PromptLimit>,
    /// The target, if it has an encoder.
    pub(crate) encoder: Option<Arc<Model>>,
    pub(crate) notices: Notices,
    /// What was said last: a prompt may be encoded several times.
    pub(crate) said: Mutex<String>,
}

impl TextCodec for GuardedCodec {
    fn encode(&self, text: &str) -> Result<Vec<TokenId>> {
        self.guarded(self.inner.encode(text)?)
    }

    fn encode_verbatim(&self, text: &str) -> Result<Vec<TokenId>> {
        self.guarded(self.inner.encode_verbatim(text)?)
    }

    fn special_token(&self, text: &str) -> Option<TokenId> {
        self.inner.special_token(text)
    }

    fn decoder(self: Arc<Self>) -> Box<dyn TextDecoder + Send> {
        Arc::clone(&self.inner).decoder()
    }

    fn decoder_after(self: Arc<Self>, context: &[TokenId]) -> Box<dyn TextDecoder + Send> {
        Arc::clone(&self.inner).decoder_after(context)
    }
}

impl GuardedCodec {
    fn guarded(&self, mut tokens: Vec<TokenId>) -> Result<Vec<TokenId>> {
        if let Some(limit) = self.limit.filter(|limit| tokens.len() > limit.max_tokens) {
            tokens = self.shortened(tokens, limit)?;
        }
        if let Some(model) = self
            .encoder
            .as_ref()
            .filter(|_| tokens.len() >= LONG_SOURCE)
        {
            self.announce(model, &tokens)?;
        }
        Ok(tokens)
    }

    fn shortened(&self, tokens: Vec<TokenId>, limit: PromptLimit) -> Result<Vec<TokenId>> {
        let all = tokens.len();
        let special = self.inner.encode("")?;
        let kept = match limit.truncate {
            Truncate::Refuse => None,
            Truncate::Left => cut(&tokens, &special, limit.max_tokens, true),
            Truncate::Right => cut(&tokens, &special, limit.max_tokens, false),
        };
        let kept = kept.ok_or(Error::PromptTooLong {
            tokens: all,
            limit: limit.max_tokens,
        })?;
        let end = match limit.truncate {
            Truncate::Left => "first",
            _ => "last",
        };
        self.say(&format!(
            "the prompt has {all} tokens; the {end} {} of its text are left out \
             (generation.max_prompt_tokens is {})",
            all - kept.len(),
            limit.max_tokens
        ));
        Ok(kept)
    }

    /// Says how long encoding will take, from the time that a few tokens take.
    fn announce(&self, model: &Arc<Model>, tokens: &[TokenId]) -> Result<()> {
        let text = format!("the prompt has {} tokens", tokens.len());
        if self.has_said(&text) {
            return Ok(());
        }
        let probe = time_encoding(model, &tokens[..PROBE])?;
        let more = model.encoding_operations(tokens.len()) / model.encoding_operations(PROBE);
        let estimate = probe.as_secs_f64() * more;
        self.say(&format!(
            "{text}: encoding them takes about {} with the target alone, before the first token appears; \
             shorten it, or set generation.max_prompt_tokens and generation.truncate_prompt",
            duration(estimate)
        ));
        Ok(())
    }

    fn has_said(&self, beginning: &str) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.starts_with(beginning)
    }

    fn say(&self, notice: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != notice {
            notice.clone_into(&mut said);
            self.notices.say(notice);
        }
    }
}

/// The longest beginning or end of a prompt with at most `limit` tokens, around which `special`
/// tokens stay: those that the tokenizer puts before or behind every text. Nothing if there is no
/// room for any of the text.
fn cut(tokens: &[TokenId], special: &[TokenId], limit: usize, left: bool) -> Option<Vec<TokenId>> {
    let leads = tokens.starts_with(special);
    let (before, rest) = tokens.split_at(if leads { special.len() } else { 0 });
    let trails = !leads && rest.ends_with(special);
    let (text, behind) = rest.split_at(rest.len() - if trails { special.len() } else { 0 });
    let room = limit
        .checked_sub(before.len() + behind.len())
        .filter(|&room| room > 0)?;
    let text = if left {
        &text[text.len().saturating_sub(room)..]
    } else {
        &text[..room.min(text.len())]
    };
    Some([before, text, behind].concat())
}

fn time_encoding(model: &Arc<Model>, source: &[TokenId]) -> Result<Duration> {
    let mut session = model.session();
    let started = Instant::now();
    session.set_source(source)?;
    session.score(&[], &TokenTree::new(), Want::ARGMAX)?;
    Ok(started.elapsed())
}

/// The model, if it encodes its prompts.
pub(crate) fn encoder(model: &Arc<Model>) -> Option<Arc<Model>> {
    let encodes = model.info().architecture == Architecture::EncoderDecoder;
    encodes.then(|| Arc::clone(model))
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 90.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds if seconds >= 1.0 => format!("{seconds:.0} seconds"),
        _ => "a second or less".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_stay_around_what_is_kept() {
        let left =
            |tokens: &[TokenId], special: &[TokenId], limit| cut(tokens, special, limit, true);
        let right =
            |tokens: &[TokenId], special: &[TokenId], limit| cut(tokens, special, limit, false);
        assert_eq!(left(&[1, 5, 6, 7], &[1], 3), Some(vec![1, 6, 7]));
        assert_eq!(right(&[1, 5, 6, 7], &[1], 3), Some(vec![1, 5, 6]));
        assert_eq!(left(&[5, 6, 7, 1], &[1], 3), Some(vec![6, 7, 1]));
        assert_eq!(right(&[5, 6, 7, 1], &[1], 2), Some(vec![5, 1]));
        assert_eq!(right(&[5, 6, 7], &[], 2), Some(vec![5, 6]));
        assert_eq!(left(&[5, 6, 7, 1], &[1], 1), None);
    }

    #[test]
    fn estimates_are_rough() {
        assert_eq!(duration(0.2), "a second or less");
        assert_eq!(duration(12.3), "12 seconds");
        assert_eq!(duration(200.0), "3 minutes");
    }
}
