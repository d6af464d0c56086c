//! The tokenizer inside a GGUF file.
//!
//! Three kinds: SentencePiece's BPE, whose merges follow from the scores of the pieces (`llama`),
//! byte-level BPE with merges of its own (`gpt2`), and SentencePiece's unigram model (`t5`). Where
//! llama.cpp and the tokenizers of Hugging Face read a text differently, the latter counts: the
//! model was trained with it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;

use serde_json::{Value as Json, json};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

use super::{Gguf, pre_tokenizers};
use crate::sentencepiece::{self, Outcome, Piece, PieceType, SPACE, describe};
use crate::{Error, Result};

/// Bytes of a token at most. Real ones have tens; the work that merges take grows with the square.
const LONGEST: usize = 4096;

pub(crate) const MODEL: &str = "tokenizer.ggml.model";
pub(crate) const PRE: &str = "tokenizer.ggml.pre";
pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(crate) const TYPES: &str = "tokenizer.ggml.token_type";
pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
pub(crate) const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
pub(crate) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(crate) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
pub(crate) const ADD_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub(crate) const STRIP: &str = "tokenizer.ggml.remove_extra_whitespaces";
pub(crate) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(crate) const EOS: &str = "tokenizer.ggml.eos_token_id";
pub(crate) const EOT: &str = "tokenizer.ggml.eot_token_id";
const EOM: &str = "tokenizer.ggml.eom_token_id";
pub(crate) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
pub(crate) const PADDING: &str = "tokenizer.ggml.padding_token_id";
/// A whole tokenizer.json.
pub(crate) const WHOLE: &str = "tokenizer.huggingface.json";
pub(crate) const TEMPLATE: &str = "tokenizer.chat_template";
pub(crate) const TEMPLATES: &str = "tokenizer.chat_templates";

/// Keys that are read.
const READ: [&str; 18] = [
    WHOLE, MODEL, PRE, TOKENS, TYPES, SCORES, MERGES, CHARSMAP, ADD_BOS, ADD_EOS, ADD_SEP,
    ADD_PREFIX, STRIP, BOS, EOS, EOT, EOM, UNKNOWN,
];

/// Keys that say nothing of how a text becomes tokens: templates, copies, and, by the end of their
/// names, tokens for other uses.
const HARMLESS: [&str; 4] = [
    "tokenizer.ggml.token_type_count",
    "tokenizer.ggml.added_tokens",
    SUPPRESSED,
    TEMPLATES,
];
const OF_TOKEN: &str = "_token_id";
/// Tokens that llama.cpp never generates.
const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";

/// Texts of tokens that end an answer where a file names only one of several, as llama.cpp knows
/// them.
const ENDS: [&str; 22] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];

/// The vocabulary of a file.
struct Vocabulary<'a> {
    gguf: &'a Gguf,
    tokens: Vec<String>,
    kinds: Vec<PieceType>,
    /// What the user should know of it.
    warnings: Vec<String>,
}

/// What a tokenizer_config.json would say of conversations: the template or templates, and the
/// texts of the special tokens that these may name.
///
/// # Errors
/// Templates that are no texts; ids that name no token.
pub(crate) fn tokenizer_config(gguf: &Gguf) -> Result<Json> {
    let vocabulary = Vocabulary::read(gguf)?;
    let mut config = serde_json::Map::new();
    for (name, key) in [
        ("bos_token", BOS),
        ("eos_token", EOS),
        ("unk_token", UNKNOWN),
        ("pad_token", PADDING),
    ] {
        // Padding may lie behind the last token that is used.
        let id = gguf.unsigned(key)?.and_then(|id| usize::try_from(id).ok());
        if let Some(token) = id.and_then(|id| vocabulary.tokens.get(id)) {
            config.insert(name.to_owned(), json!(token));
        }
    }
    let mut templates = Vec::new();
    for key in gguf.keys() {
        let name = match key.strip_prefix(TEMPLATE) {
            Some("") => "default",
            Some(rest) => rest.strip_prefix('.').unwrap_or(rest),
            None => continue,
        };
        // The list of the names alone.
        if key != TEMPLATES {
            templates.push(json!({"name": name, "template": gguf.text(key)?}));
        }
    }
    match templates.as_slice() {
        [] => None,
        [only] if only["name"] == "default" => {
            config.insert("chat_template".to_owned(), only["template"].clone())
        }
        _ => config.insert("chat_template".to_owned(), Json::Array(templates)),
    };
    Ok(Json::Object(config))
}

