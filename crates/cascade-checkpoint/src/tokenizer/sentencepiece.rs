//! Models of SentencePiece: LLaMA's `tokenizer.model` (BPE with byte fallback) and T5's
//! `spiece.model` (unigram), converted as transformers converts them when there is no
//! tokenizer.json. Ids are those of its `LlamaTokenizerFast` and `T5TokenizerFast`.

mod proto;
mod settings;

use std::collections::HashMap;

use prost::Message;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{Precompiled, Replace, Sequence as Normalizers, Strip};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer};

use self::proto::{ModelProto, ModelType, NormalizerSpec, TrainerSpec};
use self::settings::Settings;
use super::declared::Content;
use crate::sentencepiece::{
    MAX_PIECE, Outcome, Piece as Mergeable, PieceType, SPACE, bpe, bpe_decoder, describe, frame,
    replacements, spaces,
};

/// More than any model has: LLaMA's has half a megabyte, Gemma's four.
const MAX_BYTES: usize = 64 << 20;
/// Classes of transformers, by what their models are. The first converted checkpoints of LLaMA have
/// the second spelling.
const LLAMA: [&str; 2] = ["LlamaTokenizer", "LLaMATokenizer"];
const T5: [&str; 2] = ["T5Tokenizer", "MT5Tokenizer"];

/// The tokenizer that the files describe: by the class that they name, and by the model if they
/// name none.
pub(super) fn build(content: &Content) -> Outcome<Tokenizer> {
    let settings = Settings::read(&content.documents)?;
    let model = Vocabulary::parse(&content.vocabulary)?;
    let class = settings.class.as_deref();
    let is = |classes: [&str; 2]| class.is_none_or(|class| classes.contains(&class));
    match (class, model.kind) {
        (_, ModelType::Bpe) if is(LLAMA) => llama(&model, &settings),
        (_, ModelType::Unigram) if is(T5) => t5(&model, &settings),
        (None, kind) => Err(format!(
            "it is a model of type {kind:?}; Bpe and Unigram are read"
        )),
        (Some(class), kind) if is(LLAMA) || is(T5) => Err(format!(
            "tokenizer_config.json says {class:?}, and the model is {kind:?}"
        )),
        (Some(class), _) => Err(format!(
            "tokenizer_config.json says \"tokenizer_class\": {class:?}; of models of \
             SentencePiece, those of LlamaTokenizer and T5Tokenizer are read"
        )),
    }
}

/// A model of SentencePiece, checked.
struct Vocabulary {
    kind: ModelType,
    pieces: Vec<Piece>,
    unk_id: usize,
    unk_piece: String,
    replacements: Option<Precompiled>,
    remove_extra_whitespaces: bool,
}

struct Piece {
    text: String,
    score: f32,
    kind: PieceType,
}

impl Vocabulary {
    fn parse(bytes: &[u8]) -> Outcome<Self> {
        if bytes.len() > MAX_BYTES {
            return Err(format!(
                "it has {} bytes, more than {MAX_BYTES}",
                bytes.len()
            ));
        }
        let model = ModelProto::decode(bytes)
            .map_err(|error| format!("it is not a SentencePiece model ({error})"))?;
        if model.pieces.is_empty() {
            return Err("it is not a SentencePiece model: it has no pieces".to_owned());
        }
        let trainer = model.trainer_spec.unwrap_or_default();
        let normalizer = model.normalizer_spec.unwrap_or_default();
        refuse_settings(&trainer, &normalizer)?;
        let kind = trainer.model_type.unwrap_or(ModelType::Unigram as i32);
        let pieces = pieces(model.pieces)?;
        let unk_id = usize::try_from(trainer.unk_id())
            .ok()
            .filter(|&id| id < pieces.len());
        let charsmap = normalizer.precompiled_charsmap.clone().unwrap_or_default();
        Ok(Self {
            kind: ModelType::try_from(kind).map_err(|_| format!("it is of model type {kind}"))?,
            unk_id: unk_id
                .ok_or_else(|| format!("its unknown token has id {}", trainer.unk_id()))?,
            unk_piece: trainer.unk_piece().to_owned(),
            pieces,
            replacements: replacements(&charsmap)?,
            remove_extra_whitespaces: normalizer.remove_extra_whitespaces(),
        })
    }

