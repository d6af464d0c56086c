//! Heads that draft from their target's hidden states: from YAML to cascades whose texts are those
//! of plain decoding, in every position.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cascade_config::{
    AssembleOptions, Assembled, Assembly, Config, DeviceSpec, Notices, SamplingSettings, Target,
};
use cascade_engine::{GenerationOutput, Options, Role, Rule};
use cascade_models::{Batcher, HubOptions, SharedPrefixes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

const TARGET: &str = "target: { model: embedded:demo-llama-base }";
/// Size of a state of the target.
const SIZE: usize = 160;
const ROWS: usize = 1280;
const INNER: usize = 96;
const PROMPTS: [&str; 3] = [
    "Question: A box holds 12 apples. Tom buys 3 boxes and eats 4 apples. How many are left?\nAnswer:",
    "Anna has 5 red and 7 blue pens. She gives away 3. How many pens has she now?",
    "The first of the",
];

fn offline() -> AssembleOptions {
    AssembleOptions::default()
        .with_device(Some(DeviceSpec::Cpu))
        .with_hub(HubOptions::new("http://localhost:9", "/nonexistent"))
}

fn assemble(drafters: &str, rest: &str) -> Result<Assembled, cascade_config::Error> {
    cascade_demo::register();
    let yaml = format!("{TARGET}\ndrafters:\n{drafters}\n{rest}");
    Config::parse(&yaml, "heads.yaml", "")?.assemble(&offline())
}

fn refusal(drafters: &str, rest: &str) -> String {
    match assemble(drafters, rest) {
        Ok(_) => panic!("assembled: {drafters}"),
        Err(error) => {
            let mut said = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                let _ = write!(said, ": {cause}");
                source = cause.source();
            }
            said
        }
    }
}

type Tensors = HashMap<String, (Vec<usize>, Vec<f32>)>;

/// A head of random weights of this scale, which drafts nothing that is worth it.
fn random(seed: u64, scale: f32) -> Tensors {
    let mut rng = StdRng::seed_from_u64(seed);
    let shapes: [(&str, &[usize]); 10] = [
        ("fc.weight", &[SIZE, 2 * SIZE]),
        ("fc.bias", &[SIZE]),
        ("layers.0.self_attn.q_proj.weight", &[SIZE, SIZE]),
        ("layers.0.self_attn.k_proj.weight", &[32, SIZE]),
        ("layers.0.self_attn.v_proj.weight", &[32, SIZE]),
        ("layers.0.self_attn.o_proj.weight", &[SIZE, SIZE]),
        ("layers.0.mlp.gate_proj.weight", &[INNER, SIZE]),
        ("layers.0.mlp.up_proj.weight", &[INNER, SIZE]),
        ("layers.0.mlp.down_proj.weight", &[SIZE, INNER]),
        ("layers.0.post_attention_layernorm.weight", &[SIZE]),
    ];
    let mut draw = |shape: &[usize]| -> Vec<f32> {
        let count = shape.iter().product();
        (0..count)
            .map(|_| scale * rng.random_range(-1.0..1.0))
            .collect()
    };
    let tensors = shapes
        .iter()
        .map(|(name, shape)| (name.to_string(), (shape.to_vec(), draw(shape))));
    tensors.collect()
}

/// A head that has learned which token follows which: its embedding has the output head's row of
/// the next token, and the state weighs little.
fn bigrams() -> Tensors {
    let mut tensors = random(1, 0.004);
    let head = lm_head();
    let mut next: HashMap<(u32, u32), usize> = HashMap::new();
    for prompt in PROMPTS {
        let text = generate(
            &mut plain(),
            prompt,
            &Options::default().with_max_new_tokens(128),
        );
        for pair in text.tokens.windows(2) {
            *next.entry((pair[0], pair[1])).or_default() += 1;
        }
    }
    let mut embedding = vec![0.0; ROWS * SIZE];
    for token in 0..ROWS as u32 {
        let after = next.iter().filter(|((first, _), _)| *first == token);
        let best = after.max_by_key(|((_, second), count)| (**count, *second));
        if let Some(((_, second), _)) = best {
            let row = &head[*second as usize * SIZE..][..SIZE];
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            let to = &mut embedding[token as usize * SIZE..][..SIZE];
            to.iter_mut()
                .zip(row)
                .for_each(|(to, x)| *to = 12.0 * x / norm);
        }
    }
    let (_, fuse) = tensors.get_mut("fc.weight").unwrap();
    (0..SIZE).for_each(|row| fuse[row * 2 * SIZE + row] += 1.0);
    tensors.insert(
        "embed_tokens.weight".to_owned(),
        (vec![ROWS, SIZE], embedding),
    );
    tensors
}

