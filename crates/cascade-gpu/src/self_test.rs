//! Every kernel once, against the CPU: does this GPU, with its driver's compiler, compute what the
//! kernels say?
//!
//! What one kernel leaves behind is the input of the next check, so that a fault has one name.
//! Sizes are small: all checks together take a GPU a few milliseconds.

use std::borrow::Cow;
use std::fmt;

use half::f16;

use crate::arguments::{CopyArguments, FillArguments};
use crate::launch::{Kernel, Launch};
use crate::{
    padded, AttentionKind, Buffer, Cache, CacheShape, DType, Device, Error, Forward, Heads, Linear,
    Loader, Norm, QkvParts, Result, Rotary, Rows, Runner, StorageDType, Table, TensorSource,
    Weights, WorkspaceSizes, BLOCK,
};

/// Inputs of linear maps: in two parts.
const STREAM: usize = 256;
/// Rows of the embedding, and outputs of the head: three tiles.
const TOKENS: usize = 48;
/// Keys before the rows of attention, so that there are two splits.
const PAST: usize = 130;
const EPSILON: f64 = 1e-3;

/// A kernel that was run, and what was wrong with what it made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelCheck {
    /// Its name.
    pub kernel: &'static str,
    /// What was wrong; nothing if it computes what the CPU does.
    pub fault: Option<String>,
}

impl fmt::Display for KernelCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            None => write!(f, "{} ok", self.kernel),
            Some(fault) => write!(f, "{}: {fault}", self.kernel),
        }
    }
}

impl Device {
    /// Runs every kernel once and compares what it makes with the CPU. Takes a few MB.
    ///
    /// # Errors
    /// If there is no memory, and what the driver fails with, of which the kernel is not known.
    pub fn self_test(&self) -> Result<Vec<KernelCheck>> {
        let mut checks = Vec::new();
        moved_memory(self, &mut checks)?;
        filled_memory(self, &mut checks)?;
        for dtype in [DType::BF16, DType::F16, DType::Q8] {
            for rows in [1, 9, 17, 33] {
                maps(self, dtype, rows, &mut checks)?;
            }
        }
        maps(self, DType::F32, 3, &mut checks)?;
        for dtype in [DType::BF16, DType::F16] {
            for size in [32, 64, 128] {
                attention(self, dtype, size, &mut checks)?;
            }
        }
        attention(self, DType::F32, 32, &mut checks)?;
        Ok(worst(checks))
    }

    /// The same, as an error that names the kernels which are wrong.
    ///
    /// # Errors
    /// [`Error::SelfTest`], and those of [`self_test`](Self::self_test).
    pub fn check_kernels(&self) -> Result<()> {
        let checks = self.self_test()?;
        let wrong: Vec<String> = checks
            .iter()
            .filter(|check| check.fault.is_some())
            .map(ToString::to_string)
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Error::SelfTest {
                device: self.name(),
                faults: wrong.join("; "),
            })
        }
    }
}

/// One check for each kernel: its first fault.
fn worst(checks: Vec<KernelCheck>) -> Vec<KernelCheck> {
    let mut all: Vec<KernelCheck> = Vec::new();
    for check in checks {
        match all.iter_mut().find(|known| known.kernel == check.kernel) {
            Some(known) => known.fault = known.fault.take().or(check.fault),
            None => all.push(check),
        }
    }
    all
}

fn check(checks: &mut Vec<KernelCheck>, kernel: Kernel, fault: Option<String>) {
    let kernel = kernel.name();
    checks.push(KernelCheck { kernel, fault });
}

/// The first number that is farther from what it should be than `tolerance` allows, times the
/// magnitude of that and one.
fn differs(made: &[f32], right: &[f64], tolerance: f64) -> Option<String> {
    if made.len() != right.len() {
        return Some(format!("made {} of {} numbers", made.len(), right.len()));
    }
    let wrong = |(_, (&made, &right)): &(usize, (&f32, &f64))| {
        let error = (f64::from(made) - right).abs();
        // What is not a number is wrong.
        !matches!(error.partial_cmp(&(tolerance * (1.0 + right.abs()))), Some(o) if o.is_le())
    };
    let pairs = made.iter().zip(right).enumerate();
    let (at, (made, right)) = pairs.into_iter().find(wrong)?;
    Some(format!("number {at} is {made} and should be {right}"))
}

/// Eighths between -1 and 1, which are exact in every type, and whose products sum up exactly.
fn number(seed: usize, i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ ((seed as u64) << 17));
    ((mixed >> 33) % 17) as f32 / 8.0 - 1.0
}

