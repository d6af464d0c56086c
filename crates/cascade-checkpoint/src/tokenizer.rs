//! Tokenizers as [`TextCodec`]s.
//!
//! Each format has a file of its own, which makes a tokenizer of the library from it.

mod declared;
mod json;
mod sentencepiece;

use std::fmt;
use std::panic::{AssertUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use cascade_core::{Fingerprint, TextCodec, TextDecoder, TokenId};
use cascade_hub::TokenizerFiles;

use self::declared::Content;
use crate::gguf::{Gguf, vocabulary};
use crate::sentencepiece::SPACE;
use crate::{Error, ErrorKind, Result};

/// A tokenizer in the format of Hugging Face's `tokenizers`. Clones share their data.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
    /// What the user should know.
    warnings: Arc<[String]>,
}

struct Inner {
    file: String,
    tokenizer: tokenizers::Tokenizer,
    /// The highest id.
    last: TokenId,
    /// Computed when it is first asked for: it reads the whole vocabulary.
    fingerprint: OnceLock<Fingerprint>,
}

impl Tokenizer {
    /// Reads a tokenizer.json, or a model of SentencePiece (`.model`), with what lies beside it.
    /// Truncation and padding that it asks for are switched off: a prompt is never cut in silence.
    ///
    /// # Errors
    /// A file that cannot be read or understood, the files beside it included.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        Self::load(&TokenizerFiles::of_file(path.as_ref()))
    }

    /// Reads the content of a tokenizer.json that errors call `name`.
    ///
    /// # Errors
    /// If it is not a tokenizer.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Result<Self> {
        Self::checked(name.into(), || json::parse(bytes))
    }

    /// Reads the tokenizer that [`ModelSource::tokenizer`](cascade_hub::ModelSource::tokenizer) has
    /// found.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file).
    pub fn load(files: &TokenizerFiles) -> Result<Self> {
        match files {
            TokenizerFiles::Json(files) => {
                let content = Content::read(files)?;
                let name = files.vocabulary.to_string();
                let tokenizer = Self::checked(name, || json::build(&content))?;
                let warnings = json::warnings(&content, &tokenizer.inner.tokenizer).into();
                Ok(Self {
                    warnings,
                    ..tokenizer
                })
            }
            TokenizerFiles::SentencePiece(files) => {
                let content = Content::read(files)?;
                let name = files.vocabulary.to_string();
                Self::checked(name, || sentencepiece::build(&content))
            }
            TokenizerFiles::Gguf(file) => Self::of_gguf(&Gguf::open_first(file)?),
        }
    }

    /// The tokenizer in a GGUF file.
    pub(crate) fn of_gguf(gguf: &Gguf) -> Result<Self> {
        match vocabulary::whole(gguf)? {
            Some(json) => Self::from_bytes(gguf.file(), json.to_string().as_bytes()),
            None => Self::described_by(gguf),
        }
    }

    /// The tokenizer that a GGUF file describes in keys of its own.
    pub(crate) fn described_by(gguf: &Gguf) -> Result<Self> {
        let (tokenizer, warnings) = vocabulary::described(gguf)?;
        let tokenizer = AssertUnwindSafe(tokenizer);
        let checked = Self::checked(gguf.file().to_owned(), || {
            let AssertUnwindSafe(tokenizer) = tokenizer;
            Ok(tokenizer)
        });
        Ok(Self {
            warnings: warnings.into(),
            ..checked?
        })
    }

    /// The tokenizer that `build` makes, tried out, without truncation and padding.
    fn checked(
        file: String,
        build: impl FnOnce() -> std::result::Result<tokenizers::Tokenizer, String> + UnwindSafe,
    ) -> Result<Self> {
        let bad = |reason: String| Error::tokenizer(&file, &reason);
        let tokenizer = tried(build).map_err(bad)?;
        let last = tokenizer
            .get_vocab(true)
            .into_values()
            .max()
            .ok_or_else(|| bad("its vocabulary is empty".to_owned()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                file,
                tokenizer,
                last,
                fingerprint: OnceLock::new(),
            }),
            warnings: Arc::default(),
        })
    }

    /// The file the tokenizer was read from.
    pub fn file(&self) -> &str {
        &self.inner.file
    }

    /// What the user should know of it, in sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Number of tokens, added ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.tokenizer.get_vocab_size(true)
    }

    /// One more than the highest id. At least [`vocab_size`](Self::vocab_size), and more if ids are
    /// left out.
    pub fn id_bound(&self) -> usize {
        self.inner.last as usize + 1
    }

    /// Identity of the vocabulary, added tokens included. Costs a hash over all of it.
    pub fn fingerprint(&self) -> Fingerprint {
        let fingerprint = self.inner.fingerprint.get_or_init(|| {
            let vocabulary = self.inner.tokenizer.get_vocab(true);
            Fingerprint::of_vocabulary(vocabulary.into_iter().map(|(piece, id)| (id, piece)))
        });
        fingerprint.clone()
    }

    /// Id of a token, written as in the vocabulary.
    pub fn token_to_id(&self, token: &str) -> Option<TokenId> {
        self.inner.tokenizer.token_to_id(token)
    }

    /// A token as the vocabulary writes it.
    pub fn id_to_token(&self, id: TokenId) -> Option<String> {
        self.inner.tokenizer.id_to_token(id)
    }

    /// Whether an id is an added token's: one that is found in texts before they are split, special
    /// or not, and is no part of the vocabulary that was trained.
    pub fn is_added(&self, id: TokenId) -> bool {
        let added = self.inner.tokenizer.get_added_vocabulary();
        added.get_added_tokens_decoder().contains_key(&id)
    }

    /// Tokens of a text without special tokens around it, as corpora are counted.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<TokenId>> {
        self.encode_with(text, false)
    }

    /// Text of tokens. Special tokens and unknown ids give no text.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub fn decode(&self, tokens: &[TokenId]) -> Result<String> {
        let text = self.inner.tokenizer.decode(tokens, true);
        text.map_err(|error| self.failed("decode", &*error))
    }

    /// What the user should know of a stop text: that it holds a special token beside other text,
    /// so that no answer ever has it.
    pub fn stop_warning(&self, text: &str) -> Option<String> {
        let tokens = self.encode_plain(text).unwrap_or_default();
        let special = tokens.into_iter().find(|&token| self.is_special(token))?;
        let special = self
            .id_to_token(special)
            .filter(|special| special != text)?;
        Some(format!(
            "the stop text {text:?} ends no answer: {special:?} in it is a special token, which has no text; give it \
             alone"
        ))
    }

    /// Checks that a model with an embedding of `vocab_size` rows knows every id, but for added
    /// tokens: some models come with one more, such as a `<pad>`, that no text has.
    ///
    /// # Errors
    /// For the highest id that the model does not know.
    pub fn check_fits(&self, vocab_size: usize) -> Result<()> {
        let rows = TokenId::try_from(vocab_size).unwrap_or(TokenId::MAX);
        let mut beyond = (rows..=self.inner.last).rev();
        let word =
            beyond.find_map(|id| Some((id, self.id_to_token(id)?)).filter(|_| !self.is_added(id)));
        match word {
            None => Ok(()),
            Some((id, token)) => {
                let message = format!(
                    "{} has token {token:?} with id {id}, but the model's vocabulary has {vocab_size} entries; take the \
                     tokenizer and the weights from the same model",
                    self.inner.file
                );
                Err(Error::new(ErrorKind::Mismatch, message))
            }
        }
    }

    /// The content of a tokenizer.json that describes it.
    ///
    /// # Errors
    /// If the tokenizer fails.
    pub(crate) fn to_json(&self) -> Result<String> {
        let json = self.inner.tokenizer.to_string(false);
        json.map_err(|error| self.failed("write", &*error))
    }

    /// Tokens of a text, with those around it that a prompt gets, or without.
    pub(crate) fn encode_with(&self, text: &str, special: bool) -> Result<Vec<TokenId>> {
        // The library panics on damaged tables of characters, when it meets the damaged part.
        let tokenizer = AssertUnwindSafe(&self.inner.tokenizer);
        let encoding = std::panic::catch_unwind(|| tokenizer.encode_fast(text, special))
            .unwrap_or_else(|_| Err("its tables are damaged".into()))
            .map_err(|error| self.failed("encode", &*error))?;
        Ok(encoding.get_ids().to_vec())
    }

    fn failed(&self, action: &str, error: &(dyn std::error::Error + 'static)) -> Error {
        let file = &self.inner.file;
        let message = format!("the tokenizer of {file} cannot {action}: {error}");
        Error::new(ErrorKind::Tokenizer, message)
    }

    /// The last tokens of a text, as many as have a word, behind which nothing is a beginning.
    /// Bytes at its end are left out: further ones would be read together with them.
    fn anchor(&self, context: &[TokenId]) -> Vec<TokenId> {
        let mut anchor = Vec::new();
        for &token in context.iter().rev() {
            let Some(piece) = self.visible(token) else {
                continue;
            };
            let byte = is_byte(&piece);
            if byte && anchor.is_empty() {
                continue;
            }
            anchor.push(token);
            if !byte && !piece.chars().all(|c| c == SPACE) {
                break;
            }
        }
        anchor.reverse();
        anchor
    }

    /// The token, if it gives text.
    fn visible(&self, id: TokenId) -> Option<String> {
        self.id_to_token(id).filter(|_| !self.is_special(id))
    }

    /// Whether a token gives no text.
    fn is_special(&self, id: TokenId) -> bool {
        let added = self.inner.tokenizer.get_added_vocabulary();
        self.id_to_token(id)
            .is_some_and(|token| added.is_special_token(&token))
    }
}

