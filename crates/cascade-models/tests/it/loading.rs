//! Loading models: what is loaded, and what is said of files that are damaged, missing, or do not
//! belong together.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use cascade_core::{Architecture, Prompt, Scorer, TextCodec, TokenTree, Want};
use cascade_models::{
    DType, EmbeddedModel, EmbeddedWeights, LoadOptions, LoadedModel, ModelSource, load,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::demo::{self, copy, folder};

const FAMILIES: [&str; 2] = ["demo-t5-small", "demo-llama-small"];

fn open(path: &Path) -> cascade_models::Result<LoadedModel> {
    load(&ModelSource::Folder(path.to_owned()), &options())
}

fn options() -> LoadOptions {
    LoadOptions {
        progress: false,
        ..LoadOptions::default()
    }
}

/// The message with which a folder is refused.
fn refusal(path: &Path) -> String {
    open(path).expect_err("the folder is damaged").to_string()
}

/// The message with which a copy of a demo model is refused after `damage`.
fn refusal_after(name: &str, damage: impl FnOnce(&Path)) -> String {
    let copy = copy(name);
    damage(copy.path());
    refusal(copy.path())
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}

fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    edit(&mut json);
    fs::write(path, serde_json::to_vec(&json).unwrap()).unwrap();
}

/// Argmax tokens after a prompt, fed one by one.
fn greedy(model: &LoadedModel, text: &str, steps: usize) -> Vec<u32> {
    let prompt = Prompt::new(
        model.info().architecture,
        model.tokenizer.encode(text).unwrap(),
    );
    let mut session = model.session();
    session.set_source(&prompt.source).unwrap();
    let mut context = prompt.context.clone();
    for _ in 0..steps {
        let scores = session.score(&context, &TokenTree::new(), Want::ARGMAX);
        context.push(scores.unwrap().argmax[0]);
    }
    context.split_off(prompt.context.len())
}

#[test]
fn loads_both_families_from_folders() {
    for (name, architecture, eos) in [
        ("demo-t5-small", Architecture::EncoderDecoder, 2),
        ("demo-llama-small", Architecture::DecoderOnly, 2),
    ] {
        let model = open(&folder(name)).unwrap();
        assert_eq!(model.info().architecture, architecture);
        assert_eq!(model.eos_token_ids, [eos]);
        assert_eq!(model.tokenizer.vocab_size(), 1280);
        assert_eq!(model.model.info().vocab_size, 1280);
        assert!(model.num_parameters() > 200_000);
        assert!(model.name.ends_with(name));
        assert_eq!(model.files.weights.len(), 1);
        assert_eq!(greedy(&model, "Question: 2 apples.", 4).len(), 4);
    }
}

#[test]
fn eos_comes_from_the_generation_config_first() {
    for name in FAMILIES {
        let copy = copy(name);
        let generation = copy.path().join("generation_config.json");
        let config = copy.path().join("config.json");

        edit_json(&generation, |json| json["eos_token_id"] = json!([9, 7]));
        assert_eq!(open(copy.path()).unwrap().eos_token_ids, [7, 9]);

        edit_json(&generation, |json| json["eos_token_id"] = Value::Null);
        edit_json(&config, |json| json["eos_token_id"] = json!(5));
        assert_eq!(open(copy.path()).unwrap().eos_token_ids, [5]);

        fs::remove_file(&generation).unwrap();
        edit_json(&config, |json| json["eos_token_id"] = json!([5, 4, 5]));
        assert_eq!(open(copy.path()).unwrap().eos_token_ids, [4, 5]);

        edit_json(&config, |json| json["eos_token_id"] = json!([4, 1280]));
        let model = open(copy.path()).unwrap();
        assert_eq!(model.eos_token_ids, [4]);
        assert!(model.generation_warnings[0].contains("1280"));
        edit_json(&config, |json| json["eos_token_id"] = json!(-1));
        let model = open(copy.path()).unwrap();
        assert!(model.eos_token_ids.is_empty() && model.generation_warnings.is_empty());

        edit_json(&config, |json| json["eos_token_id"] = json!("</s>"));
        assert_says(
            &refusal(copy.path()),
            &["config.json", "eos_token_id", "</s>"],
        );
    }
}

