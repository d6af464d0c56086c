//! Reads PTX as NVIDIA's compiler writes it: a statement on a line.
//!
//! Only what kernels here are made of is known; everything else is an error that names the line, so that nothing is skipped.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::arithmetic::{
    binary, long_binary, long_shift, narrowing, relation, ternary, unary, wide_product, widening,
};
use crate::error::ReadError;
use crate::instruction::{
    Access, Instruction, Kernel, Logic, Module, Operation, Place, Register, Slot, Space, Special,
    Type,
};

type Result<T> = std::result::Result<T, String>;

/// Reads a module.
pub(crate) fn module(text: &str) -> std::result::Result<Module, ReadError> {
    let mut module = Module::default();
    let mut kernel: Option<KernelReader> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let wrong = |reason| ReadError {
            line: index + 1,
            text: line.to_owned(),
            reason,
        };
        match &mut kernel {
            None => match top_level(line, &mut module.constants).map_err(wrong)? {
                Some(name) => kernel = Some(KernelReader::new(name)),
                None => continue,
            },
            Some(reader) if line == "}" => {
                let (name, finished) = reader.finish().map_err(wrong)?;
                module.kernels.insert(name, finished);
                kernel = None;
            }
            Some(reader) => reader.statement(line, index + 1).map_err(wrong)?,
        }
    }
    Ok(module)
}

/// A line outside kernels: the name of a kernel that begins there.
fn top_level(line: &str, constants: &mut BTreeMap<String, Vec<u8>>) -> Result<Option<String>> {
    if let Some(name) = line.strip_prefix(".visible .entry ") {
        return Ok(Some(name.trim_end_matches('(').to_owned()));
    }
    if line.contains(".global") {
        let (name, bytes) = constant(line)?;
        constants.insert(name, bytes);
        return Ok(None);
    }
    let known = [".version", ".target", ".address_size"];
    if line.is_empty() || known.iter().any(|known| line.starts_with(known)) {
        return Ok(None);
    }
    Err("not known outside kernels".to_owned())
}

/// `.global .align 4 .b8 name[8] = {1, 0, 3};`: what is left out at the end is zero.
fn constant(line: &str) -> Result<(String, Vec<u8>)> {
    let (declared, values) = line.split_once('=').ok_or("a global without values")?;
    let (name, count) = array(declared.split_whitespace().last().unwrap_or_default())?;
    let values = values
        .trim()
        .trim_start_matches('{')
        .trim_end_matches(['}', ';']);
    let size = match declared {
        _ if declared.contains(".b8 ") => 1,
        _ if declared.contains(".u32 ") || declared.contains(".b32 ") => 4,
        _ => return Err("a global of this type is not known".to_owned()),
    };
    let mut bytes = Vec::new();
    for value in values.split(',') {
        bytes.extend_from_slice(&integer(value.trim())?.to_le_bytes()[..size]);
    }
    bytes.resize(count * size, 0);
    Ok((name.to_owned(), bytes))
}

/// What is known of a kernel while its lines are read.
struct KernelReader {
    name: String,
    kernel: Kernel,
    registers: FxHashMap<String, Declared>,
    /// Offsets in shared memory.
    symbols: FxHashMap<String, u64>,
    parameter: Option<String>,
    labels: FxHashMap<String, usize>,
    /// Instructions that branch to a label.
    branches: Vec<(usize, String)>,
    words: FxHashMap<u32, Slot>,
    longs: FxHashMap<u64, Slot>,
}

/// Registers declared together.
#[derive(Clone, Copy)]
struct Declared {
    class: Class,
    first: usize,
    count: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Predicate,
    Word,
    Long,
}

impl KernelReader {
    fn new(name: String) -> Self {
        Self {
            name,
            kernel: Kernel {
                instructions: Vec::new(),
                parameters: 0,
                shared: 0,
                max_threads: 1024,
                words: 0,
                longs: 0,
                predicates: 0,
                constant_words: Vec::new(),
                constant_longs: Vec::new(),
                special: Special::default(),
            },
            registers: FxHashMap::default(),
            symbols: FxHashMap::default(),
            parameter: None,
            labels: FxHashMap::default(),
            branches: Vec::new(),
            words: FxHashMap::default(),
            longs: FxHashMap::default(),
        }
    }