/// The output head of the target, which is stored in bf16.
fn lm_head() -> Vec<f32> {
    let file = "../cascade-demo/models/demo-llama-base/model.safetensors";
    let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let view = tensors.tensor("lm_head.weight").unwrap();
    assert_eq!(
        (view.dtype(), view.shape()),
        (Dtype::BF16, &[ROWS, SIZE][..])
    );
    let halves = view.data().chunks_exact(2);
    let wide = halves.map(|half| u32::from(u16::from_le_bytes([half[0], half[1]])) << 16);
    wide.map(f32::from_bits).collect()
}

fn write(folder: &Path, tensors: &Tensors) {
    let bytes: Vec<_> = tensors
        .iter()
        .map(|(name, (shape, values))| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            (name.as_str(), shape.clone(), bytes)
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, raw)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), raw).unwrap();
        (*name, view)
    });
    fs::create_dir_all(folder).unwrap();
    let file = safetensors::serialize(views, None).unwrap();
    fs::write(folder.join("model.safetensors"), file).unwrap();
    let config = serde_json::json!({"model_type": "llama", "hidden_size": SIZE,
        "intermediate_size": INNER, "num_hidden_layers": 1, "num_attention_heads": 5,
        "num_key_value_heads": 1, "vocab_size": ROWS, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 256, "hidden_act": "silu", "tie_word_embeddings": false});
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

/// Three heads of Medusa that say again what the target's own head says.
fn write_medusa(folder: &Path) {
    let head: Vec<u8> = lm_head().iter().flat_map(|x| x.to_le_bytes()).collect();
    let (square, row) = (vec![0; 4 * SIZE * SIZE], vec![0; 4 * SIZE]);
    let tensors = (0..3).flat_map(|k| {
        [
            (format!("{k}.0.linear.weight"), vec![SIZE, SIZE], &square),
            (format!("{k}.0.linear.bias"), vec![SIZE], &row),
            (format!("{k}.1.weight"), vec![ROWS, SIZE], &head),
        ]
    });
    let views = tensors.map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape, bytes).unwrap();
        (name, view)
    });
    fs::create_dir_all(folder).unwrap();
    let file = safetensors::serialize(views, None).unwrap();
    fs::write(folder.join("medusa_lm_head.safetensors"), file).unwrap();
    fs::write(folder.join("config.json"), r#"{ "medusa_num_heads": 3 }"#).unwrap();
}

/// A good head, a bad one, and those of Medusa, in folders of these names.
struct Heads(TempDir);

impl Heads {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        write(&folder.path().join("good"), &bigrams());
        write(&folder.path().join("bad"), &random(2, 0.3));
        write_medusa(&folder.path().join("medusa"));
        Self(folder)
    }

    /// An entry of `drafters`.
    fn entry(&self, name: &str, settings: &str) -> String {
        let at = self.0.path().join(name);
        format!("- {{ head: \"{}\"{settings} }}", at.display())
    }
}

fn plain() -> Assembled {
    assemble("  []", "").unwrap()
}

fn generate(assembled: &mut Assembled, prompt: &str, options: &Options) -> GenerationOutput {
    assembled.cascade.generate(prompt, options).unwrap()
}

fn calls(output: &GenerationOutput, name: &str) -> u64 {
    let model = output.models.iter().find(|model| model.name == name);
    model.unwrap().usage.calls
}

#[test]
fn a_head_is_a_neural_level_and_saves_forwards_of_its_target() {
    let heads = Heads::new();
    let k = "k: { matrix: [[3]] }";
    let mut good = assemble(&heads.entry("good", ""), k).unwrap();
    assert_eq!(good.levels[1].role, Role::Drafter);
    assert_eq!(good.warnings, [""; 0]);
    let mut bad = assemble(&heads.entry("bad", ""), k).unwrap();
    let options = Options::default().with_max_new_tokens(96);
    for prompt in PROMPTS {
        let text = generate(&mut plain(), prompt, &options);
        let [with_good, with_bad] =
            [&mut good, &mut bad].map(|cascade| generate(cascade, prompt, &options));
        assert_eq!(with_good.tokens, text.tokens);
        assert_eq!(with_bad.tokens, text.tokens);
        // A wrong head changes speed alone. The first step has no states to draft from.
        let [forwards, wasted] = [&with_good, &with_bad].map(|output| output.steps.len());
        assert!(
            forwards * 10 < wasted * 9,
            "{forwards} of {wasted} forwards"
        );
        assert!(calls(&with_bad, "bad") + 8 > 2 * wasted as u64);
        assert_eq!(with_good.steps[0].drafted, 0);
    }
}