#[test]
fn shards_and_embedded_bytes_load_like_one_file() {
    for name in FAMILIES {
        let whole = open(&folder(name)).unwrap();
        let expected = greedy(&whole, "Question: How many?", 6);

        let sharded = copy(name);
        demo::shard(sharded.path(), 3);
        let model = open(sharded.path()).unwrap();
        assert_eq!(model.files.weights.len(), 3);
        assert_eq!(model.num_parameters(), whole.num_parameters());
        assert_eq!(greedy(&model, "Question: How many?", 6), expected);

        let bytes =
            |file: &str| -> &'static [u8] { fs::read(folder(name).join(file)).unwrap().leak() };
        let weights =
            |bytes: &'static [u8]| -> EmbeddedWeights { Box::leak(Box::new(move || bytes)) };
        let stored = bytes("model.safetensors");
        let embedded = EmbeddedModel {
            name: "inside",
            config: bytes("config.json"),
            generation_config: None,
            tokenizer: bytes("tokenizer.json"),
            weights: vec![weights(stored)].leak(),
            further: &[],
        };
        let model = load(&ModelSource::Embedded(embedded), &options()).unwrap();
        assert_eq!(model.name, "inside");
        assert_eq!(greedy(&model, "Question: How many?", 6), expected);

        let cut = EmbeddedModel {
            weights: vec![weights(&stored[..1000])].leak(),
            ..embedded
        };
        let error = load(&ModelSource::Embedded(cut), &options()).unwrap_err();
        assert_says(
            &error.to_string(),
            &["model.safetensors of inside is 1000 bytes long"],
        );
    }
}

#[test]
fn other_compute_types_load() {
    for name in FAMILIES {
        for dtype in [DType::F16, DType::BF16] {
            let options = LoadOptions { dtype, ..options() };
            let model = load(&ModelSource::Folder(folder(name)), &options).unwrap();
            assert_eq!(greedy(&model, "Question: 1.", 2).len(), 2);
        }
    }
}

/// Rewrites the weights of a folder with other tensors.
fn edit_tensors(path: &Path, edit: impl FnOnce(&mut HashMap<String, Tensor>)) {
    let file = path.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    edit(&mut tensors);
    candle_core::safetensors::save(&tensors, file).unwrap();
}

#[test]
fn the_weights_of_a_base_class_load_if_the_embedding_is_the_head() {
    let expected = {
        let whole = copy(FAMILIES[1]);
        edit_tensors(whole.path(), |tensors| {
            let embedding = tensors["model.embed_tokens.weight"].copy().unwrap();
            tensors.insert("lm_head.weight".to_owned(), embedding);
        });
        greedy(&open(whole.path()).unwrap(), "Question: How many?", 6)
    };
    let base = copy(FAMILIES[1]);
    edit_tensors(base.path(), |tensors| {
        tensors.remove("lm_head.weight");
        let renamed = |(name, tensor): (String, Tensor)| {
            (name.strip_prefix("model.").unwrap().to_owned(), tensor)
        };
        *tensors = tensors.drain().map(renamed).collect();
    });
    let message = refusal(base.path());
    assert_says(
        &message,
        &["no lm_head.weight", "without its head", "generates"],
    );
    edit_json(&base.path().join("config.json"), |json| {
        json["tie_word_embeddings"] = json!(true);
    });
    for shards in [1, 3] {
        if shards > 1 {
            demo::shard(base.path(), shards);
        }
        let model = open(base.path()).unwrap();
        assert_eq!(greedy(&model, "Question: How many?", 6), expected);
        assert_eq!(model.model.warnings(), [""; 0]);
    }
}