    fn finish(&mut self) -> Result<(String, Kernel)> {
        for (instruction, label) in std::mem::take(&mut self.branches) {
            let &target = self
                .labels
                .get(&label)
                .ok_or(format!("there is no label {label}"))?;
            self.kernel.instructions[instruction].operation = Operation::Branch(target);
        }
        let count = self.kernel.instructions.len();
        if self.labels.values().any(|&target| target >= count) {
            return Err("a label at the end".to_owned());
        }
        for (&value, &slot) in &self.words {
            self.kernel.constant_words.push((slot, value));
        }
        for (&value, &slot) in &self.longs {
            self.kernel.constant_longs.push((slot, value));
        }
        let empty = Self::new(String::new()).kernel;
        Ok((
            std::mem::take(&mut self.name),
            std::mem::replace(&mut self.kernel, empty),
        ))
    }

    fn statement(&mut self, line: &str, number: usize) -> Result<()> {
        if let Some(label) = line.strip_suffix(':') {
            self.labels
                .insert(label.to_owned(), self.kernel.instructions.len());
            return Ok(());
        }
        match line.chars().next() {
            None | Some(')' | '{') => Ok(()),
            Some('.') => self.directive(line),
            Some(_) => self.instruction(line.strip_suffix(';').ok_or("no semicolon")?, number),
        }
    }

    fn directive(&mut self, line: &str) -> Result<()> {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let last = words
            .next_back()
            .unwrap_or_default()
            .trim_end_matches([';', ',']);
        match first {
            ".reg" => self.declare(words.next().unwrap_or_default(), last),
            ".param" => {
                let (name, bytes) = array(last)?;
                if self.parameter.replace(name.to_owned()).is_some() {
                    return Err("more than one parameter".to_owned());
                }
                self.kernel.parameters = bytes;
                Ok(())
            }
            ".shared" => self.share(line, last),
            ".maxntid" => {
                let sizes = line[first.len()..]
                    .split(',')
                    .map(|size| integer(size.trim()));
                let sizes = sizes.collect::<Result<Vec<_>>>()?;
                self.kernel.max_threads = sizes.iter().product::<u64>() as u32;
                Ok(())
            }
            ".minnctapersm" | ".pragma" => Ok(()),
            _ => Err("this directive is not known".to_owned()),
        }
    }

    /// `.reg .b32 %r<9>;`
    fn declare(&mut self, kind: &str, names: &str) -> Result<()> {
        let (prefix, count) = names.split_once('<').ok_or("registers without a number")?;
        let count = integer(count.trim_end_matches('>'))? as usize;
        let kernel = &mut self.kernel;
        let (class, total) = match kind {
            ".pred" => (Class::Predicate, &mut kernel.predicates),
            ".b16" | ".b32" | ".f32" => (Class::Word, &mut kernel.words),
            ".b64" => (Class::Long, &mut kernel.longs),
            _ => return Err(format!("registers of type {kind} are not known")),
        };
        let first = *total;
        *total += count;
        if *total > usize::from(Slot::MAX) {
            return Err("too many registers".to_owned());
        }
        let declared = Declared {
            class,
            first,
            count,
        };
        self.registers.insert(prefix.to_owned(), declared);
        Ok(())
    }

    /// `.shared .align 16 .b8 name[4096];`
    fn share(&mut self, line: &str, last: &str) -> Result<()> {
        let align = line
            .split_once(".align ")
            .and_then(|(_, rest)| rest.split(' ').next());
        let align = integer(align.ok_or("shared memory without an alignment")?)? as usize;
        let (name, bytes) = match last.contains('[') {
            true => array(last)?,
            false => (last, 4),
        };
        let start = self.kernel.shared.next_multiple_of(align);
        self.kernel.shared = start + bytes;
        self.symbols.insert(name.to_owned(), start as u64);
        Ok(())
    }

