//! A machine for pickles that knows dictionaries of tensors and nothing else.
//!
//! Nothing is looked up by name, imported or called: each function that a pickle may name is one of
//! [`Known`], and any other is refused by its name. Memory is bounded by the length of the pickle:
//! values are shared, not copied, and nest no deeper than [`MAX_DEPTH`].

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Values that the stack may hold; pickles are written in batches of a thousand.
const MAX_STACK: usize = 1 << 20;
/// How deep tuples may nest: two are what tensors need.
const MAX_DEPTH: usize = 8;
/// More dimensions than weights have.
const MAX_RANK: usize = 8;
/// Storages are numbered.
const MAX_KEY: usize = 64;

/// A tensor as a pickle describes it. Not checked against its storage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PickledTensor {
    pub(super) storage: Rc<Storage>,
    /// All counted in elements.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// A storage as a pickle describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Storage {
    pub(super) element: Element,
    pub(super) key: String,
    pub(super) elements: usize,
}

/// The type of the elements of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// What safetensors calls it.
    pub(super) name: &'static str,
    /// Bytes of one.
    pub(super) width: usize,
}

/// The types of storages, by their class in torch.
const STORAGES: [(&str, &str, usize); 10] = [
    ("DoubleStorage", "F64", 8),
    ("FloatStorage", "F32", 4),
    ("HalfStorage", "F16", 2),
    ("BFloat16Storage", "BF16", 2),
    ("LongStorage", "I64", 8),
    ("IntStorage", "I32", 4),
    ("ShortStorage", "I16", 2),
    ("CharStorage", "I8", 1),
    ("ByteStorage", "U8", 1),
    ("BoolStorage", "BOOL", 1),
];

/// What a pickle may name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    OrderedDict,
    Size,
    RebuildTensor,
    RebuildParameter,
    StorageOf(Element),
}

impl Known {
    fn find(module: &str, name: &str) -> Result<Self, String> {
        match (module, name) {
            ("collections", "OrderedDict") => return Ok(Self::OrderedDict),
            ("torch", "Size") => return Ok(Self::Size),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => {
                return Ok(Self::RebuildTensor);
            }
            ("torch._utils", "_rebuild_parameter") => return Ok(Self::RebuildParameter),
            _ => {}
        }
        let mut storages = STORAGES.iter();
        match storages.find(|(class, ..)| module == "torch" && name == *class) {
            Some(&(_, name, width)) => Ok(Self::StorageOf(Element { name, width })),
            None => Err(format!("it asks for {}.{}", short(module), short(name))),
        }
    }
}

/// A value of the machine. Clones share what is behind it.
#[derive(Clone)]
enum Value<'a> {
    None,
    Bool,
    Int(i64),
    Float,
    Text(&'a str),
    Tuple(Rc<Tuple<'a>>),
    List,
    /// The place of the dictionary among the machine's dictionaries.
    Dict(usize),
    Known(Known),
    Storage(Rc<Storage>),
    Tensor(Rc<PickledTensor>),
    Mark,
}

struct Tuple<'a> {
    items: Vec<Value<'a>>,
    depth: usize,
}

impl Value<'_> {
    /// What it is, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool => "a bool",
            Self::Int(_) => "a number",
            Self::Float => "a float",
            Self::Text(_) => "a text",
            Self::Tuple(_) => "a tuple",
            Self::List => "a list",
            Self::Dict(_) => "a dictionary",
            Self::Known(_) => "a function",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) => "a tensor",
            Self::Mark => "a mark",
        }
    }

    fn depth(&self) -> usize {
        match self {
            Self::Tuple(tuple) => tuple.depth,
            _ => 0,
        }
    }

    fn tuple(&self, what: &str) -> Result<&[Self], String> {
        match self {
            Self::Tuple(tuple) => Ok(&tuple.items),
            other => Err(format!("{what} are {}", other.kind())),
        }
    }

    fn count(&self, what: &str) -> Result<usize, String> {
        match self {
            Self::Int(n) => usize::try_from(*n).map_err(|_| format!("{what} is {n}")),
            other => Err(format!("{what} is {}", other.kind())),
        }
    }

    fn counts(&self, what: &str) -> Result<Vec<usize>, String> {
        let items = self.tuple(what)?;
        if items.len() > MAX_RANK {
            return Err(format!("{what} are {}, more than {MAX_RANK}", items.len()));
        }
        items.iter().map(|item| item.count(what)).collect()
    }
}

/// What a dictionary holds: tensors, and the kind of everything else.
#[derive(Default)]
struct Dict<'a> {
    tensors: BTreeMap<&'a str, Rc<PickledTensor>>,
    other: Option<String>,
}

/// The tensors of the dictionary that a pickle is.
pub(super) fn state_dict(pickle: &[u8]) -> Result<BTreeMap<String, PickledTensor>, String> {
    let mut machine = Machine {
        rest: pickle,
        stack: Vec::new(),
        memo: HashMap::new(),
        dicts: Vec::new(),
    };
    while !machine.step()? {}
    let index = match machine.pop()? {
        Value::Dict(index) => index,
        other => return Err(format!("it is {}", other.kind())),
    };
    let dict = std::mem::take(&mut machine.dicts[index]);
    if let Some(other) = dict.other {
        return Err(other);
    }
    let tensors = dict.tensors.into_iter();
    Ok(tensors
        .map(|(name, tensor)| (name.to_owned(), (*tensor).clone()))
        .collect())
}