/// The tokenizer that `build` makes, after it has encoded and decoded a text.
///
/// The library panics on some files: while it parses a decoder that it does not know, and while it
/// encodes if the post-processor names a special token that it does not describe. Both are found
/// here.
fn tried(
    build: impl FnOnce() -> std::result::Result<tokenizers::Tokenizer, String> + UnwindSafe,
) -> std::result::Result<tokenizers::Tokenizer, String> {
    let try_out = |mut tokenizer: tokenizers::Tokenizer| {
        tokenizer.with_truncation(None)?;
        tokenizer.with_padding(None);
        let tokens = tokenizer.encode_fast("A text.", true)?;
        tokenizer.decode(tokens.get_ids(), true)?;
        Ok(tokenizer)
    };
    let describe = |error: tokenizers::Error| error.to_string();
    let tried = std::panic::catch_unwind(|| try_out(build()?).map_err(describe));
    tried.unwrap_or_else(|_| {
        let reason = "a part of it is of a type that is not known, or names a token that is not \
                      there";
        Err(reason.to_owned())
    })
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("file", &self.inner.file)
            .field("vocab_size", &self.vocab_size())
            .finish_non_exhaustive()
    }
}

impl TextCodec for Tokenizer {
    fn encode(&self, text: &str) -> cascade_core::Result<Vec<TokenId>> {
        Ok(self.encode_with(text, true)?)
    }

