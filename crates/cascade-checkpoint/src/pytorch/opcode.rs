//! The instructions of pickles that `torch.save` writes, protocols 2 to 5.

/// One instruction, with its operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op<'a> {
    Protocol(u8),
    /// Begins a frame, whose length says nothing new.
    Frame,
    Mark,
    Stop,
    None,
    Bool(bool),
    Int(i64),
    Float,
    Text(&'a str),
    /// A module and a name in it.
    Global(&'a str, &'a str),
    /// A global whose module and name are on the stack.
    StackGlobal,
    EmptyTuple,
    /// A tuple of what is above the mark.
    Tuple,
    /// A tuple of so many.
    TupleOf(usize),
    EmptyList,
    Append,
    Appends,
    EmptyDict,
    SetItem,
    SetItems,
    /// Remembers the top of the stack under a number.
    Put(u32),
    /// Remembers it under the next number.
    Memoize,
    Get(u32),
    PersistentId,
    Reduce,
    Build,
}

/// The instruction of a code that has no operand.
fn bare(code: u8) -> Option<Op<'static>> {
    Some(match code {
        b'(' => Op::Mark,
        b'.' => Op::Stop,
        b'N' => Op::None,
        0x88 => Op::Bool(true),
        0x89 => Op::Bool(false),
        0x93 => Op::StackGlobal,
        b')' => Op::EmptyTuple,
        b't' => Op::Tuple,
        0x85..=0x87 => Op::TupleOf(usize::from(code - 0x84)),
        b']' => Op::EmptyList,
        b'a' => Op::Append,
        b'e' => Op::Appends,
        b'}' => Op::EmptyDict,
        b's' => Op::SetItem,
        b'u' => Op::SetItems,
        0x94 => Op::Memoize,
        b'Q' => Op::PersistentId,
        b'R' => Op::Reduce,
        b'b' => Op::Build,
        _ => return None,
    })
}

/// The bytes of a pickle that were not read so far.
pub(super) struct Ops<'a> {
    rest: &'a [u8],
}

impl<'a> Ops<'a> {
    pub(super) fn new(pickle: &'a [u8]) -> Self {
        Self { rest: pickle }
    }

    /// The next instruction.
    pub(super) fn next(&mut self) -> Result<Op<'a>, String> {
        let code = self.byte()?;
        if let Some(op) = bare(code) {
            return Ok(op);
        }
        Ok(match code {
            0x80 => Op::Protocol(self.byte()?),
            0x95 => {
                self.take(8)?;
                Op::Frame
            }
            b'K' => Op::Int(self.byte()?.into()),
            b'M' => Op::Int(u16::from_le_bytes(self.array()?).into()),
            b'J' => Op::Int(i32::from_le_bytes(self.array()?).into()),
            0x8a => Op::Int(self.long()?),
            b'G' => {
                self.take(8)?;
                Op::Float
            }
            b'X' => {
                let length = u32::from_le_bytes(self.array()?);
                Op::Text(self.text(length.into())?)
            }
            0x8c => {
                let length = self.byte()?;
                Op::Text(self.text(length.into())?)
            }
            0x8d => {
                let length = u64::from_le_bytes(self.array()?);
                Op::Text(self.text(length)?)
            }
            b'c' => Op::Global(self.line()?, self.line()?),
            b'q' => Op::Put(self.byte()?.into()),
            b'r' => Op::Put(u32::from_le_bytes(self.array()?)),
            b'h' => Op::Get(self.byte()?.into()),
            b'j' => Op::Get(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("it has the instruction {other:#04x}")),
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let cut = || "it ends in the middle of an instruction".to_owned();
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn text(&mut self, length: u64) -> Result<&'a str, String> {
        let bytes = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        std::str::from_utf8(bytes).map_err(|_| "a text in it is not UTF-8".to_owned())
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let line = self.take(end.unwrap_or(usize::MAX - 1) + 1)?;
        let line = std::str::from_utf8(&line[..line.len() - 1]);
        line.map_err(|_| "a name in it is not UTF-8".to_owned())
    }

    /// A number of up to 8 bytes, in two's complement.
    fn long(&mut self) -> Result<i64, String> {
        let length = usize::from(self.byte()?);
        let bytes = self.take(length)?;
        if length > 8 {
            return Err(format!("it has a number of {length} bytes"));
        }
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut all = [if negative { 0xff } else { 0 }; 8];
        all[..length].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(all))
    }
}