#[test]
fn tensors_that_nothing_is_computed_with_are_told() {
    let copy = copy(FAMILIES[1]);
    edit_tensors(copy.path(), |tensors| {
        let other = Tensor::zeros(1280, candle_core::DType::BF16, &Device::Cpu).unwrap();
        for name in ["lm_head.bias", "model.norm.bias"] {
            tensors.insert(name.to_owned(), other.clone());
        }
        let tables = "model.layers.0.self_attn.rotary_emb.inv_freq";
        tensors.insert(tables.to_owned(), other);
    });
    let model = open(copy.path()).unwrap();
    let [warning] = model.model.warnings() else {
        panic!("{:?}", model.model.warnings());
    };
    assert_says(warning, &["are not read: lm_head.bias, model.norm.bias"]);
}

/// The message with which a file is refused in a type.
fn refusal_in(source: &ModelSource, dtype: DType) -> String {
    let options = LoadOptions { dtype, ..options() };
    let refused = load(source, &options).expect_err("a weight is not finite");
    refused.to_string()
}

#[test]
fn weights_that_are_no_numbers_are_refused_by_name_in_every_type() {
    let (t5, llama) = (FAMILIES[0], FAMILIES[1]);
    for (family, tensor, index, place) in [
        (llama, "model.layers.0.mlp.down_proj.weight", 0, "[0, 0]"),
        (llama, "model.norm.weight", 95, "[95]"),
        (llama, "lm_head.weight", 96 * 1280 - 1, "[1279, 95]"),
        (t5, "shared.weight", 97, "[1, 1]"),
        (
            t5,
            "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            4,
            "[1, 1]",
        ),
    ] {
        for (bits, said) in [(0x7fc0u16, "NaN"), (0x7f80, "inf")] {
            let copy = copy(family);
            let file = copy.path().join("model.safetensors");
            demo::edit_tensor(&file, tensor, |values, _| {
                values[2 * index..][..2].copy_from_slice(&bits.to_le_bytes());
            });
            for dtype in DType::ALL {
                let message = refusal_in(&ModelSource::Folder(copy.path().to_owned()), dtype);
                let said = format!("model.safetensors: tensor {tensor} has {said} at {place}");
                assert_says(&message, &[&said, "download it again"]);
            }
        }
    }
}

#[test]
fn adapters_are_refused_with_how_to_merge_them() {
    let settings = json!({"peft_type": "LORA", "base_model_name_or_path": "org/base",
        "task_type": "CAUSAL_LM"});
    let put = |path: &Path, name: &str, text: &str| fs::write(path.join(name), text).unwrap();
    let merge = "AutoPeftModelForCausalLM.from_pretrained(";
    // Beside weights.
    let message = refusal_after(FAMILIES[1], |path| {
        put(path, "adapter_config.json", &settings.to_string());
        put(path, "adapter_model.safetensors", "");
    });
    let beside = [
        "an adapter (LORA, adapter_config.json) beside its weights",
        "trained for org/base",
        merge,
        "merge_and_unload()",
        "take adapter_config.json out",
    ];
    assert_says(&message, &beside);
    // Instead of weights, with and without a config.json.
    for others in [&["config.json"][..], &[]] {
        let folder = TempDir::new().unwrap();
        put(folder.path(), "adapter_config.json", &settings.to_string());
        put(folder.path(), "adapter_model.safetensors", "");
        others
            .iter()
            .for_each(|name| put(folder.path(), name, "{}"));
        let said = "is an adapter (LORA, adapter_config.json), not a model";
        assert_says(&refusal(folder.path()), &[said, "org/base", merge]);
    }
    // Weights alone, settings that cannot be read, and others.
    let message = refusal_after(FAMILIES[1], |path| put(path, "adapter_model.bin", ""));
    assert_says(&message, &["adapter_model.bin) beside", "does not name"]);
    let message = refusal_after(FAMILIES[1], |path| put(path, "adapter_config.json", "[[["));
    assert_says(&message, &["adapter_config.json) beside", "does not name"]);
    for (key, value, said) in [
        ("task_type", "SEQ_2_SEQ_LM", "AutoPeftModelForSeq2SeqLM"),
        ("peft_type", "PROMPT_TUNING", "cannot be merged"),
    ] {
        let mut settings = settings.clone();
        settings[key] = json!(value);
        let text = settings.to_string();
        let message = refusal_after(FAMILIES[1], |path| put(path, "adapter_config.json", &text));
        assert_says(&message, &[said]);
    }
}