    fn encode_verbatim(&self, text: &str) -> cascade_core::Result<Vec<TokenId>> {
        Ok(self.encode_with(text, false)?)
    }

    fn special_token(&self, text: &str) -> Option<TokenId> {
        self.token_to_id(text).filter(|&id| self.is_special(id))
    }

    fn decoder(self: Arc<Self>) -> Box<dyn TextDecoder + Send> {
        self.decoder_after(&[])
    }

    fn decoder_after(self: Arc<Self>, context: &[TokenId]) -> Box<dyn TextDecoder + Send> {
        let anchor = self.anchor(context);
        let whole = |text: &String| !text.ends_with(char::REPLACEMENT_CHARACTER);
        let anchor_text = self.decode(&anchor).ok().filter(whole);
        Box::new(StreamDecoder {
            tokenizer: self,
            anchor: anchor_text.as_ref().map_or_else(Vec::new, |_| anchor),
            anchor_text: anchor_text.unwrap_or_default(),
            held: Vec::new(),
        })
    }
}

/// Decodes token by token.
///
/// A token's text depends on its neighbours: the first token of a text loses its leading space, and
/// a run of byte tokens is read as UTF-8 as a whole, all of it becoming replacement characters if
/// any of it is wrong. So each token is decoded behind an `anchor` of tokens before it, whose text
/// is then taken off, and a run of byte tokens waits for its end. (`tokenizers::DecodeStream`
/// releases a run at its first complete character, which later bytes may spoil, and never releases
/// an incomplete one.)
struct StreamDecoder {
    tokenizer: Arc<Tokenizer>,
    /// Tokens just before `held` whose text is out, or known; empty at the beginning only.
    anchor: Vec<TokenId>,
    anchor_text: String,
    /// Tokens whose text is not out yet.
    held: Vec<TokenId>,
}

impl StreamDecoder {
    fn window(&self) -> Vec<TokenId> {
        [self.anchor.as_slice(), &self.held].concat()
    }

    /// Makes the held tokens the anchor.
    fn release(&mut self) -> Result<()> {
        let held_text = self.tokenizer.decode(&self.held)?;
        // Decoders strip blanks at the beginning of a text; behind something that is not blank
        // there is no beginning.
        if held_text.trim().is_empty() {
            self.anchor = self.window();
            self.anchor_text = self.tokenizer.decode(&self.anchor)?;
            self.held.clear();
        } else {
            self.anchor = std::mem::take(&mut self.held);
            self.anchor_text = held_text;
        }
        Ok(())
    }
}

impl TextDecoder for StreamDecoder {
    fn push(&mut self, token: TokenId) -> cascade_core::Result<String> {
        let Some(piece) = self.tokenizer.visible(token) else {
            return Ok(String::new());
        };
        self.held.push(token);
        if is_byte(&piece) {
            return Ok(String::new());
        }
        let text = self.tokenizer.decode(&self.window())?;
        match text.strip_prefix(self.anchor_text.as_str()) {
            // The end of an incomplete character looks like this.
            Some(fresh) if !fresh.ends_with(char::REPLACEMENT_CHARACTER) => {
                let fresh = fresh.to_owned();
                self.release()?;
                Ok(fresh)
            }
            _ => Ok(String::new()),
        }
    }

    fn finish(&mut self) -> cascade_core::Result<String> {
        if self.held.is_empty() {
            return Ok(String::new());
        }
        let text = self.tokenizer.decode(&self.window())?;
        let known = common_prefix(&text, &self.anchor_text);
        let fresh = text[known..].to_owned();
        self.release()?;
        Ok(fresh)
    }
}

/// Whether a token stands for a byte, such as `<0x0A>`.
fn is_byte(token: &str) -> bool {
    let hex = token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    hex.is_some_and(|hex| hex.len() == 2 && u8::from_str_radix(hex, 16).is_ok())
}

/// Bytes of the characters that both texts begin with.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    same.map(|(a, _)| a.len_utf8()).sum()
}