/// The tokens that end an answer: those that the file names, and those whose text says so.
pub(crate) fn ends(gguf: &Gguf) -> Result<Vec<u64>> {
    let absent = match gguf.text(MODEL)? {
        Some("llama") => Some(2),
        Some("t5") => Some(1),
        _ => None,
    };
    let mut ends = BTreeSet::new();
    ends.extend(gguf.unsigned(EOS)?.or(absent));
    ends.extend(gguf.unsigned(EOT)?);
    ends.extend(gguf.unsigned(EOM)?);
    if gguf.value(TOKENS).is_none() {
        // Its tokenizer comes from elsewhere.
        return Ok(ends.into_iter().collect());
    }
    let vocabulary = Vocabulary::read(gguf)?;
    let listed = gguf.texts(TOKENS)?.map_or(0, |tokens| tokens.len());
    ends.retain(|&id| id < listed as u64);
    let tokens = vocabulary.tokens.iter().zip(&vocabulary.kinds).zip(0..);
    let spoken = tokens.filter(|((token, kind), _)| {
        matches!(kind, PieceType::Control | PieceType::UserDefined) && vocabulary.is_end(token)
    });
    ends.extend(spoken.map(|(_, id)| id));
    Ok(ends.into_iter().collect())
}

/// The tokenizer.json that a file holds as a whole, if it does.
///
/// # Errors
/// A key that is not understood; a tokenizer.json that is none, or of another vocabulary than the
/// file's.
pub(crate) fn whole(gguf: &Gguf) -> Result<Option<Json>> {
    let whole = gguf.text(WHOLE)?;
    whole.map(|whole| whole_tokenizer(gguf, whole)).transpose()
}

fn whole_tokenizer(gguf: &Gguf, text: &str) -> Result<Json> {
    refuse_unknown(gguf)?;
    let json: Json = serde_json::from_str(text)
        .map_err(|error| gguf.no_tokenizer(format!("`{WHOLE}` is no JSON: {error}")))?;
    if gguf.value(TOKENS).is_none() {
        return Ok(json);
    }
    // A file whose two vocabularies differ belongs to neither.
    let listed = Vocabulary::read(gguf)?;
    let of_list = |id: u64| {
        let id = usize::try_from(id).ok();
        id.and_then(|id| listed.tokens.get(id))
    };
    let mut pairs = entries(&json)
        .into_iter()
        .filter_map(|(token, id)| Some((token, id, of_list(id)?)));
    match pairs.find(|(token, _, other)| *token != other.as_str()) {
        None => Ok(json),
        Some((token, id, other)) => Err(gguf.no_tokenizer(format!(
            "token {id} is {token:?} in `{WHOLE}`, and {other:?} in `{TOKENS}`"
        ))),
    }
}

/// Tokens and ids of a tokenizer.json, those of its model first.
pub(crate) fn entries(json: &Json) -> Vec<(&str, u64)> {
    let vocabulary = &json["model"]["vocab"];
    let mut entries: Vec<(&str, u64)> = Vec::new();
    if let Some(pieces) = vocabulary.as_object() {
        let pieces = pieces.iter();
        entries.extend(pieces.filter_map(|(token, id)| Some((token.as_str(), id.as_u64()?))));
    }
    if let Some(pieces) = vocabulary.as_array() {
        let pieces = pieces.iter().zip(0..);
        entries.extend(pieces.filter_map(|(piece, id)| Some((piece[0].as_str()?, id))));
    }
    let added = json["added_tokens"].as_array().into_iter().flatten();
    entries.extend(
        added.filter_map(|token| Some((token["content"].as_str()?, token["id"].as_u64()?))),
    );
    entries
}