#[test]
fn a_folder_that_is_not_there() {
    let empty = TempDir::new().unwrap();
    let nowhere = empty.path().join("nowhere");
    assert_says(
        &refusal(&nowhere),
        &["nowhere", "check the path", "org/name"],
    );
    assert_says(
        &refusal(empty.path()),
        &[
            empty.path().to_str().unwrap(),
            "no config.json",
            "give the folder",
        ],
    );
    let file = folder(FAMILIES[0]).join("config.json");
    assert_says(&refusal(&file), &["config.json", "it is a file", "folder"]);
}

#[test]
fn a_config_that_makes_no_sense() {
    let config =
        |text: &'static str| move |path: &Path| fs::write(path.join("config.json"), text).unwrap();
    let set = |key: &'static str, value: Value| {
        move |path: &Path| edit_json(&path.join("config.json"), |json| json[key] = value)
    };
    let name = FAMILIES[0];
    let message = refusal_after(name, config("{\"model_type\": "));
    assert_says(&message, &["config.json is not valid JSON", "restore"]);

    let message = refusal_after(name, config("{}"));
    assert_says(&message, &["config.json", "model_type", "take config.json"]);
    let message = refusal_after(name, config("[1, 2]"));
    assert_says(&message, &["config.json", "model_type"]);

    for (key, value) in [("model_type", "umt5"), ("model_type", "gpt2")] {
        let message = refusal_after(name, set(key, json!(value)));
        assert_says(&message, &["config.json", value, "\"t5\"", "\"llama\""]);
    }

    let message = refusal_after(name, set("d_model", json!("wide")));
    assert_says(&message, &["config.json", "wide", "take config.json"]);
    let message = refusal_after(name, set("num_heads", json!(0)));
    assert_says(&message, &["/config.json", "num_heads", "take config.json"]);
    let message = refusal_after(name, set("quantization_config", json!({"bits": 4})));
    assert_says(&message, &["config.json", "quantized", "f16"]);

    let message = refusal_after(name, |path| {
        edit_json(&path.join("config.json"), |json| {
            json.as_object_mut().unwrap().remove("d_kv");
        });
    });
    assert_says(&message, &["config.json", "d_kv", "take config.json"]);
    let message = refusal_after(name, |path| {
        fs::write(path.join("generation_config.json"), "eos: 1").unwrap();
    });
    assert_says(&message, &["generation_config.json", "JSON"]);
}

/// Settings that are not read: harmless ones go by, unknown ones are warned about, and those that
/// change a forward are refused.
#[test]
fn no_setting_is_passed_over_in_silence() {
    for name in FAMILIES {
        let copy = copy(name);
        let set = |key: &str, value: Value| {
            edit_json(&copy.path().join("config.json"), |json| json[key] = value);
        };
        set("initializer_range", json!(0.5));
        set("mystery", Value::Null);
        assert_eq!(open(copy.path()).unwrap().model.warnings(), [""; 0]);
        set("mystery", json!("a"));
        set("riddle", json!(2));
        let loaded = open(copy.path()).unwrap();
        let [warning] = loaded.model.warnings() else {
            panic!("{:?}", loaded.model.warnings());
        };
        assert_says(warning, &["config.json", "mystery, riddle", "compare"]);
        set("num_experts", json!(8));
        let message = open(copy.path()).unwrap_err().to_string();
        assert_says(
            &message,
            &["/config.json", "num_experts 8", "take a model without it"],
        );
    }
}

