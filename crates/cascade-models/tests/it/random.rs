//! Models with random weights.

use cascade_core::{Architecture, LARGEST_FORWARD, Scorer, TokenTree, Want};
use cascade_models::{DType, Device, ErrorKind, LoadOptions, Model, random_model, shape};
use serde_json::{Value, json};

pub(crate) fn t5(tied: bool) -> Value {
    json!({
        "model_type": "t5", "d_model": 64, "d_ff": 96, "d_kv": 16, "num_heads": 4, "num_layers": 1,
        "num_decoder_layers": 2, "vocab_size": 208, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": tied,
    })
}

pub(crate) fn llama() -> Value {
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

/// The CPU in every type of numbers, and what there is of candle.
fn everywhere() -> Vec<LoadOptions> {
    let types = [DType::F32, DType::BF16, DType::F16];
    let mut all = types.map(|dtype| options(&Device::Cpu, dtype)).to_vec();
    if let Ok(candle) = cascade_models::DeviceSpec::CandleCpu.open() {
        all.push(options(&candle, DType::F32));
    }
    all
}

#[test]
fn random_models_score_finitely_on_every_device() {
    for config in [t5(true), t5(false), llama()] {
        for options in everywhere() {
            let model = random_model(config.clone(), &options).unwrap();
            let mut session = model.session();
            if model.info().architecture == Architecture::EncoderDecoder {
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
fn forwards_read_weights_and_the_keys_and_values_before_them() {
    let cpu = options(&Device::Cpu, DType::F32);
    let model = random_model(llama(), &cpu).unwrap();
    // Two layers, two heads of sixteen, keys and values.
    let position = 2 * 2 * 2 * 16 * 4;
    let read = |model: &Model, context, rows, source| {
        model.bytes_read(context, rows, source) - model.bytes_per_forward(rows)
    };
    assert_eq!(read(&model, 10, 1, 7), 10 * position);
    assert_eq!(read(&model, 10, 4, 7), 13 * position);
    let bytes = [1, 2, 64].map(|rows| model.bytes_per_forward(rows));
    assert_eq!(
        bytes, [bytes[0]; 3],
        "every layer is read once, whatever the rows"
    );
    // A start token of its own, and cross-attention; four heads.
    let model = random_model(t5(false), &cpu).unwrap();
    assert_eq!(read(&model, 10, 1, 7), 2 * 18 * position);
    assert_eq!(model.layers(), 2);
}

#[test]
fn forwards_read_every_weight_but_embeddings_and_encoder() {
    let cpu = options(&Device::Cpu, DType::F32);
    let model = random_model(llama(), &cpu).unwrap();
    // Queries and output, keys and values, three maps of the feed-forward layer, two norms.
    let layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64;
    assert_eq!(
        model.bytes_per_forward(1),
        4 * (2 * layer + 64 + 208 * 64),
        "layers, the last norm, the head"
    );
    assert_eq!(
        model.num_parameters(),
        model.bytes_per_forward(1) / 4 + 208 * 64,
        "and the embedding"
    );
}

/// The largest tree is the last whose logits and attention take no more than the limit.
#[test]
fn the_largest_tree_fits_to_the_last_node() {
    let cpu = options(&Device::Cpu, DType::F32);
    // So large a vocabulary that one row more or less of logits makes a difference.
    let vocabulary = 100_000;
    let wide = |mut config: Value, width: &str| {
        config["vocab_size"] = json!(vocabulary);
        config[width] = json!(16);
        config
    };
    // One mask for all heads; a bias for each of four heads, and a distance.
    let llama = wide(llama(), "hidden_size");
    let cases = [(llama, 4), (wide(t5(true), "d_model"), 8 + 4 * 4)];
    for (config, of_a_pair) in cases {
        let bytes = |nodes: usize| (nodes + 1) * vocabulary * 4 + nodes * nodes * of_a_pair;
        let model = random_model(config, &cpu).unwrap();
        let limit = model.info().max_nodes.unwrap();
        assert!(bytes(limit) <= LARGEST_FORWARD, "{limit}");
        assert!(bytes(limit + 1) > LARGEST_FORWARD, "{limit}");
    }
}

#[test]
fn encoding_grows_with_the_square_of_the_source() {
    let cpu = options(&Device::Cpu, DType::F32);
    assert_eq!(
        random_model(llama(), &cpu).unwrap().encoding_operations(9),
        0.0
    );
    let model = random_model(t5(false), &cpu).unwrap();
    let once = model.encoding_operations(100);
    // Four operations for each element of a head and pair of tokens, in two layers of 64 elements.
    let pairs = 4.0 * 128.0 * 100.0 * 100.0;
    assert_eq!(model.encoding_operations(200) - 2.0 * once, 2.0 * pairs);
    // Two for each parameter of the encoder's layer, for each token.
    let layer = (4 * 64 * 64 + 3 * 64 * 96) as f64;
    let linear = (once - pairs) / 200.0;
    assert!((layer..2.0 * layer).contains(&linear), "{linear}");
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_allocated() {
    // No machine has so much: 1,024 times the layers of FLAN-T5-XXL.
    let mut config = shape("flan-t5-xxl").unwrap();
    config["num_layers"] = json!(24 * 1024);
    config["num_decoder_layers"] = json!(24 * 1024);
    let error = random_model(config, &LoadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resources, "{error}");
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