/// The tokenizer that a file describes in keys of its own, and what the user should know of it.
///
/// # Errors
/// A kind or a pre-tokenizer that is not known, a key that is not understood, lists that do not
/// belong together.
pub(crate) fn described(gguf: &Gguf) -> Result<(Tokenizer, Vec<String>)> {
    refuse_unknown(gguf)?;
    let vocabulary = Vocabulary::read(gguf)?;
    if gguf.flag(ADD_SEP)? == Some(true) {
        let problem = format!("`{ADD_SEP}` asks for separators, which no supported model has");
        return Err(gguf.unusable(problem));
    }
    let tokenizer = match gguf.text(MODEL)? {
        Some("llama") => vocabulary.sentencepiece_bpe(),
        Some("gpt2") => vocabulary.byte_level_bpe(),
        Some("t5") => vocabulary.unigram(),
        Some(other) => Err(gguf.no_tokenizer(format!(
            "its tokenizer is of kind `{other}`; llama, gpt2 and t5 are read"
        ))),
        None => Err(gguf.no_tokenizer("it has no tokenizer")),
    };
    Ok((tokenizer?, vocabulary.warnings))
}

impl Gguf {
    /// The error of a file whose tokenizer cannot be used.
    fn no_tokenizer(&self, problem: impl Display) -> Error {
        let cure =
            "give the tokenizer of the model it was made from: `tokenizer: ORG/NAME` or a folder";
        self.fault(problem, cure)
    }
}

fn refuse_unknown(gguf: &Gguf) -> Result<()> {
    let known = |key: &str| {
        let named = READ.contains(&key) || HARMLESS.contains(&key);
        named || key.ends_with(OF_TOKEN) || key.starts_with(TEMPLATE)
    };
    let mut keys = gguf.keys();
    match keys.find(|key| key.starts_with("tokenizer.") && !known(key)) {
        None => Ok(()),
        Some(key) => Err(gguf.no_tokenizer(format!(
            "`{key}` is not known here, and may change how texts become tokens"
        ))),
    }
}

impl<'a> Vocabulary<'a> {
    fn read(gguf: &'a Gguf) -> Result<Self> {
        let tokens = gguf
            .texts(TOKENS)?
            .ok_or_else(|| gguf.no_tokenizer(format!("it has no `{TOKENS}`")))?;
        let kinds = match gguf.integers(TYPES)? {
            None => vec![PieceType::Normal; tokens.len()],
            Some(numbers) => numbers
                .into_iter()
                .map(|number| {
                    let kind = i32::try_from(number).ok().and_then(|n| n.try_into().ok());
                    let problem = || format!("`{TYPES}` has a type {number}, which is not known");
                    kind.ok_or_else(|| gguf.unusable(problem()))
                })
                .collect::<Result<_>>()?,
        };
        let mut vocabulary = Self {
            gguf,
            tokens: tokens.into_iter().zip(0..).map(name).collect(),
            kinds,
            warnings: Vec::new(),
        };
        let (tokens, types) = (vocabulary.tokens.len(), vocabulary.kinds.len());
        if types != tokens {
            let problem = format!("`{TYPES}` has {types} entries for {tokens} tokens");
            return Err(gguf.unusable(problem));
        }
        vocabulary.drop_padding();
        vocabulary.check_tokens()?;
        vocabulary.mark_ends()?;
        Ok(vocabulary)
    }

    /// Takes tokens that end answers for special ones, whatever the file says of their type: as
    /// texts they would be cut into pieces and shown. Notes ids of tokens that there are not.
    fn mark_ends(&mut self) -> Result<()> {
        let mut named = BTreeSet::new();
        for key in [BOS, EOS, EOT, EOM, UNKNOWN] {
            let Some(id) = self.gguf.unsigned(key)? else {
                continue;
            };
            let tokens = self.tokens.len();
            if id >= tokens as u64 {
                self.warnings.push(format!(
                    "`{key}` is {id}, and there are {tokens} tokens: it is passed over"
                ));
            } else if [EOS, EOT, EOM].contains(&key) {
                named.insert(id as usize);
            }
        }
        for (id, token) in self.tokens.iter().enumerate() {
            let is_end = named.contains(&id) || self.is_end(token);
            if is_end && self.kinds[id] == PieceType::Normal {
                self.kinds[id] = PieceType::Control;
                self.warnings.push(format!(
                    "token {id} ({token:?}) ends answers, and is ordinary text by `{TYPES}`: it is read as a special \
                     token"
                ));
            }
        }
        if let Some(some) = self
            .gguf
            .integers(SUPPRESSED)?
            .filter(|ids| !ids.is_empty())
        {
            self.warnings.push(format!(
                "`{SUPPRESSED}` names {} tokens that llama.cpp never generates; here nothing keeps the model from them",
                some.len()
            ));
        }
        Ok(())
    }

