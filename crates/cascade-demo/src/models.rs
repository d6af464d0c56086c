//! Checkpoints, configurations and bigram tables, embedded.

use std::io::Read;
use std::sync::{Once, OnceLock};

use cascade_config::{EmbeddedFiles, register_embedded};
use cascade_models::EmbeddedModel;
use flate2::read::DeflateDecoder;

/// Alignment of files of tensors, so that tensors can be read where they lie.
const ALIGNMENT: usize = 64;

/// Aligns what `include_bytes!` embeds, as readers of tensors need it.
#[repr(C, align(64))]
struct Aligned<B: ?Sized>(B);

macro_rules! include_aligned {
    ($path:expr) => {{
        const ALIGNED: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &ALIGNED.0
    }};
}

/// A file of weights that `build.rs` has packed.
macro_rules! unpacked {
    ($name:literal) => {{
        fn file() -> &'static [u8] {
            static FILE: OnceLock<&[u8]> = OnceLock::new();
            FILE.get_or_init(|| unpack(include_bytes!(concat!(env!("OUT_DIR"), "/", $name))))
        }
        &file
    }};
}

/// Undoes `pack` of `build.rs`, into memory aligned to 64 bytes that stays for good.
fn unpack(packed: &[u8]) -> &'static [u8] {
    let mut planes = Vec::with_capacity(2 * packed.len());
    let read = DeflateDecoder::new(packed).read_to_end(&mut planes);
    debug_assert!(read.is_ok(), "build.rs has packed it: {read:?}");
    let length = planes.len();
    let (even, odd) = planes.split_at(length.div_ceil(2));
    let mut file = vec![0; length + ALIGNMENT];
    let start = file.as_ptr().align_offset(ALIGNMENT);
    for (pair, &byte) in file[start..start + length].chunks_mut(2).zip(even) {
        pair[0] = byte;
    }
    for (pair, &byte) in file[start..start + length].chunks_exact_mut(2).zip(odd) {
        pair[1] = byte;
    }
    &file.leak()[start..start + length]
}

/// The chat template of the LLaMA family: of a conversation, it keeps the last question.
const CHAT: &[(&str, &[u8])] = &[(
    "chat_template.jinja",
    include_bytes!("../models/demo-llama-target/chat_template.jinja"),
)];

macro_rules! checkpoint {
    ($name:literal, $further:expr) => {
        checkpoint!($name, $further, &[unpacked!($name)])
    };
    ($name:literal, $further:expr, $weights:expr) => {
        EmbeddedModel {
            name: $name,
            config: include_bytes!(concat!("../models/", $name, "/config.json")),
            generation_config: Some(include_bytes!(concat!(
                "../models/",
                $name,
                "/generation_config.json"
            ))),
            tokenizer: include_bytes!(concat!("../models/", $name, "/tokenizer.json")),
            weights: $weights,
            further: $further,
        }
    };
}

/// All checkpoints, family by family, largest first; weights are unpacked when they are
/// first asked for, aligned to 64 bytes, so that tensors can be read where they lie.
// A static, as a const would be embedded once per crate that names it.
pub static CHECKPOINTS: [EmbeddedModel; 6] = [
    checkpoint!(
        "demo-t5-target",
        &[],
        &[unpacked!("demo-t5-target-1"), unpacked!("demo-t5-target-2")]
    ),
    checkpoint!("demo-t5-base", &[]),
    checkpoint!("demo-t5-small", &[]),
    checkpoint!(
        "demo-llama-target",
        CHAT,
        &[
            unpacked!("demo-llama-target-1"),
            unpacked!("demo-llama-target-2")
        ]
    ),
    checkpoint!("demo-llama-base", CHAT),
    checkpoint!("demo-llama-small", CHAT),
];

macro_rules! table {
    ($name:literal) => {
        (
            $name,
            include_aligned!(concat!("../ngram-data/", $name, ".safetensors")),
        )
    };
}

static TABLES: [(&str, &[u8]); 3] = [table!("demo"), table!("t5"), table!("llama")];

/// Names of the bigram tables, each after the models whose tokens it counts: `demo` for the demo
/// checkpoints, which share a vocabulary, `t5` for T5 and FLAN-T5, `llama` for LLaMA and Vicuna.
pub const BIGRAM_TABLES: [&str; 3] = ["demo", "t5", "llama"];