fn numbers(name: &str, count: usize) -> Vec<f32> {
    let seed = name.bytes().map(usize::from).sum();
    (0..count).map(|i| number(seed, i)).collect()
}

/// Tensors of such numbers by name; norms have weight 1.
struct Made;

impl Weights for Made {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<TensorSource<'_>> {
        let count = shape.iter().product();
        let values = match name {
            "norm" => vec![1.0; count],
            name => numbers(name, count),
        };
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        Ok(TensorSource::Values {
            stored: StorageDType::F32,
            bytes: Cow::Owned(bytes.collect()),
        })
    }

    /// The very same numbers: eighths.
    fn blocks(&self, name: &str, [outputs, inputs]: [usize; 2]) -> Result<TensorSource<'_>> {
        let values = numbers(name, outputs * inputs);
        let block = |values: &[f32]| {
            let scale = f16::from_f32(0.125).to_le_bytes();
            let integers = values.iter().map(|value| (value * 8.0) as i8 as u8);
            scale.into_iter().chain(integers).collect::<Vec<u8>>()
        };
        Ok(TensorSource::Values {
            stored: StorageDType::Q8,
            bytes: Cow::Owned(values.chunks(BLOCK).flat_map(block).collect()),
        })
    }
}

// ---- Moving memory ----

fn moved_memory(device: &Device, checks: &mut Vec<KernelCheck>) -> Result<()> {
    let words: Vec<u32> = (1..=4 * 300).collect();
    let from = device.upload(&words)?;
    for kernel in [Kernel::CopyQuads, Kernel::ReadQuads] {
        let to = device.zeroed(from.bytes())?;
        let arguments = CopyArguments {
            from: from.address(),
            to: to.address(),
            quads: 300,
        };
        device.launch(&Launch::new(kernel, [2, 1, 1], 64, arguments))?;
        let mut copied = vec![0u32; words.len()];
        to.read(0, &mut copied)?;
        // The second reads all, and writes nothing.
        let right = match kernel {
            Kernel::CopyQuads => copied == words,
            _ => copied.iter().all(|&word| word == 0),
        };
        check(
            checks,
            kernel,
            (!right).then(|| "memory is not as it was".to_owned()),
        );
    }
    Ok(())
}

fn filled_memory(device: &Device, checks: &mut Vec<KernelCheck>) -> Result<()> {
    let filled = device.zeroed(1000 * 4)?;
    let arguments = FillArguments {
        to: filled.address(),
        count: 1000,
        kind: DType::F32.number(),
        seed: 1,
        scale: 0.5,
        unused: 0,
    };
    device.launch(&Launch::new(Kernel::Fill, [2, 1, 1], 256, arguments))?;
    let mut values = vec![0f32; 1000];
    filled.read(0, &mut values)?;
    let inside = values.iter().all(|value| value.abs() <= 0.5);
    let mean = values.iter().sum::<f32>() / 1000.0;
    let fault = (!inside || mean.abs() > 0.1).then(|| format!("a mean of {mean}"));
    check(checks, Kernel::Fill, fault);
    Ok(())
}

// ---- Linear maps, and what is read off logits ----

fn maps(device: &Device, dtype: DType, rows: usize, checks: &mut Vec<KernelCheck>) -> Result<()> {
    let heads = Heads {
        queries: 1,
        kv: 1,
        size: 32,
    };
    let mut loader = Loader::new(device, dtype, &Made);
    let table = loader.table("table", TOKENS, STREAM)?;
    let norm = loader.norm("norm", STREAM)?;
    let head = loader.head(STREAM, "head", TOKENS)?;
    let mut sizes = WorkspaceSizes::new(STREAM, EPSILON, heads, TOKENS);
    sizes.cover(&head);
    let mut runner = Runner::new(device, dtype, sizes)?;
    let mut cache = Cache::new(device, shape(heads), dtype)?;
    cache.reserve(rows)?;
    let tokens: Vec<u32> = (0..rows).map(|row| (row * 7 % TOKENS) as u32).collect();
    let positions: Vec<u32> = (0..rows as u32).collect();
    let picks = [(0, 5), (rows as u32 - 1, 3)];
    let input = Rows {
        tokens: &tokens,
        positions: &positions,
        past: 0,
        first: 0,
        paths: None,
        wanted: rows,
        picks: &picks,
    };
    runner.forward(&input, &cache, None, |forward| {
        forward.embed(&table, &norm);
        forward.logits(&head, 1.0);
    })?;
    check_maps(&mut runner, dtype, &input, checks)
}