    /// Whether a token's text says that it ends an answer, in this vocabulary.
    fn is_end(&self, token: &str) -> bool {
        let has = |other: &str| self.tokens.iter().any(|token| token == other);
        let is_other = match token {
            // One of several messages ends there, not the answer.
            "<|end|>" => {
                (has("<|call|>") || has("<|calls|>")) && (has("<|return|>") || has("<|flush|>"))
            }
            // A tag of HTML, beside markers of another form.
            "</s>" => has("<|tool_response>") || has("<|plamo:eos|>"),
            _ => false,
        };
        ENDS.contains(&token) && !is_other
    }

    /// Leaves out the tokens behind the last that is used: they fill the vocabulary up to the rows
    /// of the embedding, and no tokenizer of Hugging Face has them.
    fn drop_padding(&mut self) {
        let used = self
            .kinds
            .iter()
            .rposition(|&kind| kind != PieceType::Unused)
            .map_or(0, |last| last + 1);
        self.tokens.truncate(used);
        self.kinds.truncate(used);
    }

    fn check_tokens(&self) -> Result<()> {
        let mut ids = HashMap::new();
        for (token, id) in self.tokens.iter().zip(0_usize..) {
            if token.len() > LONGEST {
                let problem = format!("token {id} is {} bytes long", token.len());
                return Err(self.gguf.unusable(problem));
            }
            if let Some(other) = ids.insert(token, id) {
                let problem = format!("tokens {other} and {id} are both {token:?}");
                return Err(self.gguf.unusable(problem));
            }
        }
        if ids.is_empty() {
            Err(self.gguf.no_tokenizer("its vocabulary is empty"))
        } else {
            Ok(())
        }
    }

    fn scores(&self) -> Result<Vec<f32>> {
        let stated = self
            .gguf
            .numbers(SCORES)?
            .ok_or_else(|| self.gguf.no_tokenizer(format!("it has no `{SCORES}`")))?;
        let mut scores: Vec<f32> = stated.into_iter().map(|score| score as f32).collect();
        if scores.len() < self.tokens.len() || !scores.iter().all(|score| score.is_finite()) {
            let problem = format!(
                "`{SCORES}` has no score for each of {} tokens",
                self.tokens.len()
            );
            return Err(self.gguf.unusable(problem));
        }
        scores.truncate(self.tokens.len());
        Ok(scores)
    }

    fn of_kind(&self, kind: PieceType) -> impl Iterator<Item = (usize, &str)> {
        let tokens = self
            .tokens
            .iter()
            .map(String::as_str)
            .zip(&self.kinds)
            .enumerate()
            .filter(move |&(_, (_, &other))| other == kind);
        tokens.map(|(id, (token, _))| (id, token))
    }

    /// The tokens that are found in a text before anything else.
    fn added(&self) -> Vec<AddedToken> {
        let added = self
            .tokens
            .iter()
            .zip(&self.kinds)
            .filter_map(|(token, kind)| {
                let special = match kind {
                    PieceType::Control | PieceType::Unknown => true,
                    PieceType::UserDefined => false,
                    PieceType::Normal | PieceType::Unused | PieceType::Byte => return None,
                };
                Some(AddedToken::from(token.clone(), special).normalized(false))
            });
        added.collect()
    }

    /// The token of a key, if there is one; `absent` if the file has no such key.
    fn token(&self, key: &str, absent: Option<u64>) -> Result<Option<(u64, &str)>> {
        let id = self.gguf.unsigned(key)?.or(absent);
        let at = id.and_then(|id| usize::try_from(id).ok());
        let token = at.and_then(|at| self.tokens.get(at));
        Ok(id.zip(token.map(String::as_str)))
    }

    /// A token before or behind every text, if there is one: that of `key`, if `added` says so.
    fn around(&self, added: &str, key: &str, unsaid: Unsaid) -> Result<Option<(&str, u64)>> {
        let is_added = self.gguf.flag(added)?.unwrap_or(unsaid.0);
        match (is_added, self.token(key, unsaid.1)?) {
            (false, _) => Ok(None),
            (true, Some((id, token))) => Ok(Some((token, id))),
            (true, None) if self.gguf.unsigned(key)?.is_some() => Ok(None),
            (true, None) => Err(self
                .gguf
                .unusable(format!("texts get a token that `{key}` does not name"))),
        }
    }