    fn instruction(&mut self, text: &str, line: usize) -> Result<()> {
        let (guard, text) = match text.strip_prefix('@') {
            None => (None, text),
            Some(guarded) => {
                let (predicate, rest) = guarded.split_once(' ').ok_or("a guard of nothing")?;
                let holds = !predicate.starts_with('!');
                let slot = self.predicate(predicate.trim_start_matches('!'))?;
                (Some((slot, holds)), rest.trim())
            }
        };
        let (code, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let code: Vec<&str> = code.split('.').collect();
        let operands = Operands {
            reader: self,
            all: split(rest),
        };
        let operation = operation(&code, operands)?;
        if matches!(operation, Operation::Branch(_)) {
            self.branches
                .push((self.kernel.instructions.len(), rest.trim().to_owned()));
        }
        let instruction = Instruction {
            operation,
            guard,
            line,
        };
        self.kernel.instructions.push(instruction);
        Ok(())
    }

    fn register(&self, name: &str, class: Class) -> Result<Slot> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, number) = name.split_at(name.len() - digits);
        let declared = self
            .registers
            .get(prefix)
            .ok_or(format!("{name} is not declared"))?;
        let number = integer(number)? as usize;
        if declared.class != class || number >= declared.count {
            return Err(format!("{name} is not a register of that size"));
        }
        Ok((declared.first + number) as Slot)
    }

    fn predicate(&self, name: &str) -> Result<Slot> {
        self.register(name, Class::Predicate)
    }

    /// Whether a name is that of a register of a class.
    fn is(&self, name: &str, class: Class) -> bool {
        self.register(name, class).is_ok()
    }

    /// A register that holds a constant, the same for the same.
    fn word_constant(&mut self, value: u32) -> Slot {
        let next = self.kernel.words;
        let slot = *self.words.entry(value).or_insert(next as Slot);
        self.kernel.words += usize::from(usize::from(slot) == next);
        slot
    }

    fn long_constant(&mut self, value: u64) -> Slot {
        let next = self.kernel.longs;
        let slot = *self.longs.entry(value).or_insert(next as Slot);
        self.kernel.longs += usize::from(usize::from(slot) == next);
        slot
    }

    fn word(&mut self, operand: &str) -> Result<Slot> {
        if operand.starts_with('%') {
            return match self.is(operand, Class::Word) {
                true => self.register(operand, Class::Word),
                false => self.special(operand),
            };
        }
        let value = match (operand.strip_prefix("0f"), self.symbols.get(operand)) {
            (Some(bits), _) => u32::from_str_radix(bits, 16).map_err(|error| error.to_string())?,
            (None, Some(&offset)) => offset as u32,
            (None, None) => integer(operand)? as u32,
        };
        Ok(self.word_constant(value))
    }

    fn long(&mut self, operand: &str) -> Result<Slot> {
        if operand.starts_with('%') {
            return self.register(operand, Class::Long);
        }
        let value = match self.parameter.as_deref() == Some(operand) {
            true => 0,
            false => integer(operand)?,
        };
        Ok(self.long_constant(value))
    }

    fn special(&mut self, name: &str) -> Result<Slot> {
        let special = &mut self.kernel.special;
        let known = match name {
            "%tid.x" => &mut special.thread,
            "%ntid.x" => &mut special.threads,
            "%ctaid.x" => &mut special.block[0],
            "%ctaid.y" => &mut special.block[1],
            "%ctaid.z" => &mut special.block[2],
            "%nctaid.x" => &mut special.blocks[0],
            "%nctaid.y" => &mut special.blocks[1],
            "%nctaid.z" => &mut special.blocks[2],
            _ => return Err(format!("{name} is not known")),
        };
        let words = &mut self.kernel.words;
        Ok(*known.get_or_insert_with(|| {
            *words += 1;
            (*words - 1) as Slot
        }))
    }

    fn either(&mut self, operand: &str) -> Result<Register> {
        match self.is(operand, Class::Long) {
            true => Ok(Register::Long(self.long(operand)?)),
            false => Ok(Register::Word(self.word(operand)?)),
        }
    }

    /// `[%rd1+16]`, `[name+16]`, `[%r1]`.
    fn place(&mut self, operand: &str) -> Result<Place> {
        let inner = operand
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or(format!("{operand} is no address"))?;
        let (base, offset) = match inner.split_once('+') {
            Some((base, offset)) => (base, integer(offset)? as i64),
            None => (inner, 0),
        };
        let base = match self.parameter.as_deref() == Some(base) {
            true => Register::Long(self.long_constant(0)),
            false => self.either(base)?,
        };
        Ok(Place { base, offset })
    }
}

/// Operands of an instruction, taken one by one.
struct Operands<'a, 'b> {
    reader: &'a mut KernelReader,
    all: Vec<&'b str>,
}

