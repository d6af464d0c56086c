//! Every format with every instruction set of this machine, against the reference and its
//! definition.

use std::sync::Arc;

use half::f16;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::scalar;
use crate::tests::packed;
use crate::{Format, Isa, Linear, Packed, quantize};

/// Gives a block other scales.
fn put_scales(format: Format, block: &mut [u8], mut scale: impl FnMut() -> f32) {
    let places: &[usize] = match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q6K => &[208],
        Format::Q8_0 | Format::Q4_0 => &[0],
        Format::Iq4 => return block[..4].copy_from_slice(&scale().to_le_bytes()),
        Format::Mxfp4 => {
            block[0] = (128.0 + scale().abs().log2()).round() as u8;
            return;
        }
        Format::F32 | Format::BF16 | Format::F16 => &[],
    };
    for &at in places {
        block[at..at + 2].copy_from_slice(&f16::from_f32(scale()).to_le_bytes());
    }
}

/// Weights as files have them.
fn blocks(rng: &mut StdRng, format: Format, inputs: usize, outputs: usize) -> Vec<u8> {
    let row = inputs / format.block_values() * format.block_bytes();
    let mut bytes = vec![0; outputs * row];
    match format {
        Format::F32 | Format::BF16 | Format::F16 | Format::Q8_0 | Format::Q4_0 => {
            let values: Vec<f32> = (0..inputs).map(|_| rng.random_range(-2.0..2.0)).collect();
            for (number, row) in bytes.chunks_exact_mut(row).enumerate() {
                let mut values = values.clone();
                values.rotate_left(number * 7 % inputs);
                quantize(format, &values, row);
            }
        }
        _ => {
            rng.fill(&mut bytes[..]);
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                put_scales(format, block, || rng.random_range(-0.01..0.01));
            }
        }
    }
    bytes
}

fn of_blocks(format: Format, blocks: &[u8], inputs: usize) -> Linear {
    let packed = Packed::from_blocks(format, blocks, inputs).unwrap();
    Linear::of_parts(vec![packed.into()])
}

fn activations(rng: &mut StdRng, rows: usize, inputs: usize) -> Vec<f32> {
    (0..rows * inputs)
        .map(|_| rng.random_range(-3.0..3.0))
        .collect()
}

/// Shapes `(rows, inputs, outputs)` that a format can have.
fn shapes(format: Format) -> Vec<(usize, usize, usize)> {
    let inputs: &[usize] = match format.block_values() {
        1 => &[1, 31, 33, 96],
        32 => &[32, 160],
        _ => &[256, 768],
    };
    let rest = [
        (1, 1),
        (3, 16),
        (7, 17),
        (16, 40),
        (17, 15),
        (37, 33),
        (64, 5),
    ];
    let each = rest.into_iter().zip(inputs.iter().cycle());
    each.map(|((rows, outputs), &inputs)| (rows, inputs, outputs))
        .collect()
}

/// Activations as a format rounds them, in f64.
fn rounded(format: Format, row: &[f32]) -> Vec<f64> {
    let block = match format {
        Format::F32 | Format::F16 => return row.iter().map(|&x| x.into()).collect(),
        Format::BF16 => {
            return row
                .iter()
                .map(|&x| half::bf16::from_f32(x).into())
                .collect();
        }
        _ => format.block_values(),
    };
    let of_block = |values: &[f32]| {
        let most = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let inverse = 1.0 / (most / 127.0);
        let round = |x: &f32| f64::from((x * inverse).round_ties_even()) * f64::from(most / 127.0);
        values.iter().map(round).collect::<Vec<_>>()
    };
    row.chunks(block).flat_map(of_block).collect()
}

fn bits(values: &[f32]) -> impl Iterator<Item = u32> + '_ {
    values.iter().map(|value| value.to_bits())
}