/// Texts are equal from a cascade that has generated others, and from a fresh one.
#[test]
fn a_fresh_cascade_drafts_as_a_warm_one() {
    let heads = Heads::new();
    let drafters = format!("{}\n- max_gram: {{}}", heads.entry("good", ""));
    let make = || assemble(&drafters, "k: { matrix: [[2, 3], [0, 2]] }").unwrap();
    let options = Options::default().with_max_new_tokens(40);
    let mut warm = make();
    for prompt in [PROMPTS[0], PROMPTS[1], PROMPTS[0], PROMPTS[2], PROMPTS[0]] {
        let [warm, fresh] = [&mut warm, &mut make()].map(|it| generate(it, prompt, &options));
        assert_eq!(warm.tokens, fresh.tokens);
        assert_eq!(warm.steps, fresh.steps);
        assert_eq!(warm.proposers, fresh.proposers);
    }
}

/// What the target reads of a prompt: the rows that its first forward computed beside those of the
/// draft.
fn read(output: &GenerationOutput) -> u64 {
    output.models[0].usage.prefill_rows
}

/// The second turn of a conversation: nothing that a cache holds is read again for a head, which
/// drafts as if all had been; where another session had read it, from its own part of the text.
/// Where what is drafted decides what is drawn, all is read.
#[test]
fn a_head_has_no_prompt_read_again() {
    let heads = Heads::new();
    cascade_demo::register();
    let scope = Arc::new(SharedPrefixes::default());
    let batcher = Batcher::default();
    for (name, rule, temperature) in [
        ("good", Rule::Coupled, 0.0),
        ("medusa", Rule::Coupled, 0.0),
        ("good", Rule::Coupled, 0.8),
        ("good", Rule::Speculative, 0.8),
    ] {
        let what = format!("{name}, {rule:?} at {temperature}");
        let yaml = format!(
            "target: {{ model: embedded:demo-llama-base, rule: {rule} }}\ndrafters:\n{}\nk: {{ \
             matrix: [[3]] }}\ngeneration: {{ temperature: {temperature} }}",
            heads.entry(name, "")
        );
        let config = Config::parse(&yaml, "heads.yaml", "").unwrap();
        let pool = config.pool(&offline());
        let fresh = || pool.assemble(&config).unwrap().cascade;
        let sharing = || {
            let participant = batcher.join();
            participant.share_prefixes(Some(Arc::clone(&scope)));
            let assembly = Assembly::of(&config).sharing(&participant);
            (pool.assemble(assembly).unwrap().cascade, participant)
        };
        let ((mut first, _seat), (mut second, _other)) = (sharing(), sharing());
        let options = config
            .generation
            .options()
            .with_max_new_tokens(30)
            .with_seed(3);
        let mut prompt = first.encode(&PROMPTS[..2].concat()).unwrap();
        let turn = first.generate_tokens(&prompt, &options).unwrap();
        let before = prompt.context.len();
        prompt.context.extend(&turn.tokens);
        prompt
            .context
            .extend(first.encode(PROMPTS[1]).unwrap().context);
        let all = prompt.context.len();

        let expected = fresh().generate_tokens(&prompt, &options).unwrap();
        assert_eq!(read(&expected), all as u64 - 1, "{what}");
        let own = first.generate_tokens(&prompt, &options).unwrap();
        let other = second.generate_tokens(&prompt, &options).unwrap();
        assert_eq!(
            (&own.tokens, &own.steps),
            (&expected.tokens, &expected.steps),
            "{what}"
        );
        assert_eq!(other.tokens, expected.tokens, "{what}");
        if rule == Rule::Speculative {
            assert_eq!((read(&own), read(&other)), (all as u64 - 1, all as u64 - 1));
            assert_eq!(other.steps, expected.steps);
            continue;
        }
        // The target has not computed the row after the last token of the first turn.
        assert_eq!(
            read(&own),
            (all - before - turn.tokens.len()) as u64,
            "{what}"
        );
        let shared = (all - 1) / 64 * 64;
        assert_eq!(read(&other), (all - shared - 1) as u64, "{what}");
        assert!(calls(&other, name) > 5, "{what}");
    }
}