    /// Adds to a tokenizer what all kinds have: added tokens, and those around texts.
    fn completed(
        &self,
        tokenizer: Outcome<Tokenizer>,
        bos: Unsaid,
        eos: Unsaid,
    ) -> Result<Tokenizer> {
        let bos = self.around(ADD_BOS, BOS, bos)?;
        let eos = self.around(ADD_EOS, EOS, eos)?;
        let completed = tokenizer.and_then(|mut tokenizer| {
            tokenizer.add_tokens(self.added()).map_err(describe)?;
            sentencepiece::frame(&mut tokenizer, bos, eos)?;
            Ok(tokenizer)
        });
        completed.map_err(|reason| Error::tokenizer(self.gguf.file(), &reason))
    }

    /// LLaMA's: spaces are letters, characters that no piece has become bytes.
    fn sentencepiece_bpe(&self) -> Result<Tokenizer> {
        if self.gguf.flag(STRIP)? == Some(true) {
            let problem = format!("`{STRIP}` asks for spaces to be dropped, which no LLaMA does");
            return Err(self.gguf.no_tokenizer(problem));
        }
        let prefixed = self.gguf.flag(ADD_PREFIX)?.unwrap_or(true);
        let unknown = self.token(UNKNOWN, Some(0))?.map(|(_, token)| token);
        let scores = self.scores()?;
        let built = || {
            let tokens = self.tokens.iter().cloned();
            let mut tokenizer = sentencepiece::bpe(tokens, &self.mergeable(&scores), unknown)?;
            let spaces = sentencepiece::spaces(prefixed)?;
            tokenizer.with_normalizer(Some(spaces)).map_err(describe)?;
            tokenizer.with_decoder(Some(sentencepiece::bpe_decoder(prefixed)?));
            Ok(tokenizer)
        };
        self.completed(built(), (true, Some(1)), (false, Some(2)))
    }