/// A machine that follows the instructions that `torch.save` writes, protocols 2 to 5.
struct Machine<'a> {
    /// The bytes of the pickle that were not read so far.
    rest: &'a [u8],
    stack: Vec<Value<'a>>,
    memo: HashMap<u32, Value<'a>>,
    dicts: Vec<Dict<'a>>,
}

impl<'a> Machine<'a> {
    /// Follows an instruction; true if it is the last.
    fn step(&mut self) -> Result<bool, String> {
        match self.byte()? {
            0x80 => self.protocol()?,
            // A frame, whose length says nothing new.
            0x95 => _ = self.take(8)?,
            b'.' => return Ok(true),
            b'(' => self.push(Value::Mark)?,
            // GLOBAL: a module and a name in it; then the same from the stack.
            b'c' => {
                let known = Known::find(self.line()?, self.line()?)?;
                self.push(Value::Known(known))?;
            }
            0x93 => self.stack_global()?,
            // Tuples: empty, of what is above the mark, of one to three.
            b')' => self.push_tuple(Vec::new())?,
            b't' => self
                .pop_to_mark()
                .and_then(|items| self.push_tuple(items))?,
            code @ 0x85..=0x87 => self
                .pop_many(usize::from(code - 0x84))
                .and_then(|items| self.push_tuple(items))?,
            // Lists, whose items nobody asks for.
            b']' => self.push(Value::List)?,
            b'a' => _ = self.pop()?,
            b'e' => _ = self.pop_to_mark()?,
            // Dictionaries, and one or several items for them.
            b'}' => self.push_dict()?,
            b's' => self.pop_many(2).and_then(|pair| self.set_items(&pair))?,
            b'u' => self
                .pop_to_mark()
                .and_then(|items| self.set_items(&items))?,
            // BINPERSID: a storage.
            b'Q' => {
                let id = self.pop()?;
                self.push(Value::Storage(Rc::new(storage(&id)?)))?;
            }
            b'R' => self.reduce()?,
            b'b' => self.build()?,
            code @ (0x94 | b'q' | b'r' | b'h' | b'j') => self.follow_memo(code)?,
            code => {
                let value = self.constant(code)?;
                self.push(value)?;
            }
        }
        Ok(false)
    }

    fn protocol(&mut self) -> Result<(), String> {
        match self.byte()? {
            2..=5 => Ok(()),
            version => Err(format!("it is of protocol {version}")),
        }
    }

