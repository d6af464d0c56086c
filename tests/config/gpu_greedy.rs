//! Cascades on a GPU equal plain decoding there, token by token, in every type; in f32 they also
//! equal the CPU.
//!
//! Kernels run in the emulator, and on the GPU named by `CASCADE_TEST_DEVICE` (`cuda:0`), if set.

use std::path::Path;
use std::sync::Arc;

use cascade_core::{Architecture, Prompt, TextCodec};
use cascade_engine::{Branching, Cascade, Convention, KMatrix, Lenience, NeuralOptions, Options};
use cascade_models::{load, parse_device, DType, Device, LoadOptions, LoadedModel, ModelSource};
use cascade_ngram::MaxGram;
use cascade_verify::Rule;

const PROMPT: &str =
    "Question: Tom has 3 apples and buys 4 more apples. How many apples has Tom? Answer: ";

fn devices() -> Vec<Device> {
    let emulated = Device::Gpu(cascade_gpu_emulator::emulated(
        cascade_gpu_emulator::ExecutionOrder::Forward,
    ));
    let named = std::env::var("CASCADE_TEST_DEVICE").ok();
    let real = named.map(|name| parse_device(&name).unwrap());
    std::iter::once(emulated).chain(real).collect()
}

fn model(name: &str, device: &Device, dtype: DType) -> LoadedModel {
    // The current location of the sources, if the test was built elsewhere.
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let folder = Path::new(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")))
        .join("../../lab/cascade-demo/models")
        .join(name);
    let options = LoadOptions {
        device: device.clone(),
        dtype,
        ..LoadOptions::default()
    };
    load(&ModelSource::Folder(folder), &options).unwrap()
}

/// The base model with the small one, which gives trees of two, and Max-Gram.
struct Pair {
    target: LoadedModel,
    drafter: LoadedModel,
}

impl Pair {
    fn new(family: &str, device: &Device, dtype: DType) -> Self {
        let of = |size: &str| model(&format!("demo-{family}-{size}"), device, dtype);
        Self {
            target: of("base"),
            drafter: of("small"),
        }
    }

    fn cascade(&self) -> Cascade {
        let rows = vec![vec![3, 4], vec![0, 3]];
        let options = NeuralOptions::new(Rule::default(), Branching::main_path(2));
        Cascade::builder()
            .target("target", self.target.session())
            .neural_with("small", self.drafter.session(), options)
            .statistical("mag", MaxGram::new())
            .k_matrix(KMatrix::new(rows, Convention::Added).unwrap())
            .lenience(Lenience::new(3.0).unwrap())
            .eos(self.target.eos_token_ids.iter().copied())
            .codec(Arc::new(self.target.tokenizer.clone()))
            .build()
            .unwrap()
    }

    fn tokens(&self, speculate: bool) -> Vec<u32> {
        let ids = self.target.tokenizer.encode(PROMPT).unwrap();
        let prompt = match self.target.info().architecture {
            Architecture::EncoderDecoder => Prompt {
                source: ids,
                context: Vec::new(),
            },
            Architecture::DecoderOnly => Prompt {
                source: Vec::new(),
                context: ids,
            },
        };
        let options = Options::default()
            .with_max_new_tokens(24)
            .with_speculation(speculate);
        let generation = self.cascade().generate_tokens(&prompt, &options);
        generation.unwrap().tokens
    }
}

fn check(family: &str) {
    let on_cpu = Pair::new(family, &Device::Cpu, DType::F32).tokens(false);
    for device in devices() {
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::Q8_0] {
            let pair = Pair::new(family, &device, dtype);
            let plain = pair.tokens(false);
            assert_eq!(pair.tokens(true), plain, "{family} in {dtype:?}");
            if dtype == DType::F32 {
                assert_eq!(plain, on_cpu, "{family}");
            }
        }
    }
}

#[test]
fn t5_says_with_drafters_what_it_says_without() {
    check("t5");
}

#[test]
fn llama_says_with_drafters_what_it_says_without() {
    check("llama");
}
