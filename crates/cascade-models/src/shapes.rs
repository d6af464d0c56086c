//! Shapes of released models.

use serde_json::{Map, Value};

/// What config.json of the released models says of their sizes.
const SHAPES: &str = include_str!("shapes.json");

/// Names of the shapes that [`shape`] knows.
pub fn shape_names() -> Vec<String> {
    shapes().into_iter().map(|(name, _)| name).collect()
}

/// What config.json says of the sizes of a released model, by its name: `flan-t5-xxl`, say.
pub fn shape(name: &str) -> Option<Value> {
    shapes().remove(name)
}

fn shapes() -> Map<String, Value> {
    // The file is part of the program, so no input gets here.
    serde_json::from_str(SHAPES).expect("the shapes are tested")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::DecoderConfig;
    use crate::t5::T5Config;

    fn t5(name: &str) -> T5Config {
        T5Config::read(&shape(name).unwrap()).unwrap()
    }

    fn llama(name: &str) -> DecoderConfig {
        DecoderConfig::read(&shape(name).unwrap()).unwrap()
    }

    #[test]
    fn shapes_have_as_many_parameters_as_the_released_models() {
        let released = [
            ("flan-t5-xxl", 11_135_332_352),
            ("flan-t5-xl", 2_849_757_184),
            ("flan-t5-large", 783_150_080),
            ("flan-t5-base", 247_577_856),
            ("flan-t5-small", 76_961_152),
        ];
        for (name, parameters) in released {
            assert_eq!(t5(name).parameters(), parameters, "{name}");
        }
        let decoders = [
            ("vicuna-7b", 6_738_415_616),
            ("vicuna-13b", 13_015_864_320),
            ("vicuna-68m", 68_030_208),
            ("tinyllama-1.1b", 1_100_048_384),
            ("llama-3.2-1b", 1_235_814_400),
            ("llama-3.2-3b", 3_212_749_824),
            ("llama-3.1-8b", 8_030_261_248),
            ("qwen2.5-0.5b", 494_032_768),
            ("qwen2.5-1.5b", 1_543_714_304),
            ("qwen2.5-7b", 7_615_616_512),
        ];
        for (name, parameters) in decoders {
            assert_eq!(llama(name).parameters(), parameters, "{name}");
        }
        assert_eq!(shape_names().len(), released.len() + decoders.len());
        assert!(shape("flan-t5-tiny").is_none());
    }
}