/// In a vertical cascade, a horizontal one, and one tree.
#[test]
fn a_head_and_the_text_draft_together() {
    let heads = Heads::new();
    let options = Options::default().with_max_new_tokens(96);
    let tree = "- max_gram_tree: {}";
    let joint = heads.entry("good", ", branches: { expand: most_probable }");
    for (what, drafters, rest) in [
        (
            "reviews Max-Gram",
            heads.entry("good", ""),
            "k: { matrix: [[4, 0], [0, 4]] }",
        ),
        (
            "is followed by it",
            heads.entry("good", ""),
            "k: { matrix: [[2, 6], [0, 0]] }",
        ),
        (
            "both",
            heads.entry("good", ""),
            "k: { matrix: [[3, 6], [0, 3]] }",
        ),
        (
            "one tree",
            joint,
            "k: { matrix: [[2, 0], [0, 5]] }\ntree: { max_nodes: 12 }",
        ),
        (
            "merged",
            heads.entry("good", ", branches: { widths: [3, 2], expand: all_leaves }"),
            "k: { matrix: [[3, 6], [0, 0]] }\ntree: { placement: merged, max_nodes: 24 }",
        ),
    ] {
        let mut cascade = assemble(&format!("{drafters}\n{tree}"), rest).unwrap();
        let mut accepted = [0; 3];
        for prompt in PROMPTS {
            let text = generate(&mut plain(), prompt, &options);
            let found = generate(&mut cascade, prompt, &options);
            assert_eq!(found.tokens, text.tokens, "{what}");
            found
                .proposers
                .iter()
                .for_each(|level| accepted[level.0] += 1);
            assert!(calls(&found, "good") > 0, "{what}");
        }
        // The target's own tokens, those of the head, and those of the text.
        assert!(
            accepted.iter().all(|&tokens| tokens > 0),
            "{what}: {accepted:?}"
        );
    }
}

/// Trees of a head alone, of a height and a size or by price, have the target's text, those of a
/// size in no more forwards than chains of the same height.
#[test]
fn a_head_grows_trees_alone() {
    let heads = Heads::new();
    let options = Options::default().with_max_new_tokens(96);
    let tree = heads.entry("good", ", branches: { expand: most_probable }");
    let (mut forwards, mut largest, mut tokens) = (Vec::new(), Vec::new(), 0);
    for (drafters, rest) in [
        (heads.entry("good", ""), "k: { matrix: [[3]] }"),
        (
            tree.clone(),
            "k: { matrix: [[3]] }\ntree: { max_nodes: 12 }",
        ),
        (tree.clone(), "schedule: online"),
        (format!("{tree}\n- max_gram_tree: {{}}"), "schedule: online"),
        (
            heads.entry("medusa", ", branches: { expand: most_probable }"),
            "k: { matrix: [[3]] }\ntree: { max_nodes: 9 }",
        ),
    ] {
        let yaml = format!("{TARGET}\ndrafters:\n{drafters}\n{rest}");
        let config = Config::parse(&yaml, "heads.yaml", "").unwrap();
        // What pays is not to depend on how busy the machine is.
        let steady = offline().with_costs(Vec::new(), true);
        let mut cascade = config.assemble(&steady).unwrap();
        let (mut steps, mut most) = (0, 0);
        tokens = 0;
        for prompt in PROMPTS {
            let text = generate(&mut plain(), prompt, &options);
            let found = generate(&mut cascade, prompt, &options);
            assert_eq!(found.tokens, text.tokens, "{drafters}\n{rest}");
            steps += found.steps.len();
            tokens += found.tokens.len();
            most = found
                .steps
                .iter()
                .fold(most, |most, step| most.max(step.drafted));
        }
        forwards.push(steps);
        largest.push(most);
    }
    // As a chain, and as a tree of three times as many nodes.
    assert_eq!((largest[0], largest[1], largest[4]), (3, 12, 9));
    // How much pays depends on the machine; a head that is right about nearly all saves forwards.
    for by_price in [forwards[2], forwards[3]] {
        assert!(3 * by_price < 2 * tokens, "{forwards:?} for {tokens}");
    }
    assert!(forwards[1] <= forwards[0], "{forwards:?}");
}