impl<'b> Operands<'_, 'b> {
    fn at(&self, index: usize) -> Result<&'b str> {
        let missing = format!("operand {index} is missing");
        self.all.get(index).copied().ok_or(missing)
    }

    fn word(&mut self, index: usize) -> Result<Slot> {
        let operand = self.at(index)?;
        self.reader.word(operand)
    }

    fn long(&mut self, index: usize) -> Result<Slot> {
        let operand = self.at(index)?;
        self.reader.long(operand)
    }

    fn predicate(&self, index: usize) -> Result<Slot> {
        self.reader.predicate(self.at(index)?)
    }

    fn place(&mut self, index: usize) -> Result<Place> {
        let operand = self.at(index)?;
        self.reader.place(operand)
    }

    fn number(&self, index: usize) -> Result<u64> {
        integer(self.at(index)?)
    }

    /// `{%r1, %r2}` or `%r1`.
    fn vector(&mut self, index: usize) -> Result<Vec<Register>> {
        let operand = self.at(index)?.trim_matches(['{', '}']);
        let registers = operand
            .split(',')
            .map(|name| self.reader.either(name.trim()));
        registers.collect()
    }

    fn words<const N: usize>(&mut self, index: usize) -> Result<[Slot; N]> {
        let registers = self.vector(index)?.into_iter();
        let slots: Vec<Slot> = registers
            .filter_map(|register| match register {
                Register::Word(slot) => Some(slot),
                Register::Long(_) => None,
            })
            .collect();
        slots
            .try_into()
            .map_err(|_| format!("operand {index} is not {N} registers"))
    }
}

fn operation(code: &[&str], mut operands: Operands<'_, '_>) -> Result<Operation> {
    let o = &mut operands;
    if let Some(unary) = unary(code) {
        return Ok(Operation::Unary(unary, o.word(0)?, o.word(1)?));
    }
    if let Some(binary) = binary(code) {
        let from = [o.word(1)?, o.word(2)?];
        return Ok(Operation::Binary(binary, o.word(0)?, from));
    }
    if let Some(ternary) = ternary(code) {
        let from = [o.word(1)?, o.word(2)?, o.word(3)?];
        return Ok(Operation::Ternary(ternary, o.word(0)?, from));
    }
    if let Some(binary) = long_binary(code) {
        let from = [o.long(1)?, o.long(2)?];
        return Ok(Operation::LongBinary(binary, o.long(0)?, from));
    }
    if let Some(shift) = long_shift(code) {
        return Ok(Operation::LongShift(
            shift,
            o.long(0)?,
            o.long(1)?,
            o.word(2)?,
        ));
    }
    if let Some(widen) = widening(code) {
        return Ok(Operation::Widen(widen, o.long(0)?, o.word(1)?));
    }
    if let Some(product) = wide_product(code) {
        let from = [o.word(1)?, o.word(2)?];
        return Ok(Operation::WideProduct(product, o.long(0)?, from));
    }
    if let Some(narrow) = narrowing(code) {
        return Ok(Operation::Narrow(narrow, o.word(0)?, o.long(1)?));
    }
    Ok(match code {
        ["mov", "u32" | "b32" | "f32" | "s32"] => Operation::Move(o.word(0)?, o.word(1)?),
        ["mov", "u64" | "b64" | "s64"] => Operation::MoveLong(o.long(0)?, o.long(1)?),
        // Addresses of parameters and of global memory are plain numbers here.
        ["cvta", "to", "global", "u64"] => Operation::MoveLong(o.long(0)?, o.long(1)?),
        ["setp", how, kind] => compare(how, kind, o)?,
        ["and", "pred"] => logic(Logic::And, o)?,
        ["or", "pred"] => logic(Logic::Or, o)?,
        ["mov", "pred"] => match o.predicate(1) {
            Ok(from) => Operation::Logic(Logic::And, o.predicate(0)?, [from, from]),
            Err(_) => Operation::LogicSet(o.predicate(0)?, o.number(1)? != 0),
        },
        ["not", "pred"] => Operation::LogicNot(o.predicate(0)?, o.predicate(1)?),
        ["selp", "b32" | "u32" | "s32" | "f32"] => {
            Operation::Select(o.word(0)?, [o.word(1)?, o.word(2)?], o.predicate(3)?)
        }
        ["selp", "b64" | "u64" | "s64"] => {
            Operation::SelectLong(o.long(0)?, [o.long(1)?, o.long(2)?], o.predicate(3)?)
        }
        ["ld", how @ ..] => Operation::Load(access(how, 1, 0, o)?),
        ["st", how @ ..] => Operation::Store(access(how, 0, 1, o)?),
        ["atom", "global", "add", "u32"] => Operation::AtomicAdd {
            to: o.word(0)?,
            place: o.place(1)?,
            add: o.word(2)?,
        },
        ["shfl", "sync", "bfly", "b32"] => shuffle(o)?,
        ["mma", "sync", "aligned", "m16n8k16", "row", "col", "f32", "bf16", "bf16", "f32"] => {
            Operation::MultiplyTiles {
                d: o.words(0)?,
                a: o.words(1)?,
                b: o.words(2)?,
                c: o.words(3)?,
            }
        }
        ["cp", "async", "cg", "shared", "global"] if o.number(2)? == 16 => Operation::CopyAsync {
            to: o.place(0)?,
            from: o.place(1)?,
            there: o.word(3)?,
        },
        ["cp", "async", "commit_group"] => Operation::CopyCommit,
        ["cp", "async", "wait_group"] => Operation::CopyWait(o.number(0)? as usize),
        ["bar", "sync"] if o.number(0)? == 0 && o.all.len() == 1 => Operation::Barrier,
        ["membar", "gl"] => Operation::Fence,
        ["griddepcontrol", "wait"] => Operation::WaitForKernelBefore,
        ["griddepcontrol", "launch_dependents"] => Operation::LaunchDependents,
        // Labels are found when all are known.
        ["bra"] | ["bra", "uni"] => Operation::Branch(usize::MAX),
        ["ret"] => Operation::Return,
        _ => return Err("this instruction is not known".to_owned()),
    })
}

