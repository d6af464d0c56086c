//! Lists that a template writes out, in templates that let them grow: Jinja's lists are Python's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Error;
use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, Value, ValueKind, from_args};

use crate::limits::{make_items, refused, work};
use crate::weight::weigh;

/// Methods that change a list.
const CHANGES: [&str; 3] = ["append", "extend", "pop"];

/// A list that can be changed. What is put into it later is copied, so that no list comes to hold
/// itself: such a ring could be neither printed nor freed.
#[derive(Debug)]
pub(crate) struct Growing(Mutex<Vec<Value>>);

/// Whether a template has a method that changes a list.
pub(crate) fn grows(source: &str) -> bool {
    CHANGES
        .iter()
        .any(|name| source.contains(&format!(".{name}(")))
}

/// A list that was written out as one that can be changed, and anything else as it is.
pub(crate) fn growing(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Seq || value.is_tuple() {
        return Ok(value);
    }
    let items = value.try_iter()?.collect();
    Ok(Value::from_object(Growing(Mutex::new(items))))
}

/// What a method returns that changes a list, if it is one.
pub(crate) fn changed(value: &Value, name: &str, given: &[Value]) -> Result<Option<Value>, Error> {
    if value.kind() != ValueKind::Seq || !CHANGES.contains(&name) {
        return Ok(None);
    }
    let list: &Growing = value.downcast_object_ref().ok_or_else(|| {
        refused(format!(
            "{name}: only a list that the template writes can change"
        ))
    })?;
    let none = Value::from(());
    Ok(Some(match name {
        "append" => {
            let (item,): (&Value,) = from_args(given)?;
            let item = copied(item)?;
            list.items().push(item);
            none
        }
        "extend" => {
            let (items,): (&Value,) = from_args(given)?;
            let items: Vec<Value> = copied(items)?.try_iter()?.collect();
            list.items().extend(items);
            none
        }
        _ => {
            let (at,): (Option<i64>,) = from_args(given)?;
            list.pop(at.unwrap_or(-1))?
        }
    }))
}

/// A value without lists that can be changed, however deep.
fn copied(value: &Value) -> Result<Value, Error> {
    make_items(weigh(value)?.nodes)?;
    Ok(plain(value))
}

fn plain(value: &Value) -> Value {
    let Some(object) = value.as_object() else {
        return value.clone();
    };
    match value.kind() {
        ValueKind::Map => {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            pairs.map(|(key, value)| (key, plain(&value))).collect()
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = object.try_iter().into_iter().flatten();
            let items: Vec<Value> = items.map(|item| plain(&item)).collect();
            if value.is_tuple() {
                Value::from(Tuple::from(items))
            } else {
                Value::from(items)
            }
        }
        _ => value.clone(),
    }
}

impl Growing {
    /// Takes out the item at a place, from the end if it is negative.
    fn pop(&self, at: i64) -> Result<Value, Error> {
        let mut items = self.items();
        work(items.len())?;
        let from_end = if at < 0 { items.len() as i64 } else { 0 };
        let at = usize::try_from(at.saturating_add(from_end)).ok();
        match at.filter(|&at| at < items.len()) {
            Some(at) => Ok(items.remove(at)),
            None => Err(refused("pop: the list has no such item")),
        }
    }

    fn items(&self) -> MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for Growing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items().len())
    }
}
