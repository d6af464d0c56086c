//! Heads that read their target: logits against a transcription of their papers' code (see
//! tests/goldens/make_heads.py), purity, and files that are refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use candle_core::{Device as CandleDevice, Tensor, safetensors};
use cascade_core::{
    Error as CoreError, HiddenLayer, HiddenLayers, HiddenStates, Matrix, Observation, Scorer,
    TokenId, TokenTree, Want,
};
use cascade_models::{
    DType, Device, Error, Head, HeadSession, LoadOptions, Model, ModelSource, Result, load_head,
    locate,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use tempfile::TempDir;

use crate::common::demo;
use crate::common::goldens::{Golden, goldens};

const TARGET: &str = "tiny-llama-gqa";
const HEADS: [&str; 7] = [
    "eagle",
    "eagle-gqa",
    "eagle-released",
    "eagle3",
    "eagle3-speculators",
    "eagle3-normed",
    "mtp",
];
const MEDUSA: [&str; 3] = ["medusa", "medusa-deep", "medusa-released"];
const SIZE: usize = 36;
const CASES: usize = 4;

fn rows(golden: &Golden, key: &str) -> Matrix {
    let rows = golden.rows(key);
    Matrix::new(rows[0].len(), rows.concat())
}

fn target() -> Model {
    let folder = goldens().join("models").join(TARGET);
    let config = fs::read(folder.join("config.json")).unwrap();
    let weights = Golden::read(&folder.join("model.safetensors"));
    let config = serde_json::from_slice(&config).unwrap();
    Model::build(config, &weights, &Device::Cpu, DType::F32).unwrap()
}

fn options(dtype: DType) -> LoadOptions {
    LoadOptions {
        progress: false,
        dtype,
        // Heads have none of their own.
        tokenizer: Some(ModelSource::Folder(demo::folder("demo-llama-small"))),
        ..LoadOptions::default()
    }
}

fn load(folder: &Path, target: &Model, dtype: DType) -> Result<Arc<Head>> {
    let options = options(dtype);
    let files = locate(&ModelSource::Folder(folder.to_owned()), &options)?;
    load_head(files, target, &options).map(Arc::new)
}

/// What is done to a copy of a head.
type Damage<'a> = &'a dyn Fn(&Path);

fn golden(name: &str) -> (Arc<Head>, Golden) {
    let folder = goldens().join("heads").join(name);
    let head = load(&folder, &target(), DType::F32).unwrap();
    (head, Golden::read(&folder.join("golden.safetensors")))
}

/// Last states, or those that enter the layers of the target side by side.
fn by_layer(states: &Matrix) -> HiddenStates {
    let layers = match states.columns() / SIZE {
        1 => vec![HiddenLayer::Last],
        layers => (0..layers).map(HiddenLayer::Entering).collect(),
    };
    let of = |place: usize| {
        let rows = (0..states.rows()).map(|row| &states.row(row)[place * SIZE..][..SIZE]);
        Matrix::new(SIZE, rows.flatten().copied().collect())
    };
    let layers = layers.into_iter().enumerate();
    layers.fold(HiddenStates::default(), |all, (place, layer)| {
        all.with(layer, of(place))
    })
}

/// Gives a session the states after the first `known` tokens of a text, from number `from` on, in
/// a step whose draft was rejected but for `accepted` of its tokens.
fn observe(
    session: &mut HeadSession,
    text: &[TokenId],
    states: &Matrix,
    (from, known): (usize, usize),
    accepted: usize,
) {
    let context = &text[..known - accepted];
    // Beside the accepted chain, what was rejected.
    let mut draft = TokenTree::new();
    draft.push(text[0], None);
    let mut path = Vec::new();
    for &token in &text[known - accepted..known] {
        path.push(draft.push(token, path.last().copied()));
        draft.push(1, path.last().copied());
    }
    let width = states.columns();
    let mut rows: Vec<f32> = Vec::new();
    (from..context.len()).for_each(|row| rows.extend_from_slice(states.row(row)));
    for node in 0..draft.len() {
        let on_path = path.iter().position(|&other| other == node);
        match on_path {
            Some(place) => rows.extend_from_slice(states.row(context.len() + place)),
            None => rows.extend(std::iter::repeat_n(9.5, width)),
        }
    }
    let hidden = by_layer(&Matrix::new(width, rows));
    let emitted: Vec<TokenId> = text[known - accepted..known]
        .iter()
        .copied()
        .chain([3])
        .collect();
    let argmax = vec![0; draft.len() + 1];
    let step = Observation::new(context, &draft, &path, &emitted, &argmax);
    session.observe(&step.with_hidden(Some(&hidden))).unwrap();
}

fn tree(golden: &Golden, case: usize) -> TokenTree {
    let mut tree = TokenTree::new();
    let parents = golden.integers(&format!("{case}.tree_parents"));
    let tokens = golden.tokens(&format!("{case}.tree_tokens"));
    for (token, parent) in tokens.into_iter().zip(parents) {
        tree.push(token, usize::try_from(parent).ok());
    }
    tree
}

#[track_caller]
fn assert_near(found: &Matrix, expected: &Matrix, tolerance: f32, what: &str) {
    assert_eq!(found.columns(), expected.columns(), "{what}");
    assert_eq!(found.rows(), expected.rows(), "{what}");
    let finite = expected.as_slice().iter().filter(|x| x.is_finite());
    let scale = finite.fold(1.0f32, |m, x| m.max(x.abs()));
    for (a, b) in found.as_slice().iter().zip(expected.as_slice()) {
        // What a head has no row for is −∞ in both.
        let near = a == b || (a - b).abs() <= tolerance * scale;
        assert!(near, "{what}: {a} instead of {b}");
    }
}

/// Logits from nothing, and behind all that a generation leaves in a session: verified rows of
/// many steps, drafted rows that were rejected, and drafted rows that are there already.
#[test]
fn logits_are_those_of_a_transcription() {
    for name in HEADS {
        let (head, golden) = golden(name);
        let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
        for case in 0..CASES {
            let what = format!("{name}, case {case}");
            let lengths = golden.integers(&format!("{case}.length"));
            let (length, known) = (lengths[0] as usize, lengths[1] as usize);
            let (context, tree) = (&text[..length], tree(&golden, case));
            let expected = rows(&golden, &format!("{case}.logits"));

            let mut cold = head.session();
            assert_eq!(cold.reach(context), None);
            observe(&mut cold, &text, &states, (0, known), 0);
            assert_eq!(cold.reach(context), Some(usize::MAX));
            let scores = cold.score(context, &tree, Want::LOGITS).unwrap();
            assert_eq!(scores.rows_computed, length - 1 + tree.len());
            let logits = scores.logits.unwrap();
            assert_near(&logits, &expected, 1e-4, &what);

            // All of it is there.
            let again = cold.score(context, &tree, Want::LOGITS).unwrap();
            assert_eq!(again.rows_computed, tree.len() + 1);
            assert_eq!(again.logits.unwrap(), logits, "{what}");

            // A head that has no row for some tokens gives them no probability.
            let read = Want::GATHERED.with_top(50).with_entropy();
            let read = cold.score(context, &tree, read).unwrap();
            let entropies = read.entropy.unwrap();
            assert!(
                entropies.iter().all(|entropy| (0.0..4.0).contains(entropy)),
                "{what}"
            );
            for row in 0..=tree.len() {
                let top = read.top.as_ref().unwrap().row(row);
                let sum: f32 = top.iter().map(|(_, probability)| probability).sum();
                assert!((sum - 1.0).abs() < 1e-4, "{what}, row {row}: {sum}");
                assert_eq!(top[0].0, read.argmax[row]);
            }

            // Token by token behind the same states.
            for node in 0..tree.len() {
                let path: Vec<TokenId> = [context, &tree.path_tokens(Some(node))].concat();
                for end in known + 1..=path.len() {
                    let none = TokenTree::new();
                    let row = cold.score(&path[..end], &none, Want::LOGITS).unwrap();
                    if end == path.len() {
                        let row = row.logits.unwrap();
                        assert_eq!(row.row(0), logits.row(node + 1), "{what}, node {node}");
                    }
                }
            }

            let mut warm = head.session();
            warm.set_source(&[]).unwrap();
            let mut before = 1.max(known % 3);
            observe(&mut warm, &text, &states, (0, before), 0);
            while before < known {
                let next = known.min(before + 3);
                warm.score(&text[..=before], &tree, Want::ARGMAX).unwrap();
                let step = [&text[..=before], &[7, 7]].concat();
                warm.score(&step, &TokenTree::chain([5, 2]), Want::ARGMAX)
                    .unwrap();
                let accepted = next - before - 1;
                observe(&mut warm, &text, &states, (before, next), accepted);
                before = next;
            }
            let scores = warm.score(context, &tree, Want::LOGITS).unwrap();
            assert_eq!(scores.logits.unwrap(), logits, "{what}, warm");
        }
    }
}

/// Whatever was scored and observed before, an answer has the bits that a fresh session gives.
#[test]
fn answers_depend_on_nothing_but_what_was_observed() {
    for name in HEADS {
        answers_of(name);
    }
}

fn answers_of(name: &str) {
    let (head, golden) = golden(name);
    let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
    let mut rng = StdRng::seed_from_u64(40);
    let mut session = head.session();
    let mut known = 0;
    for round in 0..150 {
        if known == 0 || rng.random_bool(0.4) {
            let begins = known == 0 || rng.random_bool(0.1);
            let (from, most) = if begins { (0, 8) } else { (known, 6) };
            if begins && rng.random_bool(0.5) {
                session.set_source(&[]).unwrap();
            }
            let next = from + rng.random_range(1..=most);
            if next + 4 > text.len() {
                known = 0;
                continue;
            }
            observe(
                &mut session,
                &text,
                &states,
                (from, next),
                rng.random_range(0..next - from),
            );
            known = next;
        }
        // Sometimes a beginning, sometimes with tokens of its own.
        let length = rng.random_range(2..=known + 1);
        let mut context = text[..length].to_vec();
        let own = rng.random_range(0..3);
        context.extend((0..own).map(|_| rng.random_range(0..4u32)));
        let mut tree = TokenTree::new();
        for node in 0..rng.random_range(0..9) {
            let parent = usize::checked_sub(rng.random_range(0..=node), 1);
            tree.push(rng.random_range(0..4), parent);
        }
        let mut fresh = head.session();
        observe(&mut fresh, &text, &states, (0, known), 0);
        let [found, expected] = [&mut session, &mut fresh]
            .map(|session| session.score(&context, &tree, Want::LOGITS).unwrap().logits);
        assert_eq!(found, expected, "{name}, round {round}");
    }
}

/// Where its target gave no states of the beginning, which a cache had, a head says what it would
/// if the text began behind that; and once all of it is read, what it always says.
#[test]
fn the_text_of_a_head_begins_behind_what_was_not_read() {
    for name in HEADS {
        let (head, golden) = golden(name);
        let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
        let tree = TokenTree::chain([3, 1]);
        let logits = |session: &mut HeadSession, context: &[TokenId]| {
            let scores = session.score(context, &tree, Want::LOGITS).unwrap();
            scores.logits.unwrap()
        };
        let mut whole = head.session();
        observe(&mut whole, &text, &states, (0, 30), 2);
        let all = logits(&mut whole, &text[..32]);
        let mut session = head.session();
        for (from, known) in [(9, 20), (17, 30), (5, 30)] {
            let behind = (from..states.rows()).flat_map(|row| states.row(row).to_vec());
            let behind = Matrix::new(states.columns(), behind.collect());
            let mut other = head.session();
            observe(&mut other, &text[from..], &behind, (0, known - from), 1);
            let expected = logits(&mut other, &text[from..known + 2]);
            session.set_source(&[]).unwrap();
            assert_eq!(session.reach(&text[..known + 2]), None);
            observe(&mut session, &text, &states, (from, known), 1);
            let found = logits(&mut session, &text[..known + 2]);
            assert_eq!(found, expected, "{name} from {from}");
            assert_ne!(found, all, "{name} from {from}");
            // Of the next text it knows as much, though the target computes no more than a row.
            session.set_source(&[]).unwrap();
            observe(&mut session, &text, &states, (known - 1, known), 0);
            assert_eq!(logits(&mut session, &text[..known + 2]), expected, "{name}");
            session.set_source(&[]).unwrap();
            observe(&mut session, &text, &states, (0, 30), 3);
            assert_eq!(logits(&mut session, &text[..32]), all, "{name}");
            let cut = [&text[..4], &[1], &text[5..12]].concat();
            observe(&mut session, &cut, &states, (11, 12), 0);
        }
    }
}

#[test]
fn a_head_says_nothing_of_what_it_has_not_observed() {
    let (head, golden) = golden("eagle");
    let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
    let none = TokenTree::new();
    let mut session = head.session();
    let error = session.score(&text, &none, Want::ARGMAX).unwrap_err();
    assert!(
        matches!(
            error,
            CoreError::BeyondReach {
                tokens: 67,
                height: 0
            }
        ),
        "{error}"
    );
    observe(&mut session, &text, &states, (0, 9), 2);
    session.score(&text[..10], &none, Want::ARGMAX).unwrap();
    // Another text, and the same one after it has begun again.
    let other = [&[text[0] + 1], &text[1..10]].concat();
    assert!(session.score(&other, &none, Want::ARGMAX).is_err());
    session.set_source(&[]).unwrap();
    assert!(session.score(&text[..10], &none, Want::ARGMAX).is_err());
    assert!(session.set_source(&[1]).is_err());

    assert_eq!(head.info().observes, HiddenLayers::LAST);
    let error = session.score(&text, &none, Want::ARGMAX.with_last_hidden());
    assert!(matches!(error, Err(CoreError::NoHiddenState { .. })));
    let error = session.score(&[43], &none, Want::ARGMAX).unwrap_err();
    assert!(matches!(
        error,
        CoreError::TokenOutOfVocabulary { token: 43, .. }
    ));
    let long = vec![1; 200];
    let error = session.score(&long, &none, Want::ARGMAX).unwrap_err();
    assert!(matches!(
        error,
        CoreError::ContextTooLong {
            needed: 200,
            limit: 128
        }
    ));
}

/// A head in each type, over a target in f32: near what it gives in f32.
#[test]
fn every_type_of_weights_gives_nearly_the_same() {
    let (head, golden) = golden("eagle");
    let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
    let answer = |head: &Arc<Head>| {
        let mut session = head.session();
        observe(&mut session, &text, &states, (0, 29), 0);
        let scores = session.score(&text[..30], &tree(&golden, 1), Want::LOGITS);
        scores.unwrap().logits.unwrap()
    };
    let exact = answer(&head);
    let folder = goldens().join("heads/eagle");
    for (dtype, tolerance) in [
        (DType::Stored, 0.0),
        (DType::BF16, 0.03),
        (DType::F16, 0.01),
        // Rows of 36 have no whole blocks; those of 72 neither.
        (DType::Q8_0, 0.0),
        (DType::Q4_0, 0.0),
    ] {
        let head = load(&folder, &target(), dtype).unwrap();
        assert_near(&answer(&head), &exact, tolerance, dtype.as_str());
        let noted = head
            .warnings()
            .iter()
            .any(|note| note.contains("held in f32"));
        assert_eq!(noted, matches!(dtype, DType::Q8_0 | DType::Q4_0), "{dtype}");
    }
}

/// A wrong head costs time, and ends nothing.
#[test]
fn a_head_whose_states_overflow_says_nothing() {
    let golden = golden("eagle").1;
    let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
    for (scale, levelled) in [(1e3, false), (1e36, true)] {
        let copy = copy_of("eagle");
        edit(copy.path(), |all| {
            let larger = (&all["fc.weight"] * scale).unwrap();
            all.insert("fc.weight".into(), larger);
        });
        let head = load(copy.path(), &target(), DType::F32).unwrap();
        let mut session = head.session();
        observe(&mut session, &text, &states, (0, 9), 0);
        let chain = TokenTree::chain(text[10..40].iter().copied());
        for _ in 0..2 {
            let scores = session.score(&text[..10], &chain, Want::LOGITS).unwrap();
            let logits = scores.logits.unwrap();
            assert!(logits.as_slice().iter().all(|logit| logit.is_finite()));
            let level = logits.row(0).iter().all(|&logit| logit == 0.0);
            assert_eq!(level, levelled, "{scale}");
        }
    }
}

fn copy_of(name: &str) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in fs::read_dir(goldens().join("heads").join(name)).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        fs::write(copy.path().join(file.file_name()), bytes).unwrap();
    }
    copy
}