/// Checks what a forward through embedding and head alone has left.
fn check_maps(
    runner: &mut Runner,
    dtype: DType,
    input: &Rows<'_>,
    checks: &mut Vec<KernelCheck>,
) -> Result<()> {
    let (rows, picks) = (input.wanted, input.picks);
    let (stream, right) = logits(input.tokens);
    let hidden = runner.hidden(0, rows)?;
    check(
        checks,
        match dtype {
            DType::Q8 => Kernel::EmbedQ8,
            _ => Kernel::Embed,
        },
        differs(&hidden, &stream, 1.0 / 128.0),
    );
    let made = runner.logits(rows)?;
    let fault = differs(&made, &right, 1e-4);
    let pack = match dtype {
        DType::Q8 => Kernel::PackQ8,
        _ => Kernel::Pack,
    };
    check(checks, pack, fault.clone().filter(|_| rows == 1));
    check(checks, Kernel::linear(dtype, rows), fault);
    let read = runner.readout(rows, picks.len())?;
    check(checks, Kernel::Logits, misread(&made, &read, picks));
    let top = runner.top(rows, 2)?;
    let first: Vec<u32> = top.chunks(2).map(|row| row[0].0).collect();
    let sorted = top.chunks(2).all(|row| row[0].1 >= row[1].1);
    let fault = (first != read.argmax || !sorted).then(|| format!("first are {first:?}"));
    check(checks, Kernel::Top, fault);
    Ok(())
}

/// The normed embeddings of tokens, and their logits.
fn logits(tokens: &[u32]) -> (Vec<f64>, Vec<f64>) {
    let (table, head) = (
        numbers("table", TOKENS * STREAM),
        numbers("head", TOKENS * STREAM),
    );
    let (mut stream, mut logits) = (Vec::new(), Vec::new());
    for &token in tokens {
        let row = &table[token as usize * STREAM..][..STREAM];
        let mean = row.iter().map(|&x| f64::from(x * x)).sum::<f64>() / STREAM as f64;
        let scale = (mean + EPSILON).sqrt().recip();
        stream.extend(row.iter().map(|&x| f64::from(x) * scale));
        let product = |of: &[f32]| {
            row.iter()
                .zip(of)
                .map(|(x, w)| f64::from(x * w))
                .sum::<f64>()
        };
        logits.extend(head.chunks(STREAM).map(|of| product(of) * scale));
    }
    (stream, logits)
}

/// What is wrong with what was read off these logits.
fn misread(logits: &[f32], read: &crate::Readout, picks: &[(u32, u32)]) -> Option<String> {
    let rows: Vec<&[f32]> = logits.chunks(TOKENS).collect();
    let probability = |row: &[f32], token: usize| {
        let sum: f64 = row.iter().map(|x| f64::from(x - row[token]).exp()).sum();
        sum.recip()
    };
    for (row, &argmax) in rows.iter().zip(&read.argmax) {
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if row.get(argmax as usize) != Some(&greatest) {
            return Some(format!("token {argmax} is not the most probable"));
        }
    }
    let greatest: Vec<f64> = rows
        .iter()
        .zip(&read.argmax)
        .map(|(row, &t)| probability(row, t as usize))
        .collect();
    let picked: Vec<f64> = picks
        .iter()
        .map(|&(row, t)| probability(rows[row as usize], t as usize))
        .collect();
    let of_greatest = differs(&read.greatest, &greatest, 1e-4);
    of_greatest.or_else(|| differs(&read.picks, &picked, 1e-4))
}

// ---- Attention, and the cache ----

fn shape(heads: Heads) -> CacheShape {
    CacheShape {
        layers: 1,
        kv_heads: heads.kv,
        head_dim: heads.size,
    }
}

/// A model of one attention.
struct Attention {
    heads: Heads,
    dtype: DType,
    padded: usize,
    table: Table,
    norm: Norm,
    head_norm: Norm,
    qkv: Linear,
    rotary: Rotary,
    runner: Runner,
    cache: Cache,
}

/// Three rows, each of which has its own way through the slots.
const ROWS: usize = 3;

