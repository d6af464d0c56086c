//! Products of GGUF's types against ggml's own, which `tests/goldens/make_ggml_products.py` wrote.

use std::collections::BTreeMap;

use cascade_cpu::{Format, Isa, Linear, Packed};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    /// `[rows][inputs]`.
    inputs: Vec<Vec<f32>>,
    /// `[outputs][inputs]`, before it is rounded.
    matrix: Vec<Vec<f32>>,
    types: BTreeMap<String, Products>,
}

#[derive(Deserialize)]
struct Products {
    /// `[outputs]`, in hexadecimal.
    blocks: Vec<String>,
    /// `[rows][outputs]`.
    products: Vec<Vec<f32>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("ggml_products.json")).unwrap()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let pairs = hexadecimal.as_bytes().as_chunks::<2>().0.iter();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    pairs.map(|pair| byte(pair).unwrap()).collect()
}

fn named(name: &str) -> Format {
    let mut formats = Format::ALL.into_iter();
    formats.find(|format| format.as_str() == name).unwrap()
}

/// How far a product may be from ggml's, relative to the sum of the magnitudes of what is added.
fn tolerance(format: Format) -> f64 {
    match format {
        // ggml rounds scales of activations to f16: half a unit in the eleventh place.
        _ if format.block_values() == 32 => 1.0 / 2048.0,
        // It rounds activations of f16 to f16.
        Format::F16 => 1.0 / 2048.0,
        // Sums of f32 in another order.
        _ => 1e-6,
    }
}

#[test]
fn products_are_those_of_ggml() {
    let golden = golden();
    assert_eq!(golden.types.len(), 12);
    let inputs = golden.inputs[0].len();
    for (name, expected) in &golden.types {
        let format = named(name);
        let blocks: Vec<u8> = expected.blocks.iter().flat_map(|row| bytes(row)).collect();
        let packed = Packed::from_blocks(format, &blocks, inputs).unwrap();
        let mut weights = vec![vec![0.0; inputs]; expected.blocks.len()];
        for (output, row) in weights.iter_mut().enumerate() {
            packed.read_row(output, row);
        }
        let linear = Linear::of_parts(vec![packed.into()]);
        for isa in Isa::available() {
            let all = golden.inputs.concat();
            let found = linear.forward_with(isa, &all);
            let rows = found.chunks(weights.len()).zip(&expected.products);
            for ((found, expected), input) in rows.zip(&golden.inputs) {
                for ((found, expected), weights) in found.iter().zip(expected).zip(&weights) {
                    let terms = weights.iter().zip(input);
                    let size: f64 = terms.map(|(w, x)| f64::from((w * x).abs())).sum();
                    let far = f64::from(found - expected).abs() / size;
                    assert!(far < tolerance(format), "{name} {isa}: {found}, {expected}");
                }
            }
        }
    }
}

#[test]
fn weights_are_rounded_to_the_bytes_of_ggml() {
    let golden = golden();
    for (name, expected) in &golden.types {
        let format = named(name);
        let rounded_to = [Format::BF16, Format::F16, Format::Q8_0, Format::Q4_0];
        if !rounded_to.contains(&format) {
            continue;
        }
        for (row, blocks) in golden.matrix.iter().zip(&expected.blocks) {
            let blocks = bytes(blocks);
            let mut rounded = vec![0; blocks.len()];
            cascade_cpu::quantize(format, row, &mut rounded);
            assert!(rounded == blocks, "{name}");
        }
    }
}
