//! The parts of SentencePiece's `sentencepiece_model.proto` that decide about tokens.
#![allow(missing_docs)] // The derive writes accessors.

use crate::sentencepiece::PieceType;

/// A model file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelProto {
    #[prost(message, repeated, tag = "1")]
    pub(super) pieces: Vec<SentencePiece>,
    #[prost(message, optional, tag = "2")]
    pub(super) trainer_spec: Option<TrainerSpec>,
    #[prost(message, optional, tag = "3")]
    pub(super) normalizer_spec: Option<NormalizerSpec>,
}

/// An entry of the vocabulary; its place is its id.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SentencePiece {
    #[prost(string, optional, tag = "1")]
    pub(super) piece: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub(super) score: Option<f32>,
    #[prost(enumeration = "PieceType", optional, tag = "3", default = "Normal")]
    pub(super) kind: Option<i32>,
}

/// How the model was trained, and what follows for its use.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrainerSpec {
    #[prost(enumeration = "ModelType", optional, tag = "3", default = "Unigram")]
    pub(super) model_type: Option<i32>,
    #[prost(bool, optional, tag = "24")]
    pub(super) treat_whitespace_as_suffix: Option<bool>,
    #[prost(int32, optional, tag = "40", default = "0")]
    pub(super) unk_id: Option<i32>,
    #[prost(string, optional, tag = "45", default = "<unk>")]
    pub(super) unk_piece: Option<String>,
}

/// How texts are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum ModelType {
    Unigram = 1,
    Bpe = 2,
    Word = 3,
    Char = 4,
}

/// What happens to a text before it is split.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NormalizerSpec {
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) precompiled_charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3", default = "true")]
    pub(super) add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4", default = "true")]
    pub(super) remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5", default = "true")]
    pub(super) escape_whitespaces: Option<bool>,
}