fn logic(logic: Logic, o: &Operands<'_, '_>) -> Result<Operation> {
    let from = [o.predicate(1)?, o.predicate(2)?];
    Ok(Operation::Logic(logic, o.predicate(0)?, from))
}

fn compare(how: &str, kind: &str, o: &mut Operands<'_, '_>) -> Result<Operation> {
    let (kind, long) = match kind {
        "u32" | "b32" => (Type::U32, false),
        "s32" => (Type::I32, false),
        "f32" => (Type::F32, false),
        "u64" | "b64" => (Type::U64, true),
        "s64" => (Type::I64, true),
        _ => return Err("this type of comparison is not known".to_owned()),
    };
    let relation = relation(how).ok_or("this comparison is not known")?;
    let from = match long {
        true => [o.long(1)?, o.long(2)?],
        false => [o.word(1)?, o.word(2)?],
    };
    Ok(Operation::Compare(kind, relation, o.predicate(0)?, from))
}

/// `shfl.sync.bfly.b32 %r1|%p1, value, lanes, clamp, members`: the predicate says whether the lane is there, and is not used.
fn shuffle(o: &mut Operands<'_, '_>) -> Result<Operation> {
    let to = o.at(0)?.split('|').next().unwrap_or_default();
    Ok(Operation::ShuffleXor {
        to: o.reader.word(to)?,
        value: o.word(1)?,
        lanes: o.word(2)?,
        clamp: o.word(3)?,
        members: o.word(4)?,
    })
}

/// An access whose address and registers are the operands of these numbers.
fn access(
    how: &[&str],
    place: usize,
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
            // Where it is kept on its way changes nothing.
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
        return Err(format!("{} registers for {count} numbers", found.len()));
    }
    let mut registers = [found[0]; 4];
    registers[..count].copy_from_slice(&found);
    Ok(Access {
        // Without a space an address may be of any; what kernels here are called with is of global memory.
        space: space.unwrap_or(Space::Global),
        place: o.place(place)?,
        size: size.ok_or("an access of no type")?,
        registers,
        count,
    })
}

/// Splits at commas that are not in braces.
fn split(operands: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = operands.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

/// `name[208]`.
fn array(text: &str) -> Result<(&str, usize)> {
    let (name, size) = text.split_once('[').ok_or(format!("{text} is no array"))?;
    Ok((name, integer(size.trim_end_matches(']'))? as usize))
}

/// A whole number, negative ones as their two's complement.
fn integer(text: &str) -> Result<u64> {
    let text = text.trim_end_matches('U');
    let wrong = |_| format!("{text} is no number");
    match (text.strip_prefix("0x"), text.strip_prefix('-')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).map_err(wrong),
        (None, Some(digits)) => {
            let value = digits.parse::<u64>().map_err(wrong)?;
            Ok(value.wrapping_neg())
        }
        (None, None) => text.parse().map_err(wrong),
    }
}
