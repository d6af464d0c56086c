//! Models with random weights, on every device that tests run on.

use cascade_core::{Architecture, Scorer, TokenTree, Want};
use cascade_models::{random_model, shape, DType, Device, Error, LoadOptions, Model};
use serde_json::{json, Value};

use crate::common::devices;

fn t5(tied: bool) -> Value {
    json!({
        "model_type": "t5", "d_model": 64, "d_ff": 96, "d_kv": 16, "num_heads": 4, "num_layers": 1,
        "num_decoder_layers": 2, "vocab_size": 208, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": tied,
    })
}

fn llama() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 208, "tie_word_embeddings": false,
    })
}

fn options(device: &Device, dtype: DType) -> LoadOptions {
    LoadOptions {
        device: device.clone(),
        dtype,
        ..LoadOptions::default()
    }
}

/// The CPU in all types, and every GPU in its own.
fn everywhere() -> Vec<LoadOptions> {
    let cpu = [DType::F32, DType::BF16, DType::F16].map(|dtype| options(&Device::Cpu, dtype));
    let gpus = devices::gpus()
        .into_iter()
        .flat_map(|(device, _)| devices::GPU_TYPES.map(|dtype| options(&device, dtype)));
    cpu.into_iter().chain(gpus).collect()
}

#[test]
fn random_models_score_finitely_on_every_device() {
    for config in [t5(true), t5(false), llama()] {
        for options in everywhere() {
            let model = random_model(config.clone(), &options).unwrap();
            let mut session = model.session();
            if model.architecture() == Architecture::EncoderDecoder {
                session.set_source(&[3, 4, 5]).unwrap();
            }
            let tree = TokenTree::chain([9, 200, 11]);
            let scores = session.score(&[1, 2, 207], &tree, Want::LOGITS).unwrap();
            let logits = scores.logits.unwrap();
            let rows: Vec<&[f32]> = (0..4).map(|row| logits.row(row)).collect();
            for row in &rows {
                assert!(row.iter().all(|logit| logit.is_finite()));
                assert!(
                    row.iter().any(|&logit| logit != row[0]),
                    "all logits are equal"
                );
            }
            assert_ne!(rows[0], rows[1]);
        }
    }
}

#[test]
fn the_same_configuration_gives_the_same_model() {
    let logits = || {
        let model = random_model(llama(), &options(&Device::Cpu, DType::F32)).unwrap();
        let scores = model
            .session()
            .score(&[1, 2], &TokenTree::new(), Want::LOGITS);
        scores.unwrap().logits.unwrap().row(0).to_vec()
    };
    assert_eq!(logits(), logits());
}

#[test]
fn what_is_counted_is_what_is_loaded() {
    let counts = |config: Value, parameters: usize| {
        for options in everywhere() {
            let model = random_model(config.clone(), &options).unwrap();
            assert_eq!(model.num_parameters(), parameters);
        }
    };
    for tied in [true, false] {
        let config = cascade_models::T5Config::read(&t5(tied)).unwrap();
        counts(t5(tied), config.parameters());
    }
    let config = cascade_models::DecoderConfig::read(&llama()).unwrap();
    counts(llama(), config.parameters());
}

#[test]
fn forwards_read_weights_and_the_keys_and_values_before_them() {
    let cpu = options(&Device::Cpu, DType::F32);
    let model = random_model(llama(), &cpu).unwrap();
    // Two layers, two heads of sixteen, keys and values.
    let position = 2 * 2 * 2 * 16 * 4;
    let read = |model: &Model, context, rows, source| {
        model.bytes_read(context, rows, source) - model.bytes_per_forward()
    };
    assert_eq!(read(&model, 10, 1, 7), 10 * position);
    assert_eq!(read(&model, 10, 4, 7), 13 * position);
    // A start token of its own, and cross-attention; four heads.
    let model = random_model(t5(false), &cpu).unwrap();
    assert_eq!(read(&model, 10, 1, 7), 2 * 18 * position);
    assert_eq!(model.layers(), 2);
}

#[test]
fn gpus_tell_launches_and_memory() {
    let device = Device::Gpu(cascade_gpu::Device::emulated(
        cascade_gpu::ExecutionOrder::Forward,
    ));
    let model = random_model(llama(), &options(&device, DType::BF16)).unwrap();
    assert_eq!(model.launches(3), None);
    let chain = TokenTree::chain([5, 6]);
    let mut session = model.session();
    session.score(&[1, 2, 3], &chain, Want::ARGMAX).unwrap();
    // Rows are padded to a power of two. A layer is four linear maps and attention; then there are
    // embedding, head and readout.
    assert_eq!(model.launches(5), model.launches(8));
    assert_eq!(model.launches(5), Some(5 * model.layers() + 3));
    assert!(device.peak_memory().unwrap() > 2 * model.num_parameters());

    // Cross-attention has two more maps.
    let model = random_model(t5(true), &options(&device, DType::BF16)).unwrap();
    let mut session = model.session();
    session.set_source(&[3, 4]).unwrap();
    session.score(&[], &chain, Want::ARGMAX).unwrap();
    assert_eq!(model.launches(3), Some(8 * model.layers() + 3));
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_allocated() {
    // No machine has so much: 1,024 times the layers of FLAN-T5-XXL.
    let mut config = shape("flan-t5-xxl").unwrap();
    config["num_layers"] = json!(24 * 1024);
    config["num_decoder_layers"] = json!(24 * 1024);
    let error = random_model(config, &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, Error::DoesNotFit { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("GB") && message.contains("smaller"),
        "{message}"
    );
}

#[test]
fn wrong_configurations_are_refused() {
    let refused = |config: Value, cure: &str| {
        let error = random_model(config, &LoadOptions::default()).unwrap_err();
        assert!(error.to_string().contains(cure), "{error}");
    };
    refused(json!({"model_type": "mamba"}), "mamba");
    refused(json!({"model_type": "llama"}), "vocab_size");
    let mut config = llama();
    config["num_attention_heads"] = json!(0);
    refused(config, "num_attention_heads is 0");
}