/// A notice names a head of another target, and none names a good one.
#[test]
fn a_head_that_is_hardly_ever_right_is_named() {
    let heads = Heads::new();
    cascade_demo::register();
    for (name, told) in [("good", 0), ("bad", 1)] {
        let said = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&said);
        let notices = Notices::new(move |notice| sink.lock().unwrap().push(notice.to_owned()));
        let yaml = format!(
            "{TARGET}\ndrafters:\n{}\nk: {{ matrix: [[3]] }}",
            heads.entry(name, "")
        );
        let config = Config::parse(&yaml, "heads.yaml", "").unwrap();
        let mut cascade = config.assemble(&offline().with_notices(notices)).unwrap();
        let options = Options::default().with_max_new_tokens(64);
        for prompt in PROMPTS {
            generate(&mut cascade, prompt, &options);
        }
        let said = said.lock().unwrap();
        let about = said.iter().filter(|notice| notice.contains("head `"));
        assert_eq!(about.count(), told, "{name}: {said:?}");
    }
}

#[test]
fn medusa_drafts_as_many_tokens_as_it_has_heads() {
    let heads = Heads::new();
    let mut cascade = assemble(&heads.entry("medusa", ""), "k: { matrix: [[9]] }").unwrap();
    let options = Options::default().with_max_new_tokens(64);
    let mut longest = 0;
    for prompt in PROMPTS {
        let found = generate(&mut cascade, prompt, &options);
        assert_eq!(
            found.tokens,
            generate(&mut plain(), prompt, &options).tokens
        );
        longest = found
            .steps
            .iter()
            .map(|step| step.drafted)
            .fold(longest, usize::max);
    }
    assert_eq!(longest, 3);
}

#[test]
fn a_head_that_does_not_pay_rests() {
    let heads = Heads::new();
    // Where tokens are drawn, the schedule sees no times: what it does depends on no machine.
    let yaml = format!(
        "target: {{ model: embedded:demo-llama-base, rule: iterated }}\ndrafters:\n{}\n\
         schedule: online\ngeneration: {{ ignore_eos: true }}",
        heads.entry("bad", "")
    );
    cascade_demo::register();
    let config = Config::parse(&yaml, "heads.yaml", "").unwrap();
    let mut cascade = config.assemble(&offline()).unwrap();
    let sampling = SamplingSettings::new(0.7, None, None, None).unwrap();
    let options = Options::default()
        .with_max_new_tokens(300)
        .with_decoding(sampling.decoding());
    let found = generate(&mut cascade, PROMPTS[0], &options);
    let late = &found.steps[found.steps.len() / 2..];
    let drafted = late.iter().filter(|step| step.drafted > 0).count();
    assert!(
        drafted * 5 < late.len(),
        "{drafted} of {} late steps",
        late.len()
    );
}

#[test]
fn what_a_head_cannot_read_is_refused_by_name() {
    let heads = Heads::new();
    let entry = heads.entry("good", "");
    // Of another model, which is narrower.
    let yaml = format!("target: {{ model: embedded:demo-llama-small }}\ndrafters:\n{entry}");
    cascade_demo::register();
    let error = Config::parse(&yaml, "heads.yaml", "")
        .unwrap()
        .assemble(&offline());
    let error = format!("{:#?}", error.err().unwrap());
    assert!(error.contains("hidden_size is 160"), "{error}");
    let nowhere = refusal("- { head: /nowhere/head }", "");
    assert!(nowhere.contains("/nowhere/head"), "{nowhere}");
    // What answers in place of the target has no weights to share.
    let yaml = format!("{TARGET}\ndrafters:\n{entry}");
    let config = Config::parse(&yaml, "heads.yaml", "").unwrap();
    let pool = config.pool(&offline());
    let model = pool.target(&config).unwrap();
    let other = Target::new(
        model.session(),
        "a recording",
        model.tokenizer.fingerprint(),
    );
    let error = pool
        .assemble(Assembly::of(&config).target(other))
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("drafters[0].head") && error.contains("a recording"),
        "{error}"
    );
    let vocabulary = model.tokenizer.fingerprint();
    assert!(pool.drafters(&config, &vocabulary).is_err());
    // A model is no head.
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../cascade-demo/models/demo-llama-small");
    let model = refusal(&format!("- {{ head: \"{}\" }}", model.display()), "");
    assert!(model.contains("no fc.weight"), "{model}");
}