/// Every setting, given values of the wrong kind or size: an error that names the config, or a
/// model, never a panic.
#[test]
fn any_setting_may_be_wrong() {
    for name in FAMILIES {
        let copy = copy(name);
        let file = copy.path().join("config.json");
        let whole: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for key in whole.as_object().unwrap().keys() {
            let (huge, odd) = (json!(u64::MAX), json!(3));
            let one_more = json!(whole[key].as_u64().unwrap_or_default() + 1);
            for value in [
                json!(null),
                json!(-1),
                json!("x"),
                json!([]),
                odd,
                one_more,
                huge,
            ] {
                let mut config = whole.clone();
                config[key] = value;
                fs::write(&file, config.to_string()).unwrap();
                if let Err(error) = open(copy.path()) {
                    assert_says(&error.to_string(), &["config.json"]);
                }
            }
        }
    }
}

#[test]
fn the_class_stands_in_for_the_model_type() {
    for name in FAMILIES {
        let copy = copy(name);
        edit_json(&copy.path().join("config.json"), |json| {
            json.as_object_mut().unwrap().remove("model_type");
        });
        open(copy.path()).unwrap();
    }
}

#[test]
fn no_tokenizer() {
    for (raw, hint) in [(None, "missing;"), (Some("vocab.json"), "only vocab.json")] {
        let message = refusal_after(FAMILIES[0], |path| {
            fs::remove_file(path.join("tokenizer.json")).unwrap();
            if let Some(raw) = raw {
                fs::write(path.join(raw), "raw").unwrap();
            }
        });
        let cure = "AutoTokenizer.from_pretrained(";
        assert_says(
            &message,
            &[
                "no tokenizer",
                "tokenizer.json",
                "tokenizer.model",
                hint,
                cure,
                "save_pretrained",
            ],
        );
    }
    let message = refusal_after(FAMILIES[0], |path| {
        fs::remove_file(path.join("tokenizer.json")).unwrap();
        fs::write(path.join("spiece.model"), "raw").unwrap();
    });
    assert_says(
        &message,
        &["spiece.model is not a tokenizer", "SentencePiece"],
    );
    for content in ["", "not JSON", "{}", "{\"version\": \"1.0\"}"] {
        let message = refusal_after(FAMILIES[0], |path| {
            fs::write(path.join("tokenizer.json"), content).unwrap();
        });
        assert_says(
            &message,
            &["tokenizer.json is not a tokenizer", "AutoTokenizer"],
        );
    }
}

#[test]
fn a_tokenizer_larger_than_the_vocabulary() {
    for name in FAMILIES {
        let message = refusal_after(name, |path| {
            edit_json(&path.join("tokenizer.json"), |json| {
                match &mut json["model"]["vocab"] {
                    Value::Array(pieces) => {
                        // Added tokens are numbered behind the pieces.
                        while pieces.len() < 1281 {
                            pieces.push(json!([format!("extra{}", pieces.len()), -20.0]));
                        }
                    }
                    pieces => pieces["extra1280"] = json!(1280),
                }
            });
        });
        assert_says(
            &message,
            &["tokenizer.json", "extra1280", "1280", "from the same model"],
        );
    }
}

/// Mirrors of LLaMA 2 have a token for padding that the weights have no row for.
#[test]
fn an_added_token_without_a_row_is_refused_where_it_is_read() {
    for name in FAMILIES {
        let copy = copy(name);
        let token = json!({"content": "<extra>", "lstrip": false, "rstrip": false,
            "normalized": false, "single_word": false, "special": true});
        let config = json!({"added_tokens_decoder": {"1280": token}, "pad_token": "<extra>"});
        let beside = copy.path().join("tokenizer_config.json");
        fs::write(beside, config.to_string()).unwrap();
        let model = open(copy.path()).unwrap();
        assert_eq!(model.tokenizer.token_to_id("<extra>"), Some(1280));
        assert_eq!(greedy(&model, "Question: 2 apples.", 4).len(), 4);
        let tokens = model.tokenizer.encode_plain("2 <extra> apples").unwrap();
        let prompt = Prompt::new(model.info().architecture, tokens);
        let mut session = model.session();
        let read = session
            .set_source(&prompt.source)
            .and_then(|()| session.score(&prompt.context, &TokenTree::new(), Want::ARGMAX));
        assert_says(&read.unwrap_err().to_string(), &["token 1280", "1280"]);
    }
}

