//! Instructions by name and operands.

use super::operands::Operands;
use super::Result;
use crate::arithmetic::{
    binary, long_binary, long_shift, narrowing, relation, ternary, unary, wide_product, widening,
};
use crate::instruction::{
    Access, AtomicAdd, Compute, CopyAsync, Half, Logic, Operation, Shuffle, Space, Tiles, Type,
};

/// Reads a family of instructions; nothing if the instruction is of another family.
type Family<T> = fn(&[&str], &mut Operands<'_, '_>) -> Result<Option<T>>;

/// An instruction from the parts of its name and its operands.
pub(super) fn operation(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Operation> {
    if let Some(compute) = first_of(&[words, longs, moves, predicates], code, o)? {
        return Ok(Operation::Compute(compute));
    }
    let operation = first_of(&[memory, copies, warp_wide, control], code, o)?;
    operation.ok_or_else(|| "this instruction is not known".to_owned())
}

fn first_of<T>(
    families: &[Family<T>],
    code: &[&str],
    o: &mut Operands<'_, '_>,
) -> Result<Option<T>> {
    for family in families {
        if let Some(read) = family(code, o)? {
            return Ok(Some(read));
        }
    }
    Ok(None)
}

/// Arithmetic that gives 32 bits.
fn words(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Compute>> {
    if let Some(unary) = unary(code) {
        return Ok(Some(Compute::Unary(unary, o.word(0)?, o.word(1)?)));
    }
    if let Some(binary) = binary(code) {
        let from = [o.word(1)?, o.word(2)?];
        return Ok(Some(Compute::Binary(binary, o.word(0)?, from)));
    }
    if let Some(ternary) = ternary(code) {
        let from = [o.word(1)?, o.word(2)?, o.word(3)?];
        return Ok(Some(Compute::Ternary(ternary, o.word(0)?, from)));
    }
    if let Some(narrow) = narrowing(code) {
        return Ok(Some(Compute::Narrow(narrow, o.word(0)?, o.long(1)?)));
    }
    Ok(None)
}

/// Arithmetic that gives 64 bits.
fn longs(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Compute>> {
    if let Some(binary) = long_binary(code) {
        let from = [o.long(1)?, o.long(2)?];
        return Ok(Some(Compute::LongBinary(binary, o.long(0)?, from)));
    }
    if let Some(shift) = long_shift(code) {
        let (to, from, by) = (o.long(0)?, o.long(1)?, o.word(2)?);
        return Ok(Some(Compute::LongShift(shift, to, from, by)));
    }
    if let Some(widen) = widening(code) {
        return Ok(Some(Compute::Widen(widen, o.long(0)?, o.word(1)?)));
    }
    if let Some(product) = wide_product(code) {
        let from = [o.word(1)?, o.word(2)?];
        return Ok(Some(Compute::WideProduct(product, o.long(0)?, from)));
    }
    Ok(None)
}

fn moves(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Compute>> {
    Ok(Some(match code {
        ["mov", "b32"] if o.at(0)?.starts_with('{') => Compute::Split(o.words(0)?, o.word(1)?),
        ["mov", "u32" | "b32" | "f32" | "s32"] => Compute::Move(o.word(0)?, o.word(1)?),
        ["mov", "u64" | "b64" | "s64"] => Compute::MoveLong(o.long(0)?, o.long(1)?),
        // Addresses of all spaces are plain integers here.
        ["cvta", "to", "global", "u64"] => Compute::MoveLong(o.long(0)?, o.long(1)?),
        ["selp", "b32" | "u32" | "s32" | "f32"] => {
            Compute::Select(o.word(0)?, [o.word(1)?, o.word(2)?], o.predicate(3)?)
        }
        ["selp", "b64" | "u64" | "s64"] => {
            Compute::SelectLong(o.long(0)?, [o.long(1)?, o.long(2)?], o.predicate(3)?)
        }
        _ => return Ok(None),
    }))
}

fn predicates(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Compute>> {
    Ok(Some(match code {
        ["setp", how, kind] => compare(how, kind, o)?,
        ["and", "pred"] => logic(Logic::And, o)?,
        ["or", "pred"] => logic(Logic::Or, o)?,
        ["mov", "pred"] => match o.predicate(1) {
            Ok(from) => Compute::Logic(Logic::And, o.predicate(0)?, [from, from]),
            Err(_) => Compute::LogicSet(o.predicate(0)?, o.integer(1)? != 0),
        },
        ["not", "pred"] => Compute::LogicNot(o.predicate(0)?, o.predicate(1)?),
        _ => return Ok(None),
    }))
}

fn logic(logic: Logic, o: &Operands<'_, '_>) -> Result<Compute> {
    let from = [o.predicate(1)?, o.predicate(2)?];
    Ok(Compute::Logic(logic, o.predicate(0)?, from))
}

fn compare(how: &str, kind: &str, o: &mut Operands<'_, '_>) -> Result<Compute> {
    let (kind, long) = match kind {
        "u32" | "b32" => (Type::U32, false),
        "s32" => (Type::I32, false),
        "f32" => (Type::F32, false),
        "u64" | "b64" => (Type::U64, true),
        "s64" => (Type::I64, true),
        _ => return Err("this type of comparison is not known".to_owned()),
    };
    let relation = relation(how).ok_or("this comparison is not known")?;
    let from = if long {
        [o.long(1)?, o.long(2)?]
    } else {
        [o.word(1)?, o.word(2)?]
    };
    Ok(Compute::Compare(kind, relation, o.predicate(0)?, from))
}

fn memory(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Operation>> {
    Ok(Some(match code {
        ["ld", how @ ..] => Operation::Load(access(how, 1, 0, o)?),
        ["st", how @ ..] => Operation::Store(access(how, 0, 1, o)?),
        ["atom", order @ .., "global", "add", "u32"] => {
            let (release, acquire) = match order {
                [] | ["relaxed", "gpu"] => (false, false),
                ["release", "gpu"] => (true, false),
                ["acquire", "gpu"] => (false, true),
                ["acq_rel", "gpu"] => (true, true),
                _ => return Err("this order of an atomic addition is not known".to_owned()),
            };
            Operation::AtomicAdd(AtomicAdd {
                to: o.word(0)?,
                address: o.address(1)?,
                value: o.word(2)?,
                release,
                acquire,
            })
        }
        _ => return Ok(None),
    }))
}

fn copies(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Operation>> {
    Ok(Some(match code {
        ["cp", "async", "cg", "shared", "global"] if o.integer(2)? == 16 => {
            Operation::CopyAsync(CopyAsync {
                to: o.address(0)?,
                from: o.address(1)?,
                size: o.word(3)?,
            })
        }
        ["cp", "async", "commit_group"] => Operation::CopyCommit,
        ["cp", "async", "wait_group"] => Operation::CopyWait(o.integer(0)? as usize),
        _ => return Ok(None),
    }))
}

/// What the lanes of a warp, or the warps of a block, do together.
fn warp_wide(code: &[&str], o: &mut Operands<'_, '_>) -> Result<Option<Operation>> {
    Ok(Some(match code {
        ["shfl", "sync", "bfly", "b32"] => shuffle(o)?,
        ["mma", "sync", "aligned", "m16n8k16", "row", "col", "f32", a, b, "f32"] if a == b => {
            let half = match *a {
                "bf16" => Half::BF16,
                "f16" => Half::F16,
                _ => return Err(format!("tiles of {a} are not known")),
            };
            Operation::MultiplyTiles(Tiles {
                half,
                d: o.words(0)?,
                a: o.words(1)?,
                b: o.words(2)?,
                c: o.words(3)?,
            })
        }
        ["bar", "sync"] if o.integer(0)? == 0 && o.count() == 1 => Operation::Barrier,
        _ => return Ok(None),
    }))
}

fn control(code: &[&str], _: &mut Operands<'_, '_>) -> Result<Option<Operation>> {
    Ok(Some(match code {
        ["membar", "gl"] => Operation::Fence,
        ["griddepcontrol", "wait"] => Operation::WaitForKernelBefore,
        ["griddepcontrol", "launch_dependents"] => Operation::LaunchDependents,
        // Labels are resolved when the whole kernel has been read.
        ["bra"] | ["bra", "uni"] => Operation::Branch(usize::MAX),
        ["ret"] => Operation::Return,
        _ => return Ok(None),
    }))
}

/// `shfl.sync.bfly.b32 %r1|%p1, value, lanes, clamp, members`: the predicate, which says whether
/// the lane exists, is not used.
fn shuffle(o: &mut Operands<'_, '_>) -> Result<Operation> {
    let to = o.at(0)?.split('|').next().unwrap_or_default();
    Ok(Operation::ShuffleXor(Shuffle {
        to: o.word_named(to)?,
        value: o.word(1)?,
        lanes: o.word(2)?,
        clamp: o.word(3)?,
        members: o.word(4)?,
    }))
}

/// An access whose address and registers are the operands of these indices.
fn access(
    how: &[&str],
    address: usize,
    registers: usize,
    o: &mut Operands<'_, '_>,
) -> Result<Access> {
    let mut space = None;
    let mut size = None;
    let mut count = 1;
    for word in how {
        match *word {
            "param" => space = Some(Space::Parameter),
            "global" => space = Some(space.unwrap_or(Space::Global)),
            "shared" => space = Some(Space::Shared),
            "nc" => space = Some(Space::Constant),
            // Caching changes nothing.
            "cg" | "L1::no_allocate" => {}
            "v2" => count = 2,
            "v4" => count = 4,
            "u16" | "b16" => size = Some(2),
            "u32" | "b32" | "f32" | "s32" => size = Some(4),
            "u64" | "b64" | "s64" => size = Some(8),
            _ => return Err(format!("{word} is not known")),
        }
    }
    let found = o.vector(registers)?;
    if found.len() != count {
        return Err(format!("{} registers for {count} values", found.len()));
    }
    let mut registers = [found[0]; 4];
    registers[..count].copy_from_slice(&found);
    Ok(Access {
        // A generic address: what kernels are called with points to global memory.
        space: space.unwrap_or(Space::Global),
        address: o.address(address)?,
        size: size.ok_or("an access of no type")?,
        registers,
        count,
    })
}