/// The error with which a copy of a head is refused after `damage`.
fn refusal_of(name: &str, damage: impl FnOnce(&Path)) -> Error {
    let copy = copy_of(name);
    damage(copy.path());
    load(copy.path(), &target(), DType::F32).expect_err("the head is damaged")
}

fn set(folder: &Path, key: &str, value: serde_json::Value) {
    let file = folder.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config[key] = value;
    fs::write(file, config.to_string()).unwrap();
}

/// Rewrites the tensors of a folder.
fn edit(folder: &Path, edit: impl FnOnce(&mut HashMap<String, Tensor>)) {
    let file = folder.join("model.safetensors");
    let mut tensors = safetensors::load(&file, &CandleDevice::Cpu).unwrap();
    edit(&mut tensors);
    safetensors::save(&tensors, file).unwrap();
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    // Takes a tensor out, or puts one of zeros in its place.
    let put = |at: &Path, name: &str, shape: Option<(usize, usize)>| {
        let zeros = |shape| Tensor::zeros(shape, candle_core::DType::F32, &CandleDevice::Cpu);
        edit(at, |all| {
            all.remove(name);
            all.extend(shape.map(|shape| (name.to_owned(), zeros(shape).unwrap())));
        });
    };
    let cases: [(Damage<'_>, &[&str]); 9] = [
        (
            &|at| set(at, "vocab_size", 44.into()),
            &["vocab_size is 44", "vocabulary is 43"],
        ),
        (
            &|at| set(at, "hidden_size", 48.into()),
            &["hidden_size is 48", "width is 36"],
        ),
        (
            &|at| set(at, "num_hidden_layers", 2.into()),
            &["config.json", "2 layers"],
        ),
        (
            &|at| set(at, "logits_scaling", 2.into()),
            &["logits_scaling"],
        ),
        (&|at| set(at, "qkv_bias", true.into()), &["q_proj.bias"]),
        (&|at| put(at, "fc.bias", None), &["fc.bias"]),
        (&|at| put(at, "fc.weight", None), &["no fc.weight"]),
        (
            &|at| put(at, "layers.0.input_layernorm.weight", Some((1, 36))),
            &["1 tensor(s)", "layers.0.input_layernorm.weight"],
        ),
        (
            &|at| put(at, "fc.weight", Some((36, 36))),
            &["fc.weight", "[36, 36]", "[36, 72]"],
        ),
    ];
    for (damage, parts) in cases {
        let message = refusal_of("eagle", damage).to_string();
        for part in parts {
            assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
        }
    }
    let copy = copy_of("eagle");
    set(copy.path(), "of_mine", 3.into());
    let head = load(copy.path(), &target(), DType::F32).unwrap();
    assert!(
        head.warnings()[0].contains("of_mine"),
        "{:?}",
        head.warnings()
    );
}

#[test]
fn what_a_head_of_eagle_3_cannot_be_is_refused_by_name() {
    let steps = |at: &Path, steps: [i64; 17]| {
        demo::edit_tensor(&at.join("model.safetensors"), "d2t", |bytes, _| {
            bytes.copy_from_slice(&steps.map(i64::to_le_bytes).concat());
        });
    };
    let backwards = std::array::from_fn(|row| if row == 4 { -1 } else { 0 });
    let cases: [(&str, Damage<'_>, &[&str]); 6] = [
        (
            "eagle3",
            &|at| set(at, "target_hidden_size", 40.into()),
            &["target_hidden_size is 40"],
        ),
        (
            "eagle3",
            &|at| set(at, "draft_vocab_size", 18.into()),
            &["d2t", "[18]", "[17]"],
        ),
        (
            "eagle3",
            &|at| steps(at, [30; 17]),
            &["d2t is 30 at 13", "between 43 and 43"],
        ),
        (
            "eagle3",
            &|at| steps(at, backwards),
            &["d2t is -1 at 4", "between 4 and 43"],
        ),
        (
            "eagle3-speculators",
            &|at| set(at, "eagle_aux_hidden_state_layer_ids", vec![0, 1, 3].into()),
            &["enters layer 3", "the target has 3"],
        ),
        (
            "eagle3-speculators",
            &|at| set(at, "eagle_aux_hidden_state_layer_ids", vec![1, 0, 2].into()),
            &["[1, 0, 2]", "not ascending"],
        ),
    ];
    for (name, damage, parts) in cases {
        let message = refusal_of(name, damage).to_string();
        for part in parts {
            assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
        }
    }
}

/// An MTP layer lies among the tensors of its target, whose own forward does not read it: one
/// folder is the model and its head.
#[test]
fn a_model_with_an_mtp_layer_is_a_head_too() {
    let folder = TempDir::new().unwrap();
    let (of_target, of_layer) = (
        goldens().join("models").join(TARGET),
        goldens().join("heads/mtp"),
    );
    let mut config: serde_json::Value =
        serde_json::from_slice(&fs::read(of_target.join("config.json")).unwrap()).unwrap();
    config["model_type"] = "mimo".into();
    config["num_nextn_predict_layers"] = 1.into();
    config["attention_bias"] = true.into();
    let mut tensors = Golden::read(&of_target.join("model.safetensors")).0;
    // MiMo has biases; of no effect, here.
    for layer in 0..config["num_hidden_layers"].as_u64().unwrap() {
        for part in ["q", "k", "v"] {
            let at = format!("model.layers.{layer}.self_attn.{part}_proj");
            let rows = tensors[&format!("{at}.weight")].dims()[0];
            let zeros = Tensor::zeros(rows, candle_core::DType::F32, &CandleDevice::Cpu);
            tensors.insert(format!("{at}.bias"), zeros.unwrap());
        }
    }
    let inner = config["intermediate_size"].as_u64().unwrap() as usize;
    for (name, tensor) in Golden::read(&of_layer.join("model.safetensors")).0 {
        let shape: Vec<usize> = match name.split('.').rev().nth(1).unwrap() {
            "gate_proj" | "up_proj" => vec![inner, SIZE],
            "down_proj" => vec![SIZE, inner],
            _ => tensor.dims().to_vec(),
        };
        let own = Tensor::rand(-0.3f32, 0.3, shape, &CandleDevice::Cpu).unwrap();
        tensors.insert(name, own);
    }
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();

    let mimo = Model::build(config, &Golden(tensors), &Device::Cpu, DType::F32).unwrap();
    let head = load(folder.path(), &mimo, DType::F32).unwrap();
    assert_eq!((head.kind(), head.warnings()), ("MTP", &[][..]));
    let mimo = Arc::new(mimo);
    let text: Vec<TokenId> = (0..12).map(|i| 3 * i % 41).collect();
    let want = Want::LOGITS.with_last_hidden().with_hidden_after(Some(1));
    let none = TokenTree::new();
    let scores = mimo.session().score(&text, &none, want).unwrap();
    let own = Arc::new(target())
        .session()
        .score(&text, &none, Want::LOGITS);
    assert_eq!(scores.logits, own.unwrap().logits);
    let mut drafting = head.session();
    let states = scores.hidden.of(HiddenLayer::Last).unwrap();
    observe(&mut drafting, &text, states, (0, text.len()), 0);
    let longer = [&text[..], &[7]].concat();
    let drafted = drafting.score(&longer, &TokenTree::chain([4, 5]), Want::LOGITS);
    let logits = drafted.unwrap().logits.unwrap();
    assert!(logits.rows() == 3 && logits.as_slice().iter().all(|x| x.is_finite()));
    // A model without one is none.
    let error = load(&of_target, &mimo, DType::F32).unwrap_err();
    assert!(error.to_string().contains("mtp_layers.0"), "{error}");
}

/// Each state gives a fixed number of tokens, whatever is between, and nothing beyond.
#[test]
fn medusa_gives_the_logits_of_a_transcription() {
    for name in MEDUSA {
        let (head, golden) = golden(name);
        let (text, states) = (golden.tokens("tokens"), rows(&golden, "states"));
        let heads = if name == "medusa-deep" { 3 } else { 5 };
        let mut warm = head.session();
        let mut before = 0;
        for case in 0..CASES {
            let what = format!("{name}, case {case}");
            let lengths = golden.integers(&format!("{case}.length"));
            let (length, known) = (lengths[0] as usize, lengths[1] as usize);
            let (context, tree) = (&text[..length], tree(&golden, case));
            let expected = rows(&golden, &format!("{case}.logits"));
            let mut cold = head.session();
            assert_eq!(cold.reach(context), None);
            observe(&mut cold, &text, &states, (0, known), 0);
            assert_eq!(
                cold.reach(context),
                Some(heads - (length - known)),
                "{what}"
            );
            let logits = cold
                .score(context, &tree, Want::LOGITS)
                .unwrap()
                .logits
                .unwrap();
            assert_near(&logits, &expected, 1e-5, &what);

            if known > before {
                observe(
                    &mut warm,
                    &text,
                    &states,
                    (before, known),
                    (known - before - 1).min(3),
                );
            } else {
                warm.set_source(&[]).unwrap();
                observe(&mut warm, &text, &states, (0, known), 0);
            }
            before = known;
            warm.score(&text[..known], &TokenTree::new(), Want::ARGMAX)
                .ok();
            let found = warm.score(context, &tree, Want::LOGITS).unwrap();
            assert_eq!(found.logits.unwrap(), logits, "{what}, warm");

            // No head says what is beyond.
            let beyond = TokenTree::chain(vec![1; heads - (length - known) + 1]);
            let error = warm.score(context, &beyond, Want::ARGMAX).unwrap_err();
            assert!(matches!(error, CoreError::BeyondReach { .. }), "{error}");
            let far = [&text[..known], &[1; 9]].concat();
            assert_eq!(warm.reach(&far), None);
        }
        assert_eq!(head.kind(), "Medusa");
        // Small matrices are padded.
        assert!(head.bytes_per_forward() >= 4 * head.parameters_per_forward());
    }
}

#[test]
fn heads_say_what_they_read() {
    let (head, _) = golden("eagle");
    assert!(head.bytes_per_forward() >= 4 * head.parameters_per_forward());
    assert_eq!(
        head.parameters_per_forward() - head.num_parameters(),
        36 * 43
    );
    let (head, _) = golden("eagle3");
    assert_eq!(head.parameters_per_forward(), head.num_parameters());
    assert_eq!(head.kind(), "EAGLE-3");
}