#[test]
fn no_weights() {
    let remove = |path: &Path| fs::remove_file(path.join("model.safetensors")).unwrap();
    let message = refusal_after(FAMILIES[0], remove);
    assert_says(
        &message,
        &[
            "no weights",
            "model.safetensors",
            "pytorch_model.bin",
            "under these names",
        ],
    );

    let message = refusal_after(FAMILIES[0], |path| {
        remove(path);
        fs::write(path.join("pytorch_model.bin"), "pickle").unwrap();
    });
    assert_says(
        &message,
        &[
            "pytorch_model.bin is not a PyTorch file",
            "pickle",
            "download it again",
        ],
    );

    let message = refusal_after(FAMILIES[0], |path| {
        remove(path);
        fs::write(path.join("model-q4.gguf"), "GGUF").unwrap();
    });
    assert_says(&message, &["there is model-q4.gguf", "safetensors"]);
}

#[test]
fn what_a_generation_config_asks_for_in_vain_is_named() {
    let copy = copy(FAMILIES[0]);
    assert_eq!(open(copy.path()).unwrap().generation_warnings, [""; 0]);
    edit_json(&copy.path().join("generation_config.json"), |json| {
        json["repetition_penalty"] = json!(1.25);
        json["no_repeat_ngram_size"] = json!(3);
        json["invented"] = json!(1);
    });
    let opened = open(copy.path()).unwrap();
    assert_eq!(opened.recommended.repetition_penalty, Some(1.25));
    let warnings = opened.generation_warnings;
    assert_eq!(warnings.len(), 2);
    assert_says(&warnings[0], &["no_repeat_ngram_size 3", "other tokens"]);
    assert_says(&warnings[1], &["not known here: invented"]);
    let message = refusal_after(FAMILIES[0], |path| {
        fs::write(path.join("generation_config.json"), "[]").unwrap();
    });
    assert_says(&message, &["generation_config.json", "not an object"]);
}

#[test]
fn shards_that_are_missing_or_misnamed() {
    let message = refusal_after(FAMILIES[1], |path| {
        demo::shard(path, 3);
        fs::remove_file(path.join("model-00002-of-00003.safetensors")).unwrap();
    });
    assert_says(
        &message,
        &[
            "model.safetensors.index.json",
            "model-00002-of-00003",
            "copy or download",
        ],
    );

    let index = |content: Value| {
        refusal_after(FAMILIES[1], |path| {
            fs::remove_file(path.join("model.safetensors")).unwrap();
            let index = path.join("model.safetensors.index.json");
            fs::write(index, content.to_string()).unwrap();
        })
    };
    for (content, why) in [
        (json!({}), "weight_map"),
        (json!({"weight_map": {}}), "empty"),
        (json!({"weight_map": {"a": 1}}), "not a file name"),
        (
            json!({"weight_map": {"a": "../../etc/passwd"}}),
            "not a file name",
        ),
    ] {
        assert_says(
            &index(content),
            &["model.safetensors.index.json", why, "restore the index"],
        );
    }
}

