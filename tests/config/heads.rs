//! Acceptance heads as folders: our own, and those in the form that was released.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cascade_config::trained::{HeadFolder, HeadSettings};
use cascade_config::{Config, StopRuleConfig};
use cascade_engine::{HeadLayer, HeadWeights};
use safetensors::tensor::{Dtype, TensorView};

const SIZE: usize = 4;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7 + seed * 3) % 11) as f32 / 11.0 - 0.5)
        .collect()
}

fn layer(seed: usize) -> HeadLayer {
    HeadLayer {
        weight: numbers(SIZE * SIZE, seed),
        bias: numbers(SIZE, seed + 1),
    }
}

/// Writes tensors in bf16, as released heads may be, and a configuration.
fn write(folder: &Path, tensors: &[(&str, &[usize], Vec<f32>)], config: &str) {
    let bytes: Vec<_> = tensors
        .iter()
        .map(|(name, shape, numbers)| {
            let halves = numbers
                .iter()
                .flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes());
            (*name, shape.to_vec(), halves.collect::<Vec<u8>>())
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, raw)| {
        (
            *name,
            TensorView::new(Dtype::BF16, shape.clone(), raw).unwrap(),
        )
    });
    let file = safetensors::serialize(views, None).unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("model.safetensors"), file).unwrap();
    fs::write(folder.join("config.json"), config).unwrap();
}

const RELEASED: &str = r#"{ "architectures": ["AcceptancePredictionHead"], "hidden_size": 4, "num_layers": 3,
    "torch_dtype": "bfloat16", "transformers_version": "4.38.0" }"#;

