//! How large a value is, counted as often as it is reached.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use crate::limits::{make_items, read, refused, work};
use crate::namespace::{Namespace, is_loop, may_be_held};

/// Levels of lists and mappings within one another: more than JSON has.
const DEEPEST: usize = 200;

/// Bytes of the texts within one value.
const LARGEST: usize = 64 << 20;

/// What walking over a value finds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weight {
    /// Values, the value itself included.
    pub(crate) nodes: usize,
    /// Bytes of texts.
    pub(crate) text: usize,
}

/// Walks over a value, which is charged, so that whatever walks over it afterwards is paid for.
///
/// # Errors
/// If it is nested too deep, holds too much text, or holds a namespace or a `loop`, which could
/// hold it in turn.
pub(crate) fn weigh(value: &Value) -> Result<Weight, Error> {
    let mut weight = Weight::default();
    match value.downcast_object_ref::<Namespace>() {
        Some(namespace) => {
            for value in namespace.values() {
                weight.add(&value, 1)?;
            }
        }
        None if is_loop(value) => work(1)?,
        None => weight.add(value, 0)?,
    }
    Ok(weight)
}

impl Weight {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.nodes += 1;
        let Some(object) = value.as_object() else {
            let bytes = value.as_str().map_or(0, str::len);
            self.text += bytes;
            if self.text > LARGEST {
                let mib = LARGEST >> 20;
                return Err(refused(format!(
                    "a value holds more than {mib} MiB of text"
                )));
            }
            return read(bytes);
        };
        work(1)?;
        if depth >= DEEPEST {
            return Err(refused(format!("values nest more than {DEEPEST} deep")));
        }
        may_be_held(value)?;
        match value.kind() {
            ValueKind::Map => {
                for (key, value) in object.try_iter_pairs().into_iter().flatten() {
                    self.add(&key, depth + 1)?;
                    self.add(&value, depth + 1)?;
                }
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for value in object.try_iter().into_iter().flatten() {
                    self.add(&value, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// How many items an iteration over a value has; 0 if it has none.
pub(crate) fn items(value: &Value) -> usize {
    match value.as_object() {
        Some(object) => object.enumerator_len().unwrap_or(0),
        None => value.as_str().map_or(0, str::len),
    }
}

/// A view of other values as a list of its own, so that views of views do not pile up.
pub(crate) fn settled(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    make_items(items(&value))?;
    let mut list = Vec::new();
    for item in value.try_iter()? {
        if list.len() >= items(&value) {
            make_items(1)?;
        }
        list.push(item);
    }
    Ok(Value::from(list))
}
