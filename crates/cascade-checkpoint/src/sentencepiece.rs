//! Tokenizers of SentencePiece, whichever file their vocabulary is from: what a model of its own
//! (`tokenizer.model`, `spiece.model`) and a GGUF file have in common.

mod charsmap;

use std::collections::HashMap;

use serde_json::json;
use tokenizers::Tokenizer;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{Precompiled, Prepend, Replace, Sequence as Normalizers};
use tokenizers::processors::template::TemplateProcessing;

/// What stands for a space in pieces.
pub(crate) const SPACE: char = '▁';
/// The longest piece, in bytes. SentencePiece makes them of 16 characters unless told otherwise.
pub(crate) const MAX_PIECE: usize = 512;
/// Bytes of all pairs of pieces that make a piece; LLaMA's take less than a megabyte.
const MAX_MERGES: usize = 256 << 20;

/// What a vocabulary gives, or why it cannot be used.
pub(crate) type Outcome<T> = std::result::Result<T, String>;

#[allow(missing_docs)] // The derive writes functions.
/// What a piece stands for, by its number in models and in GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum PieceType {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// A piece that may be merged with others, and be made by merging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) id: usize,
    pub(crate) text: &'a str,
    pub(crate) score: f32,
}

/// LLaMA's tokenizer without what is done to texts before and after: `tokens` in the order of their
/// ids, of which `pieces` are merged; characters that no piece has become bytes.
///
/// # Errors
/// Pieces that are too long, or that can be merged in too many ways.
pub(crate) fn bpe(
    tokens: impl Iterator<Item = String>,
    pieces: &[Piece<'_>],
    unknown: Option<&str>,
) -> Outcome<Tokenizer> {
    let vocabulary: Vocab = tokens.zip(0..).collect();
    let mut model = BPE::builder()
        .vocab_and_merges(vocabulary, merges(pieces)?)
        .fuse_unk(true)
        .byte_fallback(true);
    if let Some(unknown) = unknown {
        model = model.unk_token(unknown.to_owned());
    }
    Ok(Tokenizer::new(model.build().map_err(describe)?))
}

/// All pairs of pieces that make a piece, the best first: SentencePiece merges what has the highest
/// score. Ties as Hugging Face's converter breaks them: longer left parts, then longer right parts,
/// then smaller ids.
fn merges(pieces: &[Piece<'_>]) -> Outcome<Merges> {
    let ids: HashMap<&str, usize> = pieces.iter().map(|piece| (piece.text, piece.id)).collect();
    let (mut merges, mut bytes) = (Vec::new(), 0);
    for piece in pieces {
        let text = piece.text;
        if text.len() > MAX_PIECE {
            return Err(format!("its piece {} has {} bytes", piece.id, text.len()));
        }
        let splits = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
        let mut made: Vec<_> = splits
            .filter_map(|(left, right)| Some(((ids.get(left)?, ids.get(right)?), left, right)))
            .collect();
        made.sort_by_key(|(ids, ..)| *ids);
        bytes += made.len() * (text.len() + size_of::<(String, String)>());
        if bytes > MAX_MERGES {
            return Err("its pieces can be merged in too many ways".to_owned());
        }
        let length = |text: &str| text.chars().count();
        let made = made.into_iter();
        merges.extend(made.map(|(_, left, right)| {
            let lengths = (length(left), length(right));
            (piece.score, lengths, left, right)
        }));
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let owned = merges.into_iter();
    Ok(owned
        .map(|(_, _, left, right)| (left.to_owned(), right.to_owned()))
        .collect())
}

/// Spaces as letters of pieces, and one before each text if it is `prefixed`.
pub(crate) fn spaces(prefixed: bool) -> Outcome<Normalizers> {
    let prefix = prefixed.then(|| Prepend::new(SPACE.to_string()).into());
    let spaces = replace(" ", &SPACE.to_string())?.into();
    let steps = prefix.into_iter().chain([spaces]);
    Ok(Normalizers::new(steps.collect()))
}

/// Texts of LLaMA's pieces, without the space that they were `prefixed` with.
pub(crate) fn bpe_decoder(prefixed: bool) -> Outcome<Decoders> {
    let mut decoders = vec![
        replace(&SPACE.to_string(), " ")?.into(),
        ByteFallback::new().into(),
        Fuse::new().into(),
    ];
    if prefixed {
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    Ok(Decoders::new(decoders))
}

/// What characters are replaced with, if a table says so.
///
/// # Errors
/// A table that a text could lead out of.
pub(crate) fn replacements(table: &[u8]) -> Outcome<Option<Precompiled>> {
    if table.is_empty() {
        return Ok(None);
    }
    charsmap::check(table)?;
    let replacements = Precompiled::from(table);
    replacements.map(Some).map_err(|error| error.to_string())
}

/// Puts tokens before and behind every text.
pub(crate) fn frame(
    tokenizer: &mut Tokenizer,
    before: Option<(&str, u64)>,
    behind: Option<(&str, u64)>,
) -> Outcome<()> {
    let token = |&(token, _): &(&str, u64)| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let framed: Vec<_> = before
        .iter()
        .map(token)
        .chain([text("A", 0)])
        .chain(behind.iter().map(token))
        .collect();
    let described: serde_json::Map<_, _> = before
        .iter()
        .chain(&behind)
        .map(|&(token, id)| {
            let entry = json!({"id": token, "ids": [id], "tokens": [token]});
            (token.to_owned(), entry)
        })
        .collect();
    let processor: serde_json::Result<TemplateProcessing> = serde_json::from_value(json!({
        "type": "TemplateProcessing",
        "single": framed,
        "pair": [text("A", 0), text("B", 1)],
        "special_tokens": described,
    }));
    tokenizer.with_post_processor(Some(processor.map_err(|error| error.to_string())?));
    Ok(())
}

pub(crate) fn replace(pattern: &str, content: &str) -> Outcome<Replace> {
    Replace::new(pattern, content).map_err(describe)
}

/// What the library says.
pub(crate) fn describe(error: tokenizers::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: usize, text: &str) -> Piece<'_> {
        Piece {
            id,
            text,
            score: -(id as f32),
        }
    }

    #[test]
    fn pieces_that_merge_in_too_many_ways_are_refused() {
        let texts: Vec<String> = (1..=MAX_PIECE).map(|length| "a".repeat(length)).collect();
        // All prefixes of runs of several letters.
        let letters = ["b", "c", "d", "e", "f", "g", "h"];
        let runs = letters.iter().flat_map(|letter| {
            let runs = texts.iter();
            runs.map(move |text| text.replace('a', letter))
        });
        let texts: Vec<String> = texts.iter().cloned().chain(runs).collect();
        let pieces: Vec<Piece<'_>> = texts
            .iter()
            .enumerate()
            .map(|(id, t)| piece(id, t))
            .collect();
        let error = merges(&pieces).unwrap_err();
        assert!(error.contains("too many ways"), "{error}");
        assert_eq!(merges(&pieces[..3]).unwrap().len(), 3);
        let long = "a".repeat(MAX_PIECE + 1);
        let error = merges(&[piece(7, &long)]).unwrap_err();
        assert!(error.contains("piece 7 has 513 bytes"), "{error}");
    }

    #[test]
    fn merges_are_tried_by_score_then_by_length() {
        let texts = ["a", "b", "c", "ab", "bc", "abc"];
        let mut pieces: Vec<Piece<'_>> = texts
            .iter()
            .enumerate()
            .map(|(id, t)| piece(id, t))
            .collect();
        pieces[5].score = 1.0;
        let found = merges(&pieces).unwrap();
        let expected = [("ab", "c"), ("a", "bc"), ("a", "b"), ("b", "c")];
        let expected = expected.map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(found, expected);
    }
}