fn refused(folder: &Path) -> String {
    HeadFolder::open(folder).unwrap_err().to_string()
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let head = HeadFolder {
        weights: HeadWeights {
            layers: vec![Arc::new(layer(1)), Arc::new(layer(2))],
            output: numbers(SIZE, 9),
            output_bias: 0.25,
        },
        settings: Some(HeadSettings::new("some/drafter", 0.3)),
    };
    for (name, bytes) in head.to_files().unwrap() {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    assert_eq!(HeadFolder::open(folder.path()).unwrap(), head);
    let later = fs::read_to_string(folder.path().join("config.json"))
        .unwrap()
        .replace("\"version\": 1", "\"version\": 2");
    fs::write(folder.path().join("config.json"), later).unwrap();
    assert!(refused(folder.path()).contains("version 2"));
}

/// Two classes, and one block for all layers, stored once or for each of them.
#[test]
fn released_heads_share_one_block() {
    let folder = tempfile::tempdir().unwrap();
    let (weight, bias) = (numbers(SIZE * SIZE, 1), numbers(SIZE, 2));
    let block = |i: usize| {
        [
            (
                format!("model.{i}.linear.weight"),
                vec![SIZE, SIZE],
                weight.clone(),
            ),
            (format!("model.{i}.linear.bias"), vec![SIZE], bias.clone()),
        ]
    };
    let classes = [
        (
            "model.3.weight".to_owned(),
            vec![2, SIZE],
            numbers(2 * SIZE, 5),
        ),
        ("model.3.bias".to_owned(), vec![2], vec![0.5, -0.25]),
    ];
    let heads = [vec![0], vec![0, 1, 2]].map(|stored| {
        let tensors: Vec<_> = stored
            .into_iter()
            .flat_map(block)
            .chain(classes.clone())
            .collect();
        let tensors: Vec<_> = tensors
            .iter()
            .map(|(name, shape, numbers)| (name.as_str(), shape.as_slice(), numbers.clone()))
            .collect();
        write(folder.path(), &tensors, RELEASED);
        HeadFolder::open(folder.path()).unwrap()
    });
    assert_eq!(heads[0], heads[1]);
    for HeadFolder { weights, settings } in &heads {
        assert_eq!(
            (weights.layers.len(), weights.size(), settings),
            (3, SIZE, &None)
        );
        assert!(
            weights
                .layers
                .iter()
                .all(|layer| Arc::ptr_eq(layer, &weights.layers[0]))
        );
        // The softmax of two classes, of which 1 is acceptance, computed as it is defined.
        let state = [0.3f32, -0.2, 0.9, 0.1];
        let rounded = |x: f32| f32::from_bits(x.to_bits() >> 16 << 16);
        let mut x = state;
        for _ in 0..3 {
            let mut next = x;
            for (row, next) in next.iter_mut().enumerate() {
                let products = (0..SIZE).map(|i| rounded(weight[row * SIZE + i]) * x[i]);
                let sum = products.sum::<f32>() + rounded(bias[row]);
                *next += sum / (1.0 + (-sum).exp());
            }
            x = next;
        }
        let class = |class: usize| {
            let products = (0..SIZE).map(|i| rounded(classes[0].2[class * SIZE + i]) * x[i]);
            (products.sum::<f32>() + classes[1].2[class]).exp()
        };
        let wanted = class(1) / (class(0) + class(1));
        let found = weights.probability(&state).unwrap();
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let flat = "{ \"hidden_size\": 4, \"num_layers\": 0 }";
    let square: &[usize] = &[2, SIZE];
    let output = || vec![("model.0.weight", square, numbers(2 * SIZE, 1))];
    let whole = || [output(), vec![("model.0.bias", &[2][..], numbers(2, 1))]].concat();
    write(at, &whole(), flat);
    assert_eq!(HeadFolder::open(at).unwrap().weights.layers.len(), 0);
    write(at, &output(), flat);
    assert!(refused(at).contains("no `model.0.bias`"));
    write(
        at,
        &[whole(), vec![("norm.weight", &[4][..], numbers(4, 1))]].concat(),
        flat,
    );
    assert!(refused(at).contains("`norm.weight` is not a part"));
    write(
        at,
        &[
            whole(),
            vec![("other.0.linear.bias", &[4][..], numbers(4, 1))],
        ]
        .concat(),
        flat,
    );
    assert!(refused(at).contains("`other.0.linear.bias`"));
    write(
        at,
        &[
            vec![("model.0.weight", &[1, 4][..], numbers(4, 1))],
            whole()[1..].to_vec(),
        ]
        .concat(),
        flat,
    );
    assert!(refused(at).contains("classes"));
    write(
        at,
        &whole(),
        "{ \"hidden_size\": 4, \"num_layers\": 0, \"dropout\": 0.1 }",
    );
    assert!(refused(at).contains("dropout"));
    write(at, &whole(), "{ \"hidden_size\": 4, \"num_layers\": 3 }");
    assert!(refused(at).contains("`model.0."));
    write(
        at,
        &whole(),
        "{ \"hidden_size\": 4, \"num_layers\": 4000000000 }",
    );
    assert!(refused(at).contains("4000000000"));
    fs::write(at.join("model.safetensors"), b"nothing").unwrap();
    assert!(refused(at).contains("model.safetensors"));
    fs::remove_file(at.join("model.safetensors")).unwrap();
    assert!(refused(at).contains("neither model.safetensors nor pytorch_model.bin"));
    fs::remove_file(at.join("config.json")).unwrap();
    assert!(refused(at).contains("config.json"));
}

#[test]
fn a_configuration_names_a_head_and_one_rule_alone() {
    cascade_demo::register();
    let folder = tempfile::tempdir().unwrap();
    let read = |rule: &str| {
        let text = format!(
            "target: {{ model: embedded:demo-t5-target }}\ndrafters:\n  - model: embedded:demo-t5-small\n    stop_rule: {rule}\n\
             k: {{ matrix: [[12]] }}\nprompt: t5-gsm8k\n"
        );
        let file = folder.path().join("cascade.yaml");
        fs::write(&file, text).unwrap();
        Config::open(&file)
    };
    let config =
        read("{ head: { folder: ./h, threshold: 0.5, shortest: 3, longest: 9 } }").unwrap();
    let again = folder.path().join("again.yaml");
    fs::write(&again, config.to_yaml().unwrap()).unwrap();
    for config in [config, Config::open(&again).unwrap()] {
        let Some(StopRuleConfig::Head(head)) = config.drafters()[0].stop_rule() else {
            panic!("it is a head")
        };
        assert_eq!(head.folder.file_name().unwrap(), "h");
        assert!(head.folder.is_absolute());
        assert_eq!(
            (head.threshold, head.shortest, head.longest),
            (Some(0.5), Some(3), Some(9))
        );
    }
    for (rule, part) in [
        (
            "{ head: { folder: h, threshold: 2 } }",
            "stop_rule.head.threshold",
        ),
        (
            "{ head: { folder: h, longest: 0 } }",
            "stop_rule.head.longest",
        ),
        ("{ head: { folder: h, colour: red } }", "colour"),
        (
            "{ head: { folder: h }, length: 3 }",
            "map with a single key",
        ),
        (
            "{ length: 3 }\n    head: { folder: h }",
            "`stop_rule: { head: … }`",
        ),
        (
            "{ length: 3 }\n    classifier: { file: c }",
            "`stop_rule: { classifier: … }`",
        ),
    ] {
        let error = read(rule).unwrap_err().to_string();
        assert!(error.contains(part), "`{part}` is missing in {error}");
    }
    // It must be a head of this drafter.
    let at = folder.path().join("small");
    let square: &[usize] = &[2, SIZE];
    let tensors = [
        ("0.weight", square, numbers(8, 1)),
        ("0.bias", &[2][..], numbers(2, 1)),
    ];
    write(&at, &tensors, "{ \"hidden_size\": 4, \"num_layers\": 0 }");
    let config = read("{ head: { folder: ./small } }").unwrap();
    let error = config
        .assemble(&Default::default())
        .map(|_| ())
        .unwrap_err();
    let error = format!("{:#}", Chain(&error));
    assert!(error.contains("hidden states of 4 numbers"), "{error}");
}

struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut next = Some(self.0);
        while let Some(error) = next {
            write!(f, "{error}: ")?;
            next = error.source();
        }
        Ok(())
    }
}
