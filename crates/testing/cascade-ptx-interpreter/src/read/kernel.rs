//! A kernel, line by line.

use rustc_hash::FxHashMap;

use super::operands::Operands;
use super::operation::operation;
use super::text::{array, integer};
use super::Result;
use crate::instruction::{Address, Instruction, Kernel, Operation, Register, Slot, Special};

/// Reads the lines of a kernel.
pub(super) struct KernelReader {
    name: String,
    kernel: Kernel,
    registers: FxHashMap<String, Declared>,
    /// Offsets in shared memory.
    symbols: FxHashMap<String, u64>,
    parameter: Option<String>,
    /// Braces that are open.
    depth: usize,
    labels: FxHashMap<String, usize>,
    /// Instructions that branch to a label.
    branches: Vec<(usize, String)>,
    /// Registers of constants.
    word_constants: FxHashMap<u32, Slot>,
    long_constants: FxHashMap<u64, Slot>,
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
    pub(super) fn new(name: String) -> Self {
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
            depth: 0,
            labels: FxHashMap::default(),
            branches: Vec::new(),
            word_constants: FxHashMap::default(),
            long_constants: FxHashMap::default(),
        }
    }

    pub(super) fn finish(&mut self) -> Result<(String, Kernel)> {
        for (instruction, label) in std::mem::take(&mut self.branches) {
            let &target = self
                .labels
                .get(&label)
                .ok_or_else(|| format!("there is no label {label}"))?;
            self.kernel.instructions[instruction].operation = Operation::Branch(target);
        }
        let count = self.kernel.instructions.len();
        if self.labels.values().any(|&target| target >= count) {
            return Err("a label at the end".to_owned());
        }
        for (&value, &slot) in &self.word_constants {
            self.kernel.constant_words.push((slot, value));
        }
        for (&value, &slot) in &self.long_constants {
            self.kernel.constant_longs.push((slot, value));
        }
        let empty = Self::new(String::new()).kernel;
        Ok((
            std::mem::take(&mut self.name),
            std::mem::replace(&mut self.kernel, empty),
        ))
    }

    /// Whether the next brace that closes ends the kernel.
    pub(super) fn in_outer_braces(&self) -> bool {
        self.depth <= 1
    }

    pub(super) fn statement(&mut self, line: &str, number: usize) -> Result<()> {
        if let Some(label) = line.strip_suffix(':') {
            self.labels
                .insert(label.to_owned(), self.kernel.instructions.len());
            return Ok(());
        }
        match line.chars().next() {
            Some('{') => {
                self.depth += 1;
                Ok(())
            }
            Some('}') => {
                self.depth -= 1;
                Ok(())
            }
            None | Some(')') => Ok(()),
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
            ".param" => self.parameter(last),
            ".shared" => self.share(line, last),
            ".maxntid" => self.limit_threads(&line[first.len()..]),
            ".minnctapersm" | ".pragma" => Ok(()),
            _ => Err("this directive is not known".to_owned()),
        }
    }

    /// `.param .align 8 .b8 name[208]`
    fn parameter(&mut self, last: &str) -> Result<()> {
        let (name, bytes) = array(last)?;
        if self.parameter.replace(name.to_owned()).is_some() {
            return Err("more than one parameter".to_owned());
        }
        self.kernel.parameters = bytes;
        Ok(())
    }

    /// `.maxntid 256, 1, 1`
    fn limit_threads(&mut self, sizes: &str) -> Result<()> {
        let sizes = sizes
            .split(',')
            .map(|size| integer(size.trim()))
            .collect::<Result<Vec<_>>>()?;
        self.kernel.max_threads = sizes.iter().product::<u64>() as u32;
        Ok(())
    }

    /// `.reg .b32 %r<9>;`, or `.reg .pred there<1>;` in inner braces, which may declare what others
    /// have declared: nothing passes from one of them to another, so that they share it.
    fn declare(&mut self, kind: &str, names: &str) -> Result<()> {
        let (prefix, count) = names.split_once('<').ok_or("registers without a count")?;
        let count = integer(count.trim_end_matches('>'))? as usize;
        if let Some(known) = self.registers.get(prefix) {
            let same =
                known.count == count && (kind == ".pred") == (known.class == Class::Predicate);
            return if self.depth > 1 && same {
                Ok(())
            } else {
                Err(format!("{prefix} is declared already"))
            };
        }
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
        let (name, bytes) = if last.contains('[') {
            array(last)?
        } else {
            (last, 4)
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
        let operation = operation(&code, &mut Operands::new(self, rest))?;
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

    /// A register that is declared, and its class.
    fn find(&self, name: &str) -> Option<(Class, Slot)> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(name.len() - digits);
        let declared = self.registers.get(prefix)?;
        let number = number.parse::<usize>().ok()?;
        let slot = |number| (declared.first + number) as Slot;
        (number < declared.count).then(|| (declared.class, slot(number)))
    }

    fn register(&self, name: &str, class: Class) -> Result<Slot> {
        match self.find(name) {
            Some((found, slot)) if found == class => Ok(slot),
            Some(_) => Err(format!("{name} is not a register of that size")),
            None => Err(format!("{name} is not declared")),
        }
    }

    pub(super) fn predicate(&self, name: &str) -> Result<Slot> {
        self.register(name, Class::Predicate)
    }

    /// The register that holds a constant.
    fn word_constant(&mut self, value: u32) -> Slot {
        let next = self.kernel.words;
        let slot = *self.word_constants.entry(value).or_insert(next as Slot);
        self.kernel.words += usize::from(usize::from(slot) == next);
        slot
    }

    fn long_constant(&mut self, value: u64) -> Slot {
        let next = self.kernel.longs;
        let slot = *self.long_constants.entry(value).or_insert(next as Slot);
        self.kernel.longs += usize::from(usize::from(slot) == next);
        slot
    }

    pub(super) fn word(&mut self, operand: &str) -> Result<Slot> {
        if operand.starts_with('%') {
            return match self.find(operand) {
                Some((Class::Word, slot)) => Ok(slot),
                _ => self.special(operand),
            };
        }
        let value = match (operand.strip_prefix("0f"), self.symbols.get(operand)) {
            (Some(bits), _) => u32::from_str_radix(bits, 16).map_err(|error| error.to_string())?,
            (None, Some(&offset)) => offset as u32,
            (None, None) => integer(operand)? as u32,
        };
        Ok(self.word_constant(value))
    }

    pub(super) fn long(&mut self, operand: &str) -> Result<Slot> {
        if operand.starts_with('%') {
            return self.register(operand, Class::Long);
        }
        let value = if self.parameter.as_deref() == Some(operand) {
            0
        } else {
            integer(operand)?
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

    pub(super) fn either(&mut self, operand: &str) -> Result<Register> {
        match self.find(operand) {
            Some((Class::Long, slot)) => Ok(Register::Long(slot)),
            _ => self.word(operand).map(Register::Word),
        }
    }

    /// `[%rd1+16]`, `[name+16]`, `[%r1]`.
    pub(super) fn address(&mut self, operand: &str) -> Result<Address> {
        let inner = operand
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .ok_or_else(|| format!("{operand} is not an address"))?;
        let (base, offset) = match inner.split_once('+') {
            Some((base, offset)) => (base, integer(offset)? as i64),
            None => (inner, 0),
        };
        let base = if self.parameter.as_deref() == Some(base) {
            Register::Long(self.long_constant(0))
        } else {
            self.either(base)?
        };
        Ok(Address { base, offset })
    }
}