#[test]
fn weights_that_are_cut_off() {
    let whole = fs::read(folder(FAMILIES[0]).join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let copy = copy(FAMILIES[0]);
    let file = copy.path().join("model.safetensors");
    for length in [
        0,
        1,
        7,
        8,
        9,
        8 + header / 2,
        8 + header - 1,
        8 + header,
        9 + header,
        whole.len() / 2,
        whole.len() - 1,
    ] {
        fs::write(&file, &whole[..length]).unwrap();
        let found = format!("is {length} bytes long");
        assert_says(
            &refusal(copy.path()),
            &["model.safetensors", &found, "copy or download it again"],
        );
    }
    fs::write(&file, [&whole[..], b"more"].concat()).unwrap();
    assert_says(&refusal(copy.path()), &["model.safetensors", "bytes long"]);
}

#[test]
fn weights_that_are_no_safetensors_file() {
    let whole = fs::read(folder(FAMILIES[0]).join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let copy = copy(FAMILIES[0]);
    let file = copy.path().join("model.safetensors");

    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    fs::write(&file, pointer).unwrap();
    assert_says(
        &refusal(copy.path()),
        &["model.safetensors", "git lfs pull"],
    );

    fs::write(&file, [0xff; 64]).unwrap();
    assert_says(
        &refusal(copy.path()),
        &["model.safetensors", "header", "download it again"],
    );

    let mut broken = whole.clone();
    broken[8 + header / 2] = 0;
    fs::write(&file, &broken).unwrap();
    assert_says(
        &refusal(copy.path()),
        &[
            "model.safetensors is not a safetensors file",
            "JSON",
            "download it again",
        ],
    );

    let mut not_text = whole.clone();
    not_text[8 + header / 2] = 0xff;
    fs::write(&file, &not_text).unwrap();
    assert_says(
        &refusal(copy.path()),
        &["model.safetensors", "UTF-8", "download it again"],
    );

    // Offsets that do not fit shapes, in a header of the same length.
    let text = String::from_utf8(whole[8..8 + header].to_vec())
        .unwrap()
        .replacen("[96,96]", "[96,95]", 1);
    assert_eq!(text.len(), header);
    let swapped = [&whole[..8], text.as_bytes(), &whole[8 + header..]].concat();
    fs::write(&file, &swapped).unwrap();
    assert_says(
        &refusal(copy.path()),
        &[
            "model.safetensors is not a safetensors file",
            "download it again",
        ],
    );
}

/// Any single damaged byte of a header is an error or loads, but is never a panic.
#[test]
fn random_damage_never_panics() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let mut rng = StdRng::seed_from_u64(7);
    let whole = fs::read(folder(FAMILIES[1]).join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let copy = copy(FAMILIES[1]);
    for _ in 0..200 {
        let mut damaged = whole.clone();
        let at = rng.random_range(0..8 + header);
        damaged[at] = rng.random();
        fs::write(copy.path().join("model.safetensors"), &damaged).unwrap();
        if let Err(error) = open(copy.path()) {
            assert_says(&error.to_string(), &["model.safetensors"]);
        }
    }
}

#[test]
fn weights_of_another_model() {
    let set = |name: &str, key: &str, value: Value| {
        refusal_after(name, |path| {
            edit_json(&path.join("config.json"), |json| json[key] = value);
        })
    };
    let cure = "config.json does not describe these weights";

    let message = set("demo-t5-small", "d_ff", json!(161));
    assert_says(
        &message,
        &["model.safetensors", "DenseReluDense.w", "192", "161", cure],
    );
    let message = set("demo-llama-small", "vocab_size", json!(1281));
    assert_says(
        &message,
        &[
            "model.safetensors",
            "embed_tokens.weight",
            "[1280, 96]",
            "[1281, 96]",
            cure,
        ],
    );
    let message = set("demo-t5-small", "num_decoder_layers", json!(2));
    assert_says(
        &message,
        &[
            "model.safetensors",
            "no tensor decoder.block.1.",
            "shape [96",
            cure,
        ],
    );
    let message = set("demo-llama-small", "num_hidden_layers", json!(2));
    assert_says(
        &message,
        &["model.safetensors", "no tensor model.layers.1.", cure],
    );
    let message = set("demo-llama-base", "num_hidden_layers", json!(1));
    assert_says(
        &message,
        &["model.safetensors", "18 tensors", "model.layers.1.", cure],
    );
    let message = refusal_after("demo-t5-small", |path| {
        fs::copy(
            folder("demo-llama-small").join("model.safetensors"),
            path.join("model.safetensors"),
        )
        .unwrap();
    });
    assert_says(
        &message,
        &["model.safetensors", "no tensor shared.weight", cure],
    );
}

#[test]
fn tensors_of_a_type_that_is_no_float() {
    let message = refusal_after(FAMILIES[1], |path| {
        let file = path.join("model.safetensors");
        let whole = fs::read(&file).unwrap();
        let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let text = String::from_utf8(whole[8..8 + header].to_vec()).unwrap();
        // As wide as BF16, and the header as long.
        let text = text.replace("\"BF16\"", "\"I16\" ");
        fs::write(
            &file,
            [&whole[..8], text.as_bytes(), &whole[8 + header..]].concat(),
        )
        .unwrap();
    });
    assert_says(
        &message,
        &[
            "model.safetensors",
            "embed_tokens.weight",
            "I16",
            "convert the weights",
        ],
    );
}

#[test]
fn a_tokenizer_from_elsewhere_serves_a_model_without_one() {
    let copy = copy("demo-llama-small");
    fs::remove_file(copy.path().join("tokenizer.json")).unwrap();
    let source = ModelSource::Folder(copy.path().to_owned());
    let with = LoadOptions {
        tokenizer: Some(ModelSource::Folder(folder("demo-llama-target"))),
        ..options()
    };
    let model = load(&source, &with).unwrap();
    let whole = load(&ModelSource::Folder(folder("demo-llama-small")), &options()).unwrap();
    assert_eq!(model.tokenizer.fingerprint(), whole.tokenizer.fingerprint());
    assert_eq!(
        greedy(&model, "Question: 1.", 4),
        greedy(&whole, "Question: 1.", 4)
    );
}

/// The logits of a short context.
fn logits(model: &LoadedModel) -> Vec<u32> {
    let mut session = model.session();
    let scores = session.score(&[1, 5, 9, 4], &TokenTree::new(), Want::LOGITS);
    let logits = scores.unwrap().logits.unwrap();
    logits.row(0).iter().map(|logit| logit.to_bits()).collect()
}

/// An embedding that is only looked up is read in the file, if it is there what was asked for; one
/// that is the head, too, is in memory. Both give the same bits.
#[test]
fn an_embedding_in_the_file_is_one_in_memory() {
    const HEAD: &str = "lm_head.weight";
    let (alone, tied) = (copy("demo-llama-small"), copy("demo-llama-small"));
    let rewrite = |folder: &Path, with_head: bool| {
        let file = folder.join("model.safetensors");
        let bytes = fs::read(&file).unwrap();
        let read = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut tensors = read.tensors();
        tensors.retain(|(name, _)| name != HEAD);
        if with_head {
            let embedding = read.tensor("model.embed_tokens.weight").unwrap();
            tensors.push((HEAD.to_owned(), embedding));
        }
        fs::write(&file, safetensors::serialize(tensors, None).unwrap()).unwrap();
    };
    rewrite(alone.path(), true);
    rewrite(tied.path(), false);
    edit_json(&tied.path().join("config.json"), |config| {
        config["tie_word_embeddings"] = json!(true);
    });
    let open = |folder: &Path, dtype| {
        let options = LoadOptions { dtype, ..options() };
        load(&ModelSource::Folder(folder.to_owned()), &options).unwrap()
    };
    for dtype in DType::ALL {
        let [alone, tied] = [&alone, &tied].map(|model| open(model.path(), dtype));
        assert_eq!(logits(&alone), logits(&tied), "{dtype}");
        // The file is in bf16.
        let in_file = matches!(dtype, DType::F32 | DType::BF16 | DType::Stored);
        let is_in_file = |model: &LoadedModel| format!("{:?}", model.model).contains("InFile");
        assert_eq!((is_in_file(&alone), is_in_file(&tied)), (in_file, false));
    }
    // A file that is replaced or removed is still there for those who have opened it.
    let model = open(alone.path(), DType::BF16);
    let before = logits(&model);
    fs::remove_file(alone.path().join("model.safetensors")).unwrap();
    assert_eq!(logits(&model), before);
}