impl Attention {
    fn new(device: &Device, dtype: DType, size: usize) -> Result<Self> {
        let heads = Heads {
            queries: 2,
            kv: 1,
            size,
        };
        let mut loader = Loader::new(device, dtype, &Made);
        let maps = [("q", 2 * size), ("k", size), ("v", size)];
        let qkv = loader.linear(STREAM, &maps)?;
        let mut sizes = WorkspaceSizes::new(STREAM, EPSILON, heads, TOKENS);
        sizes.cover(&qkv);
        let mut cache = Cache::new(device, shape(heads), dtype)?;
        cache.reserve(PAST + ROWS)?;
        if let Some(buffer) = cache.buffer() {
            buffer.zero()?;
        }
        let angles = (PAST + ROWS + 1) * size / 2;
        // Half a turn or none is exact.
        let cosines: Vec<f32> = (0..angles).map(|i| [0.5, -0.5][i % 2]).collect();
        Ok(Self {
            padded: padded(size)?,
            table: loader.table("table", TOKENS, STREAM)?,
            norm: loader.norm("norm", STREAM)?,
            head_norm: loader.norm("norm", size)?,
            rotary: Rotary::new(device, &cosines, &vec![0.0; angles])?,
            runner: Runner::new(device, dtype, sizes)?,
            heads,
            dtype,
            qkv,
            cache,
        })
    }