/// The configurations of the two families, as YAML, by name.
static CONFIGS: [(&str, &str); 2] = [
    ("demo-t5", include_str!("../configs/demo-t5.yaml")),
    ("demo-llama", include_str!("../configs/demo-llama.yaml")),
];

/// Makes all models, tables and configurations known in this process by the name `embedded:NAME`.
/// Further calls change nothing and cost nothing.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_embedded(EmbeddedFiles {
            models: CHECKPOINTS.to_vec(),
            tables: TABLES.to_vec(),
            configs: CONFIGS.to_vec(),
        });
    });
}

/// The checkpoint of that name, such as `demo-t5-target`.
pub fn checkpoint(name: &str) -> Option<&'static EmbeddedModel> {
    CHECKPOINTS
        .iter()
        .find(|checkpoint| checkpoint.name == name)
}

/// The bigram table of that name, one of [`BIGRAM_TABLES`]: a safetensors file, aligned to 64
/// bytes.
pub fn bigram_table(name: &str) -> Option<&'static [u8]> {
    TABLES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, table)| *table)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn json(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn names_resolve() {
        for expected in &CHECKPOINTS {
            assert_eq!(checkpoint(expected.name).unwrap().name, expected.name);
        }
        assert!(checkpoint("demo-t5").is_none());
        assert!(checkpoint("").is_none());
    }

    #[test]
    fn every_json_file_parses_and_sizes_agree() {
        for checkpoint in &CHECKPOINTS {
            let config = json(checkpoint.config);
            assert!(json(checkpoint.generation_config.unwrap()).is_object());
            let tokenizer = json(checkpoint.tokenizer);
            let vocabulary = &tokenizer["model"]["vocab"];
            let pieces = vocabulary
                .as_array()
                .map(Vec::len)
                .or(vocabulary.as_object().map(|pieces| pieces.len()));
            assert_eq!(config["vocab_size"].as_u64(), pieces.map(|n| n as u64));
        }
    }

    #[test]
    fn a_family_shares_its_tokenizer() {
        for family in CHECKPOINTS.chunks(3) {
            assert!(family.iter().all(|c| c.tokenizer == family[0].tokenizer));
        }
    }

    #[test]
    fn weights_are_aligned_safetensors() {
        for checkpoint in &CHECKPOINTS {
            let mut names = Vec::new();
            for shard in checkpoint.weights.iter().map(|shard| shard()) {
                assert_eq!(shard.as_ptr() as usize % 64, 0);
                names.extend(tensors(shard).into_iter().map(|(name, _)| name));
            }
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", checkpoint.name);
            // A head of its own, or the embedding's.
            let heads = ["lm_head.weight", "model.embed_tokens.weight"];
            assert!(heads.iter().any(|head| names.iter().any(|n| n == head)));
        }
    }

    #[test]
    fn weights_are_those_of_the_folders() {
        for checkpoint in &CHECKPOINTS {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
            let count = checkpoint.weights.len();
            for (index, shard) in checkpoint.weights.iter().enumerate() {
                let name = match count {
                    1 => "model.safetensors".to_owned(),
                    _ => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
                };
                let file = std::fs::read(folder.join(checkpoint.name).join(&name)).unwrap();
                assert!(file == shard(), "{} {name}", checkpoint.name);
            }
        }
    }

    #[test]
    fn tables_are_aligned_safetensors() {
        assert_eq!(TABLES.map(|(name, _)| name), BIGRAM_TABLES);
        for name in BIGRAM_TABLES {
            let table = bigram_table(name).unwrap();
            assert_eq!(table.as_ptr() as usize % 64, 0);
            assert!(!tensors(table).is_empty());
        }
        assert!(bigram_table("demo-t5-target").is_none());
    }

    /// The header of a safetensors file: its length as a little-endian `u64`, then JSON.
    fn tensors(file: &[u8]) -> serde_json::Map<String, Value> {
        let (length, rest) = file.split_first_chunk::<8>().unwrap();
        let header = json(&rest[..u64::from_le_bytes(*length) as usize]);
        let mut tensors = header.as_object().unwrap().clone();
        tensors.remove("__metadata__");
        tensors
    }
}