    /// Tokens that are matched before a text is split.
    fn added(&self) -> impl Iterator<Item = AddedToken> + '_ {
        let matched = [PieceType::Control, PieceType::UserDefined];
        let pieces = self
            .pieces
            .iter()
            .filter(move |piece| matched.contains(&piece.kind));
        pieces.map(|piece| {
            let special = piece.kind == PieceType::Control;
            AddedToken::from(piece.text.clone(), special).normalized(false)
        })
    }

    /// Pieces with their scores. Transformers sets those of the first three, which are special, to
    /// zero.
    fn scored(&self) -> Vec<Mergeable<'_>> {
        let pieces = self.pieces.iter().enumerate();
        pieces
            .map(|(id, piece)| Mergeable {
                id,
                text: &piece.text,
                score: if id < 3 { 0.0 } else { piece.score },
            })
            .collect()
    }
}

/// Refuses what changes ids and no conversion follows.
fn refuse_settings(trainer: &TrainerSpec, normalizer: &NormalizerSpec) -> Outcome<()> {
    let settings = [
        (
            "treat_whitespace_as_suffix",
            trainer.treat_whitespace_as_suffix(),
            false,
        ),
        ("add_dummy_prefix", normalizer.add_dummy_prefix(), true),
        ("escape_whitespaces", normalizer.escape_whitespaces(), true),
    ];
    match settings
        .into_iter()
        .find(|(_, found, known)| found != known)
    {
        Some((name, found, _)) => Err(format!(
            "it has {name}: {found}, which is not followed here"
        )),
        None => Ok(()),
    }
}

fn pieces(pieces: Vec<proto::SentencePiece>) -> Outcome<Vec<Piece>> {
    let mut ids = HashMap::with_capacity(pieces.len());
    let mut checked = Vec::with_capacity(pieces.len());
    for (id, piece) in pieces.into_iter().enumerate() {
        let text = piece.piece.clone().unwrap_or_default();
        let score = piece.score.unwrap_or_default();
        if text.is_empty() || text.len() > MAX_PIECE {
            return Err(format!("its piece {id} has {} bytes", text.len()));
        }
        if !score.is_finite() {
            return Err(format!("the score of its piece {id} is {score}"));
        }
        if let Some(first) = ids.insert(text.clone(), id) {
            return Err(format!("its pieces {first} and {id} are both {text:?}"));
        }
        let kind = piece.kind.unwrap_or(PieceType::Normal as i32);
        let known = PieceType::try_from(kind);
        let kind =
            known.map_err(|_| format!("its piece {id} is of type {kind}, which is unknown"))?;
        checked.push(Piece { text, score, kind });
    }
    Ok(checked)
}

fn llama(model: &Vocabulary, settings: &Settings) -> Outcome<Tokenizer> {
    if model.pieces.len() < 3 {
        return Err(format!("it has {} pieces", model.pieces.len()));
    }
    if model.replacements.is_some() || model.remove_extra_whitespaces {
        return Err("it changes texts before it splits them, which LLaMA's does not".to_owned());
    }
    let tokens = model.pieces.iter().map(|piece| piece.text.clone());
    let mut tokenizer = bpe(tokens, &model.scored(), Some(&model.unk_piece))?;
    if settings.legacy {
        tokenizer
            .with_normalizer(Some(spaces(settings.add_prefix_space)?))
            .map_err(describe)?;
    } else {
        let scheme = prepend_scheme(settings);
        tokenizer.with_pre_tokenizer(Some(Metaspace::new(SPACE, scheme, false)));
    }
    tokenizer.with_decoder(Some(bpe_decoder(settings.add_prefix_space)?));
    let named = [
        ("bos_token", "<s>"),
        ("eos_token", "</s>"),
        ("unk_token", "<unk>"),
    ];
    let further = settings.declared.additional.clone().unwrap_or_default();
    let special = settings
        .declared
        .special_tokens(&named)
        .into_iter()
        .chain(further);
    add_tokens(&mut tokenizer, model, settings, special)?;
    let added = |add: bool, key, default| add.then(|| token(settings, key, default)).transpose();
    let bos = added(settings.add_bos, "bos_token", "<s>")?;
    let eos = added(settings.add_eos, "eos_token", "</s>")?;
    frame_by(&mut tokenizer, bos, eos)?;
    Ok(tokenizer)
}