    fn run(&mut self, tree: bool, build: impl FnOnce(&mut Forward<'_>, &Self)) -> Result<()> {
        // The last row is the second's sibling, if they are a tree.
        let positions: [u32; ROWS] =
            (if tree { [0, 1, 1] } else { [0, 1, 2] }).map(|at| at + PAST as u32);
        let paths = [vec![0], vec![0, 1], vec![0, 2]].map(|path| {
            let slots = path.into_iter().map(|slot: usize| slot + PAST);
            slots.collect::<Vec<usize>>()
        });
        let rows = Rows {
            tokens: &[1, 2, 3],
            positions: &positions,
            past: PAST,
            first: PAST,
            paths: tree.then_some(&paths[..]),
            wanted: 0,
            picks: &[],
        };
        // A runner records what it builds: each build has its own.
        let mut runner = Runner::new(self.runner.device(), self.dtype, self.runner.sizes())?;
        runner.forward(&rows, &self.cache, None, |forward| build(forward, self))?;
        self.runner = runner;
        Ok(())
    }

    fn queries(&self) -> Result<Vec<f32>> {
        let count = ROWS * self.heads.queries * self.padded;
        self.read(self.runner.queries(), count)
    }

    /// All keys and values, slot by slot.
    fn keys_and_values(&self) -> Result<[Vec<Vec<f32>>; 2]> {
        let (capacity, padded) = (self.cache.capacity(), self.padded);
        let Some(buffer) = self.cache.buffer() else {
            return Ok([Vec::new(), Vec::new()]);
        };
        let all = self.read(buffer, 2 * capacity * padded)?;
        let (keys, values) = all.split_at(capacity * padded);
        let value = |slot: usize| (0..padded).map(move |i| values[i * capacity + slot]);
        Ok([
            keys.chunks(padded).map(<[f32]>::to_vec).collect(),
            (0..capacity).map(|slot| value(slot).collect()).collect(),
        ])
    }

    fn read(&self, buffer: &Buffer, count: usize) -> Result<Vec<f32>> {
        buffer.activations(self.dtype, 0, count)
    }

    /// What attention should make of queries, keys and values.
    fn mixed(&self, queries: &[f32], [keys, values]: &[Vec<Vec<f32>>; 2], tree: bool) -> Vec<f64> {
        let mut mixed = Vec::new();
        for (row, its) in queries.chunks(self.heads.queries * self.padded).enumerate() {
            let mut slots: Vec<usize> = (0..=PAST + row).collect();
            if tree && row == 2 {
                slots.remove(PAST + 1);
            }
            for query in its.chunks(self.padded) {
                let dot = |k: &[f32]| {
                    k.iter()
                        .zip(query)
                        .map(|(k, q)| f64::from(k * q))
                        .sum::<f64>()
                };
                let scores: Vec<f64> = slots.iter().map(|&slot| dot(&keys[slot])).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let sum: f64 = weights.iter().sum();
                let of = |i: usize| {
                    let parts = weights.iter().zip(&slots);
                    parts
                        .map(|(w, &slot)| w * f64::from(values[slot][i]))
                        .sum::<f64>()
                        / sum
                };
                mixed.extend((0..self.heads.size).map(of));
            }
        }
        mixed
    }
}

fn attention(
    device: &Device,
    dtype: DType,
    size: usize,
    checks: &mut Vec<KernelCheck>,
) -> Result<()> {
    let kernel = Kernel::attention(dtype, padded(size)?);
    let mut of = Attention::new(device, dtype, size)?;
    for tree in [false, true] {
        of.run(tree, |forward, of| {
            forward.embed(&of.table, &of.norm);
            forward.project(&of.qkv, QkvParts::All(None), 0);
            forward.norm_heads([&of.head_norm; 2], &of.rotary, 0);
            forward.attention(AttentionKind::SelfAttn(None), 0);
        })?;
        let (queries, cached) = (of.queries()?, of.keys_and_values()?);
        let count = ROWS * of.heads.queries * size;
        let made = of.read(of.runner.attended_buffer(), count)?;
        let right = of.mixed(&queries, &cached, tree);
        let most = cached[1]
            .iter()
            .flatten()
            .fold(1f32, |most, v| most.max(v.abs()));
        let tolerance = f64::from(most) / 64.0;
        check(checks, kernel, differs(&made, &right, tolerance));
    }
    let normed = of.queries()?;
    of.run(false, |forward, of| {
        forward.embed(&of.table, &of.norm);
        forward.project(&of.qkv, QkvParts::All(None), 0);
    })?;
    let right = turned(&of.queries()?, of.padded, size);
    check(
        checks,
        Kernel::NormHeads,
        differs(&normed, &right, 1.0 / 64.0),
    );
    cached(&mut of, checks)
}

/// Heads that are normed, and turned half around or not, and halved.
fn turned(heads: &[f32], padded: usize, size: usize) -> Vec<f64> {
    let mut turned = Vec::new();
    for head in heads.chunks(padded) {
        let mean = head.iter().map(|&x| f64::from(x * x)).sum::<f64>() / size as f64;
        let scale = (mean + EPSILON).sqrt().recip();
        turned.extend((0..padded).map(|i| {
            let cosine = [0.5, -0.5][i % (size / 2) % 2];
            f64::from(head[i]) * scale * if i < size { cosine } else { 0.0 }
        }));
    }
    turned
}

/// Slots that are moved, and a cache that grows.
fn cached(of: &mut Attention, checks: &mut Vec<KernelCheck>) -> Result<()> {
    let [keys, values] = of.keys_and_values()?;
    let differ = |now: &[Vec<Vec<f32>>; 2], slots: &[usize]| {
        let same = |now: &[Vec<f32>], before: &[Vec<f32>]| {
            let mut slots = slots.iter().enumerate();
            slots.all(|(at, &slot)| now[at] == before[slot])
        };
        let right = same(&now[0], &keys) && same(&now[1], &values);
        (!right).then(|| "slots are not where they belong".to_owned())
    };
    let mut slots: Vec<usize> = (0..PAST).collect();
    slots.push(PAST + 2);
    of.cache.commit(PAST + ROWS);
    of.cache.retain(PAST, &[PAST as u32 + 2])?;
    check(checks, Kernel::Keep, differ(&of.keys_and_values()?, &slots));
    let capacity = of.cache.capacity();
    of.cache.reserve(capacity)?;
    check(checks, Kernel::Grow, differ(&of.keys_and_values()?, &slots));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{emulated, emulating, ExecutionOrder};
    use crate::launch::PTX_90;

    #[test]
    fn every_kernel_is_checked_and_right() {
        let device = emulated(ExecutionOrder::Forward);
        let checks = device.self_test().unwrap();
        for kernel in Kernel::ALL {
            let name = kernel.name();
            let check = checks.iter().find(|check| check.kernel == name);
            assert_eq!(check.unwrap().to_string(), format!("{name} ok"));
        }
        device.check_kernels().unwrap();
    }

    /// Multiplications that a compiler gets wrong are found, in the kernels that have them.
    #[test]
    fn wrong_kernels_are_named() {
        let entry = ".entry cascade_attention_bf16_64(";
        let (before, after) = PTX_90.split_once(entry).unwrap();
        let (kernel, rest) = after.split_once(".entry").unwrap();
        let wrong = kernel.replace("ex2.approx", "rsqrt.approx");
        assert_ne!(wrong, kernel);
        let ptx = format!("{before}{entry}{wrong}.entry{rest}");
        let device = emulating(&ptx, ExecutionOrder::Forward).unwrap();
        let said = device.check_kernels().unwrap_err().to_string();
        assert!(said.contains("attention_bf16_64: number"), "{said}");
        assert!(
            !said.contains("linear") && said.contains("--device cpu"),
            "{said}"
        );
    }
}
