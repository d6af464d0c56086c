//! A machine for pickles that knows dictionaries of tensors and nothing else.
//!
//! Nothing is looked up by name, imported or called: each function that a pickle may name is one of
//! [`Known`], and any other is refused by its name. Memory is bounded by the length of the pickle:
//! values are shared, not copied, and nest no deeper than [`MAX_DEPTH`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;

use super::opcode::{Op, Ops};

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
pub(super) enum Element {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
}

impl Element {
    /// Bytes of one.
    pub(super) fn width(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I64 => "I64",
            Self::I32 => "I32",
            Self::I16 => "I16",
            Self::I8 => "I8",
            Self::U8 => "U8",
            Self::Bool => "BOOL",
        })
    }
}

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
        let element = |element| Ok(Self::StorageOf(element));
        match (module, name) {
            ("collections", "OrderedDict") => Ok(Self::OrderedDict),
            ("torch", "Size") => Ok(Self::Size),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Ok(Self::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Ok(Self::RebuildParameter),
            ("torch", "DoubleStorage") => element(Element::F64),
            ("torch", "FloatStorage") => element(Element::F32),
            ("torch", "HalfStorage") => element(Element::F16),
            ("torch", "BFloat16Storage") => element(Element::BF16),
            ("torch", "LongStorage") => element(Element::I64),
            ("torch", "IntStorage") => element(Element::I32),
            ("torch", "ShortStorage") => element(Element::I16),
            ("torch", "CharStorage") => element(Element::I8),
            ("torch", "ByteStorage") => element(Element::U8),
            ("torch", "BoolStorage") => element(Element::Bool),
            _ => Err(format!("it asks for {}.{}", short(module), short(name))),
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
    let mut machine = Machine::default();
    let mut ops = Ops::new(pickle);
    while !machine.step(ops.next()?)? {}
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

#[derive(Default)]
struct Machine<'a> {
    stack: Vec<Value<'a>>,
    memo: HashMap<u32, Value<'a>>,
    dicts: Vec<Dict<'a>>,
}

impl<'a> Machine<'a> {
    /// Follows an instruction; true if it is the last.
    fn step(&mut self, op: Op<'a>) -> Result<bool, String> {
        match op {
            Op::Protocol(2..=5) | Op::Frame => {}
            Op::Protocol(version) => return Err(format!("it is of protocol {version}")),
            Op::Stop => return Ok(true),
            Op::Mark => self.push(Value::Mark)?,
            Op::None => self.push(Value::None)?,
            Op::Bool(_) => self.push(Value::Bool)?,
            Op::Int(n) => self.push(Value::Int(n))?,
            Op::Float => self.push(Value::Float)?,
            Op::Text(text) => self.push(Value::Text(text))?,
            Op::Global(module, name) => self.push(Value::Known(Known::find(module, name)?))?,
            Op::StackGlobal => self.stack_global()?,
            Op::EmptyTuple => self.push_tuple(Vec::new())?,
            Op::Tuple => self
                .pop_to_mark()
                .and_then(|items| self.push_tuple(items))?,
            Op::TupleOf(count) => self
                .pop_many(count)
                .and_then(|items| self.push_tuple(items))?,
            Op::EmptyList => self.push(Value::List)?,
            Op::Append => _ = self.pop()?,
            Op::Appends => _ = self.pop_to_mark()?,
            Op::EmptyDict => self.push_dict()?,
            Op::SetItem => self.pop_many(2).and_then(|pair| self.set_items(&pair))?,
            Op::SetItems => self
                .pop_to_mark()
                .and_then(|items| self.set_items(&items))?,
            Op::Put(id) => self.remember(id)?,
            Op::Memoize => self.remember(self.memo.len() as u32)?,
            Op::Get(id) => self.recall(id)?,
            Op::PersistentId => {
                let id = self.pop()?;
                self.push(Value::Storage(Rc::new(storage(&id)?)))?;
            }
            Op::Reduce => self.reduce()?,
            Op::Build => self.build()?,
        }
        Ok(false)
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

    fn remember(&mut self, id: u32) -> Result<(), String> {
        let top = self.stack.last().cloned();
        self.memo.insert(id, top.ok_or("its stack is empty")?);
        Ok(())
    }

    fn recall(&mut self, id: u32) -> Result<(), String> {
        let value = self.memo.get(&id).cloned();
        self.push(value.ok_or_else(|| format!("it recalls {id}, which it never kept"))?)
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
        [Value::Text("storage"), Value::Known(Known::StorageOf(element)), Value::Text(key), _, elements]
            if key.len() <= MAX_KEY =>
        {
            Ok(Storage {
                element: *element,
                key: (*key).to_owned(),
                elements: elements.count("the length of a storage")?,
            })
        }
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