fn t5(model: &Vocabulary, settings: &Settings) -> Outcome<Tokenizer> {
    if !model.remove_extra_whitespaces {
        return Err("it keeps extra whitespace, which T5's does not".to_owned());
    }
    let extra = sentinels(settings)?;
    let pieces = model
        .pieces
        .iter()
        .map(|piece| (piece.text.clone(), f64::from(piece.score)));
    let sentinels = (0..settings.extra_ids)
        .rev()
        .map(|i| (format!("<extra_id_{i}>"), 0.0));
    let vocabulary: Vec<(String, f64)> = pieces.chain(sentinels).collect();
    let unigram = Unigram::from(vocabulary, Some(model.unk_id), false).map_err(describe)?;
    let mut tokenizer = Tokenizer::new(unigram);
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    steps.extend(model.replacements.clone().map(NormalizerWrapper::from));
    steps.push(Strip::new(false, true).into());
    let runs = Replace::new(ReplacePattern::Regex(" {2,}".to_owned()), SPACE.to_string());
    steps.push(runs.map_err(describe)?.into());
    tokenizer
        .with_normalizer(Some(Normalizers::new(steps)))
        .map_err(describe)?;
    let metaspace = Metaspace::new(SPACE, prepend_scheme(settings), true);
    tokenizer.with_pre_tokenizer(Some(metaspace.clone()));
    tokenizer.with_decoder(Some(metaspace));
    let named = [
        ("eos_token", "</s>"),
        ("unk_token", "<unk>"),
        ("pad_token", "<pad>"),
    ];
    let special = settings
        .declared
        .special_tokens(&named)
        .into_iter()
        .chain(extra);
    add_tokens(&mut tokenizer, model, settings, special)?;
    // Whatever eos_token says.
    frame_by(&mut tokenizer, None, Some("</s>".to_owned()))?;
    Ok(tokenizer)
}

/// The additional special tokens of T5: sentinels, unless the files name those that there are.
fn sentinels(settings: &Settings) -> Outcome<Vec<AddedToken>> {
    let mut tokens = settings.declared.additional.clone().unwrap_or_default();
    let is_sentinel = |token: &&AddedToken| token.content.contains("<extra_id_");
    match tokens.iter().filter(is_sentinel).count() {
        0 => {
            let names = (0..settings.extra_ids).map(|i| format!("<extra_id_{i}>"));
            tokens.extend(names.map(|name| AddedToken::from(name, true)));
        }
        count if settings.extra_ids > 0 && count != settings.extra_ids => {
            return Err(format!(
                "the files beside it name {count} tokens <extra_id_…>, and extra_ids is {}",
                settings.extra_ids
            ));
        }
        _ => {}
    }
    Ok(tokens)
}

/// Where spaces are put at the beginning of a text.
fn prepend_scheme(settings: &Settings) -> PrependScheme {
    match (settings.add_prefix_space, settings.legacy) {
        (false, _) => PrependScheme::Never,
        (true, true) => PrependScheme::Always,
        (true, false) => PrependScheme::First,
    }
}

/// Adds the model's own tokens, those of the files, and special tokens that are new, in the order
/// of transformers: new tokens are numbered in this order.
fn add_tokens(
    tokenizer: &mut Tokenizer,
    model: &Vocabulary,
    settings: &Settings,
    special: impl Iterator<Item = AddedToken>,
) -> Outcome<()> {
    let own: Vec<AddedToken> = model.added().collect();
    let is_own = |content: &str| own.iter().any(|token| token.content == content);
    let declared = settings.declared.in_order(special, is_own);
    let new = declared.into_iter().filter(|token| !own.contains(token));
    let tokens: Vec<AddedToken> = own.iter().cloned().chain(new).collect();
    tokenizer.add_tokens(tokens).map_err(describe)?;
    let misplaced = settings.declared.added.iter().find_map(|(&id, token)| {
        let found = tokenizer.token_to_id(&token.content);
        (found != Some(id)).then_some((id, token, found))
    });
    match misplaced {
        Some((id, token, found)) => Err(format!(
            "the files beside it give {:?} the id {id}, and its place is {}",
            token.content,
            found.map_or("none".to_owned(), |id| id.to_string())
        )),
        None => Ok(()),
    }
}

/// The content of a special token that texts are framed by.
fn token(settings: &Settings, name: &str, default: &str) -> Outcome<String> {
    let token = settings
        .declared
        .special(name, Some(default))
        .ok_or_else(|| format!("{name} is null, and add_{name} is true"))?;
    Ok(token.content)
}

/// Puts tokens before and behind every text, if transformers' template can name them.
fn frame_by(tokenizer: &mut Tokenizer, bos: Option<String>, eos: Option<String>) -> Outcome<()> {
    let known = |token: String| {
        if token.contains([':', '$', ' ']) {
            return Err(format!(
                "texts are framed by {token:?}, which a template cannot name"
            ));
        }
        match tokenizer.token_to_id(&token) {
            Some(id) => Ok((token, u64::from(id))),
            None => Err(format!(
                "texts are framed by {token:?}, which it does not have"
            )),
        }
    };
    let (bos, eos) = (bos.map(known).transpose()?, eos.map(known).transpose()?);
    frame(tokenizer, borrowed(&bos), borrowed(&eos))
}

fn borrowed(token: &Option<(String, u64)>) -> Option<(&str, u64)> {
    token.as_ref().map(|(token, id)| (token.as_str(), *id))
}
