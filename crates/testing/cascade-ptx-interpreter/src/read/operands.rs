//! Operands of an instruction.

use super::kernel::KernelReader;
use super::text::{integer, split};
use super::Result;
use crate::instruction::{Address, Register, Slot};

/// Operands of an instruction, by index.
pub(super) struct Operands<'a, 'b> {
    reader: &'a mut KernelReader,
    all: Vec<&'b str>,
}

impl<'a, 'b> Operands<'a, 'b> {
    pub(super) fn new(reader: &'a mut KernelReader, text: &'b str) -> Self {
        let all = split(text);
        Self { reader, all }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// A register that is part of an operand.
    pub(super) fn word_named(&mut self, name: &str) -> Result<Slot> {
        self.reader.word(name)
    }

    pub(super) fn at(&self, index: usize) -> Result<&'b str> {
        let operand = self.all.get(index).copied();
        operand.ok_or_else(|| format!("operand {index} is missing"))
    }

    pub(super) fn word(&mut self, index: usize) -> Result<Slot> {
        let operand = self.at(index)?;
        self.reader.word(operand)
    }

    pub(super) fn long(&mut self, index: usize) -> Result<Slot> {
        let operand = self.at(index)?;
        self.reader.long(operand)
    }

    pub(super) fn predicate(&self, index: usize) -> Result<Slot> {
        self.reader.predicate(self.at(index)?)
    }

    pub(super) fn address(&mut self, index: usize) -> Result<Address> {
        let operand = self.at(index)?;
        self.reader.address(operand)
    }

    pub(super) fn integer(&self, index: usize) -> Result<u64> {
        integer(self.at(index)?)
    }

    /// `{%r1, %r2}` or `%r1`.
    pub(super) fn vector(&mut self, index: usize) -> Result<Vec<Register>> {
        let operand = self.at(index)?.trim_matches(['{', '}']);
        let registers = operand
            .split(',')
            .map(|name| self.reader.either(name.trim()));
        registers.collect()
    }

    pub(super) fn words<const N: usize>(&mut self, index: usize) -> Result<[Slot; N]> {
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
