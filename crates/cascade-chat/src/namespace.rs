//! `namespace()`, which loops assign to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Error;
use minijinja::value::{Enumerator, Object, Value, ValueKind};

use crate::limits::{ITEM, make, refused};

/// Attributes that a namespace may have.
const MOST: usize = 256;

/// Named values that can be changed. It never holds another one, so that none comes to hold itself:
/// such a ring could be neither printed nor freed.
#[derive(Debug, Default)]
pub(crate) struct Namespace(Mutex<BTreeMap<Arc<str>, Value>>);

impl Namespace {
    /// A namespace with the members of a mapping, which was weighed.
    pub(crate) fn create(values: Option<Value>) -> Result<Value, Error> {
        let namespace = Self::default();
        if let Some(values) = values {
            let object = values
                .as_object()
                .filter(|_| values.kind() == ValueKind::Map);
            for (key, value) in object
                .and_then(|object| object.try_iter_pairs())
                .into_iter()
                .flatten()
            {
                if let Some(key) = key.as_str() {
                    namespace.set(key, value)?;
                }
            }
        }
        make(ITEM)?;
        Ok(Value::from_object(namespace))
    }

    /// `{% set of.name = value %}`.
    pub(crate) fn assign(of: &Value, name: &str, value: Value) -> Result<(), Error> {
        let namespace: &Self = of
            .downcast_object_ref()
            .ok_or_else(|| refused(format!("can only assign to namespaces, not {}", of.kind())))?;
        namespace.set(name, value)
    }

    /// The values of all attributes.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.attributes().values().cloned().collect()
    }

    fn set(&self, name: &str, value: Value) -> Result<(), Error> {
        may_be_held(&value)?;
        let mut attributes = self.attributes();
        if attributes.len() >= MOST && !attributes.contains_key(name) {
            return Err(refused(format!(
                "a namespace has more than {MOST} attributes"
            )));
        }
        let former = attributes.insert(name.into(), value);
        drop(attributes);
        drop(former);
        Ok(())
    }

    fn attributes(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.attributes().get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.attributes().keys().cloned().map(Value::from).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.attributes().len())
    }
}

/// Refuses what could come to hold itself.
pub(crate) fn may_be_held(value: &Value) -> Result<(), Error> {
    let kind = match value.downcast_object_ref::<Namespace>() {
        Some(_) => "a namespace",
        None if is_loop(value) => "\"loop\"",
        None => return Ok(()),
    };
    Err(refused(format!("{kind} cannot be put into another value")))
}

/// The variable of a loop, whose type the library does not name.
pub(crate) fn is_loop(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|object| object.type_name().ends_with("::Loop"))
}