#[test]
fn products_are_what_formats_define() {
    for format in Format::ALL {
        for (rows, inputs, outputs) in shapes(format) {
            let mut rng = StdRng::seed_from_u64((rows * inputs * outputs) as u64);
            let weight = blocks(&mut rng, format, inputs, outputs);
            let packed = Packed::from_blocks(format, &weight, inputs).unwrap();
            let mut row = vec![0.0; inputs];
            let matrix: Vec<Vec<f32>> = (0..outputs)
                .map(|output| {
                    packed.read_row(output, &mut row);
                    let bytes = weight.len() / outputs;
                    let mut alone = vec![0.0; inputs];
                    crate::dequantize(format, &weight[output * bytes..][..bytes], &mut alone);
                    assert!(bits(&alone).eq(bits(&row)), "{format}");
                    row.clone()
                })
                .collect();
            let input = activations(&mut rng, rows, inputs);
            let linear = Linear::of_parts(vec![packed.into()]);
            let found = linear.forward_with(Isa::Scalar, &input);
            for (x, found) in input.chunks(inputs).zip(found.chunks(outputs)) {
                let x = rounded(format, x);
                for (weights, found) in matrix.iter().zip(found) {
                    let terms = x.iter().zip(weights).map(|(x, &w)| x * f64::from(w));
                    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term: f64| {
                        (sum + term, size + term.abs())
                    });
                    let off = (f64::from(*found) - sum).abs();
                    assert!(off <= 1e-6 * size, "{format}: {found} instead of {sum}");
                }
            }
        }
    }
}

#[test]
fn only_scalar_uses_the_reference() {
    for isa in Isa::available() {
        let reference = std::ptr::eq(isa.kernels(), &scalar::KERNELS);
        assert_eq!(reference, isa == Isa::Scalar, "{isa}");
    }
}

#[test]
fn all_instruction_sets_give_the_same_bits() {
    for format in Format::ALL {
        for (rows, inputs, outputs) in shapes(format) {
            let mut rng = StdRng::seed_from_u64((rows + inputs + outputs) as u64);
            let weight = blocks(&mut rng, format, inputs, outputs);
            let linear = of_blocks(format, &weight, inputs);
            let input = activations(&mut rng, rows, inputs);
            let expected = linear.forward_with(Isa::Scalar, &input);
            for isa in Isa::available() {
                let found = linear.forward_with(isa, &input);
                if format == Format::BF16 && isa == Isa::Amx {
                    continue;
                }
                assert_eq!(
                    found, expected,
                    "{format}, {isa}, {rows} × {inputs} × {outputs}"
                );
            }
        }
    }
}

#[test]
fn rows_do_not_see_each_other() {
    for format in Format::ALL {
        let (inputs, outputs) = (format.block_values().max(48) / 16 * 16, 50);
        let mut rng = StdRng::seed_from_u64(5);
        let weight = blocks(
            &mut rng,
            format,
            inputs.next_multiple_of(format.block_values()),
            outputs,
        );
        let inputs = inputs.next_multiple_of(format.block_values());
        let linear = of_blocks(format, &weight, inputs);
        let input = activations(&mut rng, 64, inputs);
        for isa in Isa::available() {
            let alone: Vec<f32> = input
                .chunks(inputs)
                .flat_map(|row| linear.forward_with(isa, row))
                .collect();
            for rows in 1..=64 {
                let together = linear.forward_with(isa, &input[..rows * inputs]);
                assert_eq!(
                    together,
                    alone[..rows * outputs],
                    "{format}, {isa}, {rows} rows"
                );
                let last = linear.forward_with(isa, &input[(64 - rows) * inputs..]);
                assert_eq!(
                    last,
                    alone[(64 - rows) * outputs..],
                    "{format}, {isa}, {rows} rows"
                );
            }
        }
    }
}

#[test]
fn threads_leave_no_trace() {
    let (rows, inputs, outputs) = (9, 1024, 1000);
    for format in Format::ALL {
        let mut rng = StdRng::seed_from_u64(6);
        let weight = blocks(&mut rng, format, inputs, outputs);
        let linear = of_blocks(format, &weight, inputs);
        let input = activations(&mut rng, rows, inputs);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| linear.forward(&input))
        };
        let one = with(1);
        assert_eq!(with(2), one, "{format}");
        assert_eq!(with(5), one, "{format}");
    }
}