    /// The pieces that are no special tokens.
    fn mergeable(&self, scores: &[f32]) -> Vec<Piece<'_>> {
        let pieces = self.tokens.iter().zip(scores).zip(&self.kinds).enumerate();
        pieces
            .filter(|(_, (_, kind))| matches!(kind, PieceType::Normal | PieceType::Unused))
            .map(|(id, ((text, &score), _))| Piece { id, text, score })
            .collect()
    }

    /// GPT-2's: bytes are letters.
    fn byte_level_bpe(&self) -> Result<Tokenizer> {
        if self.gguf.flag(ADD_PREFIX)? == Some(true) {
            let problem = format!("`{ADD_PREFIX}` asks a byte-level tokenizer for a leading space");
            return Err(self.gguf.no_tokenizer(problem));
        }
        let pre = self.pre_tokenizer()?;
        let ids: Vocab = self.tokens.iter().cloned().zip(0..).collect();
        let model = BPE::builder()
            .vocab_and_merges(ids, self.merges()?)
            .ignore_merges(pre.whole);
        let built = || {
            let mut tokenizer = Tokenizer::new(model.build().map_err(describe)?);
            let normalizer = pre.composed.then_some(NFC);
            tokenizer.with_normalizer(normalizer).map_err(describe)?;
            tokenizer.with_pre_tokenizer(Some(PreTokenizers::new(cuts(pre)?)));
            tokenizer.with_decoder(Some(ByteLevel::new(false, true, true)));
            Ok(tokenizer)
        };
        self.completed(built(), (pre.begins, None), (false, None))
    }

    fn pre_tokenizer(&self) -> Result<&'static pre_tokenizers::PreTokenizer> {
        let Some(name) = self.gguf.text(PRE)?.filter(|name| !name.is_empty()) else {
            return Err(self.gguf.no_tokenizer(format!(
                "it has no `{PRE}`, so that nobody knows how it cuts texts"
            )));
        };
        pre_tokenizers::of(name).ok_or_else(|| {
            self.gguf.no_tokenizer(format!(
                    "it cuts texts in the way `{name}` (`{PRE}`), which is not known here; known are {}",
                    pre_tokenizers::names().join(", ")
                ))
        })
    }

    fn merges(&self) -> Result<Vec<(String, String)>> {
        let merges = self
            .gguf
            .texts(MERGES)?
            .ok_or_else(|| self.gguf.no_tokenizer(format!("it has no `{MERGES}`")))?;
        let mut parts = Vec::with_capacity(merges.len());
        for merge in merges {
            // The left part may begin with a space, but has none behind it.
            let second = merge
                .char_indices()
                .nth(1)
                .map_or(merge.len(), |(at, _)| at);
            match merge[second..].find(' ') {
                Some(space) => {
                    let space = second + space;
                    parts.push((merge[..space].to_owned(), merge[space + 1..].to_owned()));
                }
                None => {
                    let problem = format!("`{MERGES}` has {merge:?}, which are not two parts");
                    return Err(self.gguf.unusable(problem));
                }
            }
        }
        Ok(parts)
    }

    /// T5's: the most probable pieces.
    fn unigram(&self) -> Result<Tokenizer> {
        for key in [ADD_PREFIX, STRIP] {
            if self.gguf.flag(key)? == Some(false) {
                let problem = format!("`{key}` is false, which it is in no T5");
                return Err(self.gguf.no_tokenizer(problem));
            }
        }
        let scores = self.piece_scores()?;
        let pieces = self
            .tokens
            .iter()
            .cloned()
            .zip(scores.into_iter().map(f64::from))
            .collect();
        let unknown = self.token(UNKNOWN, Some(2))?.map(|(id, _)| id as usize);
        let has_bytes = self.of_kind(PieceType::Byte).next().is_some();
        let table = self.charsmap()?;
        let built = || {
            let model = Unigram::from(pieces, unknown, has_bytes).map_err(describe)?;
            let mut tokenizer = Tokenizer::new(model);
            let replaced = sentencepiece::replacements(&table)?;
            tokenizer.with_normalizer(replaced).map_err(describe)?;
            let words = Metaspace::new(SPACE, PrependScheme::Always, true);
            let cuts = vec![WhitespaceSplit.into(), words.clone().into()];
            tokenizer.with_pre_tokenizer(Some(PreTokenizers::new(cuts)));
            tokenizer.with_decoder(Some(words));
            Ok(tokenizer)
        };
        self.completed(built(), (false, None), (true, Some(1)))
    }

    /// Scores of a unigram model: those of tokens that are found before the model is asked must not
    /// count, and the lowest of the others sets that of unknown characters.
    fn piece_scores(&self) -> Result<Vec<f32>> {
        if let Some((id, token)) = self.of_kind(PieceType::Unused).next() {
            let problem = format!("token {id} ({token:?}) among others is marked as unused");
            return Err(self.gguf.no_tokenizer(problem));
        }
        let scores = self.scores()?.into_iter().zip(&self.kinds);
        let counted = |(score, kind)| match kind {
            PieceType::Normal | PieceType::Byte => score,
            _ => 0.0,
        };
        Ok(scores
            .map(|(score, &kind)| counted((score, kind)))
            .collect())
    }

    /// The table of what characters are replaced with.
    fn charsmap(&self) -> Result<Vec<u8>> {
        let bytes = self.gguf.integers(CHARSMAP)?.unwrap_or_default();
        Ok(bytes.into_iter().map(|byte| byte as u8).collect())
    }
}

/// Whether a token is before or behind every text, and which it is, if the file does not say.
type Unsaid = (bool, Option<u64>);

/// The text of a token; an empty one would be found everywhere.
fn name((token, id): (&str, usize)) -> String {
    match token {
        "" => format!("[EMPTY_{id}]"),
        token => token.to_owned(),
    }
}

/// How texts are cut before their bytes become letters.
fn cuts(pre: &pre_tokenizers::PreTokenizer) -> Outcome<Vec<PreTokenizerWrapper>> {
    let splits = pre.splits.iter().map(|&expression| {
        let pattern = SplitPattern::Regex(expression.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
        Ok(split.map_err(describe)?.into())
    });
    let bytes = ByteLevel::new(false, true, false).into();
    splits.chain([Ok(bytes)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_compile_and_have_one_name_each() {
        let names = pre_tokenizers::names();
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), distinct.len());
        for name in names {
            let pre = pre_tokenizers::of(name).unwrap();
            assert!(cuts(pre).is_ok(), "{name}");
        }
    }
}
