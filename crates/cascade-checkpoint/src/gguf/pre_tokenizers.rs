//! How byte-level tokenizers cut a text before they merge, by the name that GGUF has for each.
//!
//! The expressions are those of the tokenizer.json that the name was given to; llama.cpp has forms
//! of its own that find the same.

/// What goes before the merges of a byte-level tokenizer.
pub(crate) struct PreTokenizer {
    /// What `tokenizer.ggml.pre` says.
    names: &'static [&'static str],
    /// Expressions whose matches are cut out, one after the other.
    pub(crate) splits: &'static [&'static str],
    /// Whether a piece that is a token is taken whole, whatever its merges.
    pub(crate) whole: bool,
    /// Whether texts begin with the BOS token if the file does not say.
    pub(crate) begins: bool,
    /// Whether texts are composed (NFC) first. The tokenizers of Hugging Face do that, llama.cpp
    /// does not; it changes texts with letters and accents apart.
    pub(crate) composed: bool,
}

pub(crate) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What most do not do.
const PLAIN: PreTokenizer = PreTokenizer {
    names: &[],
    splits: &[],
    whole: false,
    begins: false,
    composed: false,
};

const KNOWN: &[PreTokenizer] = &[
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3"],
        splits: &[LLAMA3],
        whole: true,
        begins: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["smaug-bpe"],
        splits: &[LLAMA3],
        ..PLAIN
    },
    PreTokenizer {
        names: &["qwen2"],
        splits: &[QWEN2],
        composed: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-r1-qwen"],
        splits: &[QWEN2],
        ..PLAIN
    },
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "codeshell", "minerva-7b"],
        splits: &[r"\p{N}", GPT2],
        ..PLAIN
    },
    PreTokenizer {
        names: &["gpt-2", "phi-2", "olmo", "mpt"],
        splits: &[GPT2],
        ..PLAIN
    },
    PreTokenizer {
        names: &["tekken"],
        splits: &[TEKKEN],
        whole: true,
        begins: true,
        ..PLAIN
    },
    PreTokenizer {
        names: &["gpt-4o", "llama4"],
        splits: &[GPT4O],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        splits: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            "[一-龥ࠀ-一가-퟿]+",
            r"\p{N}",
        ],
        ..PLAIN
    },
    PreTokenizer {
        names: &["default"],
        splits: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ..PLAIN
    },
];

/// The pre-tokenizer of a name.
pub(crate) fn of(name: &str) -> Option<&'static PreTokenizer> {
    KNOWN.iter().find(|known| known.names.contains(&name))
}

/// The name of a pre-tokenizer that does this.
pub(crate) fn named(splits: &[&str], whole: bool, composed: bool) -> Option<&'static str> {
    let found = KNOWN
        .iter()
        .find(|known| known.splits == splits && known.whole == whole && known.composed == composed);
    found.and_then(|known| known.names.first().copied())
}

/// All names.
pub(crate) fn names() -> Vec<&'static str> {
    KNOWN
        .iter()
        .flat_map(|known| known.names)
        .copied()
        .collect()
}