#[test]
fn parts_of_several_formats_lie_side_by_side() {
    let mut rng = StdRng::seed_from_u64(7);
    let inputs = 512;
    let parts = [
        (Format::Q4K, 40),
        (Format::Q6K, 7),
        (Format::F32, 16),
        (Format::Q8_0, 33),
    ];
    let packed = parts.map(|(format, outputs)| {
        let blocks = blocks(&mut rng, format, inputs, outputs);
        Arc::new(Packed::from_blocks(format, &blocks, inputs).unwrap())
    });
    let input = activations(&mut rng, 5, inputs);
    let together = Linear::of_parts(packed.to_vec()).forward(&input);
    let mut at = 0;
    for part in &packed {
        let alone = Linear::of_parts(vec![Arc::clone(part)]).forward(&input);
        for (row, alone) in together.chunks(96).zip(alone.chunks(part.outputs())) {
            assert_eq!(&row[at..at + part.outputs()], alone);
        }
        at += part.outputs();
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for format in Format::ALL {
        let mut rng = StdRng::seed_from_u64(8);
        let weight = blocks(&mut rng, format, 256, 3);
        let linear = of_blocks(format, &weight, 256);
        for bad in [f32::NAN, f32::INFINITY] {
            let mut input = activations(&mut rng, 2, 256);
            input[256 + 100] = bad;
            for isa in Isa::available() {
                let product = linear.forward_with(isa, &input);
                assert!(
                    product[..3].iter().all(|x| x.is_finite()),
                    "{format}, {isa}"
                );
                assert!(
                    product[3..].iter().all(|x| !x.is_finite()),
                    "{format}, {isa}"
                );
            }
        }
    }
}

fn every_set_gives_the_reference(linear: &Linear, input: &[f32], format: Format) {
    let expected = linear.forward_with(Isa::Scalar, input);
    for isa in Isa::available() {
        let product = linear.forward_with(isa, input);
        assert_eq!(product, expected, "{format}, {isa}");
    }
}

#[test]
fn quantized_zeros_and_extremes() {
    for format in [Format::Q8_0, Format::Q4_0] {
        let linear = Linear::of_parts(vec![packed(format, &[0.0; 64], 32).into()]);
        for isa in Isa::available() {
            assert_eq!(linear.forward_with(isa, &[1.0; 32]), [0.0; 2]);
        }
        // The largest integers of either sign.
        let (weight, input) = ([-1.0f32; 32], [1.0f32; 32]);
        let linear = Linear::of_parts(vec![packed(format, &weight, 32).into()]);
        for isa in Isa::available() {
            let [product] = linear.forward_with(isa, &input)[..] else {
                panic!("one output");
            };
            assert!((product + 32.0).abs() < 0.02, "{format}, {isa}: {product}");
        }
        // -128 is a weight that files may have.
        let mut block = vec![0x80; format.block_bytes()];
        block[..2].copy_from_slice(&f16::ONE.to_le_bytes());
        let linear = of_blocks(format, &block, 32);
        every_set_gives_the_reference(&linear, &input, format);
    }
}

/// Sums that some instructions add in 16 bits.
#[test]
fn the_largest_weights_with_the_largest_inputs() {
    let quantized = |format: &Format| format.block_values() > 1;
    for format in Format::ALL.into_iter().filter(quantized) {
        let mut block = vec![0xff; format.block_bytes()];
        put_scales(format, &mut block, || 1.0);
        let inputs = format.block_values();
        let packed = Packed::from_blocks(format, &block, inputs).unwrap();
        let linear = Linear::of_parts(vec![packed.into()]);
        for input in [1.0, -1.0] {
            let input = vec![input; 9 * inputs];
            every_set_gives_the_reference(&linear, &input, format);
        }
    }
}

/// Scales that f16 has as subnormal numbers, of either sign, and the least powers of two.
#[test]
fn the_least_scales_are_multiplied_with() {
    let mut rng = StdRng::seed_from_u64(9);
    let packed = |format: &Format| format.block_values() > 1;
    for format in Format::ALL.into_iter().filter(packed) {
        let inputs = 2 * format.block_values();
        let mut weight = vec![0; 16 * 2 * format.block_bytes()];
        rng.fill(&mut weight[..]);
        for (number, block) in weight.chunks_mut(format.block_bytes()).enumerate() {
            let sign = if number % 2 == 0 { 6e-8 } else { -6e-8 };
            put_scales(format, block, || sign);
            if format == Format::Mxfp4 {
                block[0] = (number % 3) as u8;
            }
        }
        let linear = of_blocks(format, &weight, inputs);
        let input = activations(&mut rng, 5, inputs);
        assert!(linear.forward(&input).iter().any(|&sum| sum != 0.0));
        every_set_gives_the_reference(&linear, &input, format);
    }
}