    /// The constant that an instruction of `code` gives.
    fn constant(&mut self, code: u8) -> Result<Value<'a>, String> {
        Ok(match code {
            b'N' => Value::None,
            0x88 | 0x89 => Value::Bool,
            b'K' => Value::Int(self.byte()?.into()),
            b'M' => Value::Int(u16::from_le_bytes(self.array()?).into()),
            b'J' => Value::Int(i32::from_le_bytes(self.array()?).into()),
            0x8a => Value::Int(self.long()?),
            b'G' => {
                self.take(8)?;
                Value::Float
            }
            b'X' => {
                let length = u32::from_le_bytes(self.array()?);
                Value::Text(self.text(length.into())?)
            }
            0x8c => {
                let length = self.byte()?;
                Value::Text(self.text(length.into())?)
            }
            0x8d => {
                let length = u64::from_le_bytes(self.array()?);
                Value::Text(self.text(length)?)
            }
            other => return Err(format!("it has the instruction {other:#04x}")),
        })
    }

    /// Remembers the top of the stack under a number, or recalls what was.
    fn follow_memo(&mut self, code: u8) -> Result<(), String> {
        let id = match code {
            // MEMOIZE: the next number.
            0x94 => self.memo.len() as u32,
            b'q' | b'h' => self.byte()?.into(),
            _ => u32::from_le_bytes(self.array()?),
        };
        if matches!(code, b'h' | b'j') {
            let value = self.memo.get(&id).cloned();
            return self
                .push(value.ok_or_else(|| format!("it recalls {id}, which it never kept"))?);
        }
        let top = self.stack.last().cloned();
        self.memo.insert(id, top.ok_or("its stack is empty")?);
        Ok(())
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

    fn push(&mut self, value: Value<'a>) -> Result<(), String> {
        if self.stack.len() >= MAX_STACK {
            return Err(format!("it stacks more than {MAX_STACK} values"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn push_tuple(&mut self, items: Vec<Value<'a>>) -> Result<(), String> {
        let depth = 1 + items.iter().map(Value::depth).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(format!("it nests more than {MAX_DEPTH} tuples"));
        }
        self.push(Value::Tuple(Rc::new(Tuple { items, depth })))
    }

    fn push_dict(&mut self) -> Result<(), String> {
        self.dicts.push(Dict::default());
        self.push(Value::Dict(self.dicts.len() - 1))
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        match self.stack.pop() {
            None | Some(Value::Mark) => Err("its stack is empty".to_owned()),
            Some(value) => Ok(value),
        }
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Value<'a>>, String> {
        let mut items = (0..count)
            .map(|_| self.pop())
            .collect::<Result<Vec<_>, _>>()?;
        items.reverse();
        Ok(items)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value<'a>>, String> {
        let is_mark = |value: &Value| matches!(value, Value::Mark);
        let mark = self
            .stack
            .iter()
            .rposition(is_mark)
            .ok_or("it has no mark where it needs one")?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn stack_global(&mut self) -> Result<(), String> {
        let [module, name] = &self.pop_many(2)?[..] else {
            return Err("its stack is empty".to_owned());
        };
        match (module, name) {
            (Value::Text(module), Value::Text(name)) => {
                self.push(Value::Known(Known::find(module, name)?))
            }
            _ => Err(format!("it asks for {} by name", name.kind())),
        }
    }

    /// Puts pairs into the dictionary on top of the stack.
    fn set_items(&mut self, items: &[Value<'a>]) -> Result<(), String> {
        let dict = match self.stack.last() {
            Some(Value::Dict(index)) => &mut self.dicts[*index],
            Some(other) => return Err(format!("it puts items into {}", other.kind())),
            None => return Err("its stack is empty".to_owned()),
        };
        if !items.len().is_multiple_of(2) {
            return Err("a key has no value".to_owned());
        }
        for pair in items.chunks_exact(2) {
            match (&pair[0], &pair[1]) {
                (Value::Text(name), Value::Tensor(tensor)) => {
                    if dict.tensors.insert(name, Rc::clone(tensor)).is_some() {
                        return Err(format!("it has two tensors {}", short(name)));
                    }
                }
                (Value::Text(name), other) => {
                    let found = || format!("its entry {:?} is {}", short(name), other.kind());
                    dict.other.get_or_insert_with(found);
                }
                (key, _) => {
                    let found = || format!("one of its keys is {}", key.kind());
                    dict.other.get_or_insert_with(found);
                }
            }
        }
        Ok(())
    }

    /// Calls what may be called.
    fn reduce(&mut self) -> Result<(), String> {
        let [function, arguments] = &self.pop_many(2)?[..] else {
            return Err("its stack is empty".to_owned());
        };
        let Value::Known(known) = function else {
            return Err(format!("it calls {}", function.kind()));
        };
        match known {
            // Its items follow.
            Known::OrderedDict if arguments.tuple("arguments")?.is_empty() => self.push_dict(),
            Known::Size => match arguments.tuple("arguments")? {
                [sizes @ Value::Tuple(_)] => self.push(sizes.clone()),
                _ => Err("it calls torch.Size with something else than a tuple".to_owned()),
            },
            Known::RebuildTensor => self.push(Value::Tensor(Rc::new(tensor(arguments)?))),
            Known::RebuildParameter => match arguments.tuple("arguments")? {
                [tensor @ Value::Tensor(_), ..] => self.push(tensor.clone()),
                _ => Err("a parameter in it is not a tensor".to_owned()),
            },
            other => Err(format!("it calls {other:?}")),
        }
    }

    /// Gives attributes to an object: PyTorch's dictionaries carry versions of their modules.
    fn build(&mut self) -> Result<(), String> {
        self.pop()?;
        match self.stack.last() {
            Some(Value::Dict(_)) => Ok(()),
            Some(other) => Err(format!("it gives attributes to {}", other.kind())),
            None => Err("its stack is empty".to_owned()),
        }
    }
}

/// The beginning of a name, as much of it as fits into a message.
fn short(name: &str) -> String {
    const LONGEST: usize = 100;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// `("storage", type, key, device, number of elements)`.
fn storage(id: &Value<'_>) -> Result<Storage, String> {
    match id.tuple("a storage's place and type")? {
        [
            Value::Text("storage"),
            Value::Known(Known::StorageOf(element)),
            Value::Text(key),
            _,
            elements,
        ] if key.len() <= MAX_KEY => Ok(Storage {
            element: *element,
            key: (*key).to_owned(),
            elements: elements.count("the length of a storage")?,
        }),
        _ => Err("it describes a storage in a way that torch does not".to_owned()),
    }
}

/// `(storage, offset, sizes, strides, …)`.
fn tensor(arguments: &Value<'_>) -> Result<PickledTensor, String> {
    match arguments.tuple("the arguments of a tensor")? {
        [Value::Storage(storage), offset, shape, strides, ..] => {
            let tensor = PickledTensor {
                storage: Rc::clone(storage),
                offset: offset.count("the offset of a tensor")?,
                shape: shape.counts("the sizes of a tensor")?,
                strides: strides.counts("the strides of a tensor")?,
            };
            if tensor.shape.len() == tensor.strides.len() {
                Ok(tensor)
            } else {
                Err(format!(
                    "a tensor has sizes {:?} and strides {:?}",
                    tensor.shape, tensor.strides
                ))
            }
        }
        _ => Err("it describes a tensor in a way that torch does not".to_owned()),
    }
}
