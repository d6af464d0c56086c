//! Operators of templates that are charged by the size of what they work on, as filters under names
//! that no template can write.

use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Environment, Error, Output, State, tests};

use crate::growing::growing;
use crate::limits::{make_items, make_text, read, refused, work};
use crate::namespace::{Namespace, may_be_held};
use crate::weight::{items, settled, weigh};

pub(crate) const EQUAL: &str = "==";
pub(crate) const UNEQUAL: &str = "!=";
pub(crate) const LESS: &str = "<";
pub(crate) const LESS_OR_EQUAL: &str = "<=";
pub(crate) const GREATER: &str = ">";
pub(crate) const GREATER_OR_EQUAL: &str = ">=";
/// `left in right`.
pub(crate) const IN: &str = "in?";
/// `left ~ right`.
pub(crate) const CONCAT: &str = "~";
/// `left * right`.
pub(crate) const TIMES: &str = "*";
/// `left % right`.
pub(crate) const MODULO: &str = "%";
/// `value[start:stop:step]`.
pub(crate) const SLICE: &str = "[:]";
/// What an operator made.
pub(crate) const MADE: &str = "=made";
/// What is walked over as a whole.
pub(crate) const WEIGHED: &str = "=weighed";
/// A list, a tuple or a mapping that was written out.
pub(crate) const NESTED: &str = "=nested";
/// What an item is taken of.
pub(crate) const ITERATED: &str = "=iterated";
/// What a loop goes over.
pub(crate) const LOOPED: &str = "=looped";
/// What is spread over arguments.
pub(crate) const SPLAT: &str = "=splat";
/// What a loop remembers.
pub(crate) const CHANGED: &str = "=changed";
/// What is spread over the arguments of `loop.cycle`.
pub(crate) const CYCLED: &str = "=cycled";
/// The function that sets an attribute.
pub(crate) const SET_ATTRIBUTE: &str = "=set";
/// The function that is charged for a macro.
pub(crate) const MACRO: &str = "=macro";

/// Arguments that may be spread from a list.
const MOST_SPLAT: usize = 1000;

/// What a macro that is declared takes, in items.
const MACRO_ITEMS: usize = 32;

/// How much longer a text can become by being escaped.
const ESCAPED: usize = 6;

/// Adds the operators to an environment, for templates whose lists grow or do not.
pub(crate) fn add(environment: &mut Environment, grows: bool) {
    environment.set_formatter(write);
    add_comparisons(environment);
    environment.add_filter(IN, contains);
    environment.add_filter(CONCAT, concat);
    environment.add_filter(TIMES, times);
    environment.add_filter(MODULO, modulo);
    environment.add_filter(SLICE, slice);
    environment.add_filter(MADE, made);
    environment.add_filter(WEIGHED, weighed);
    environment.add_filter(NESTED, move |value: Value| {
        weigh(&value)?;
        make_items(items(&value))?;
        if grows { growing(value) } else { Ok(value) }
    });
    environment.add_filter(ITERATED, iterated);
    environment.add_filter(LOOPED, |value: Value| {
        some(&value)?;
        iterated(value)
    });
    environment.add_filter(SPLAT, splat);
    environment.add_filter(CHANGED, |value: Value| {
        may_be_held(&value)?;
        weighed(value)
    });
    environment.add_filter(CYCLED, |values: Value| match items(&values) {
        0 => Err(refused("loop.cycle() has nothing to cycle through")),
        _ => Ok(values),
    });
    environment.add_function(SET_ATTRIBUTE, |of: &Value, name: &str, value: Value| {
        Namespace::assign(of, name, value).map(|()| Value::UNDEFINED)
    });
    environment.add_function(MACRO, || make_items(MACRO_ITEMS).map(|()| Value::UNDEFINED));
}

fn add_comparisons(environment: &mut Environment) {
    for (name, holds) in [
        (EQUAL, (|a, b| a == b) as fn(&Value, &Value) -> bool),
        (UNEQUAL, |a, b| a != b),
        (LESS, |a, b| a < b),
        (LESS_OR_EQUAL, |a, b| a <= b),
        (GREATER, |a, b| a > b),
        (GREATER_OR_EQUAL, |a, b| a >= b),
    ] {
        let compare = move |a: &Value, b: &Value| {
            charge_comparison(a, b)?;
            Ok::<_, Error>(holds(a, b))
        };
        environment.add_filter(name, compare);
    }
}

/// Writes a value to the output.
fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let length = printed(value)?;
    let times = match state.auto_escape() {
        minijinja::AutoEscape::None => 1,
        _ => ESCAPED,
    };
    make_text(length.saturating_mul(times))?;
    minijinja::escape_formatter(out, state, value)
}

/// About how many bytes a value is when it is printed.
pub(crate) fn printed(value: &Value) -> Result<usize, Error> {
    match (value.as_str(), value.as_object()) {
        (Some(text), _) => Ok(text.len()),
        (None, None) => Ok(8),
        (None, Some(_)) => {
            let weight = weigh(value)?;
            Ok(weight.text + 4 * weight.nodes)
        }
    }
}

/// Charges a comparison of two values.
pub(crate) fn charge_comparison(a: &Value, b: &Value) -> Result<(), Error> {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => read(a.len().min(b.len())),
        _ if a.as_object().is_some() && b.as_object().is_some() => {
            weigh(a)?;
            weigh(b).map(drop)
        }
        _ => work(1),
    }
}

/// Whether something is within something else.
fn contains(state: &State, value: &Value, within: &Value) -> Result<bool, Error> {
    charge_search(value, within)?;
    let searchable = within.as_object().is_some() || within.as_str().is_some();
    if !searchable && !within.is_undefined() {
        return Err(refused("cannot perform a containment check on this value"));
    }
    tests::is_in(state, value, within)
}

/// Charges a search.
pub(crate) fn charge_search(value: &Value, within: &Value) -> Result<(), Error> {
    if value.as_object().is_some() {
        weigh(value)?;
        weigh(within)?;
    }
    let length = value.as_str().map_or(0, str::len);
    match (within.as_str(), within.kind()) {
        (Some(text), _) => read(text.len() + length),
        (None, ValueKind::Map) => read(length),
        _ => work(items(within).saturating_mul(1 + length / 64)),
    }
}

fn concat(left: &Value, right: &Value) -> Result<String, Error> {
    make_text(printed(left)? + printed(right)?)?;
    Ok(format!("{left}{right}"))
}

fn times(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    let is_list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    let (repeated, count) = if left.as_str().is_some() || is_list(left) {
        (left, right)
    } else {
        (right, left)
    };
    if let Some(text) = repeated.as_str() {
        let count = count
            .as_usize()
            .ok_or_else(|| refused("strings can only be multiplied with integers"))?;
        make_text(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(count)));
    }
    if !is_list(repeated) {
        return arithmetic(state, "a * b", left, right);
    }
    let count = count
        .as_usize()
        .ok_or_else(|| refused("sequences and iterables can only be multiplied with integers"))?;
    let once: Vec<Value> = settled(repeated.clone())?.try_iter()?.collect();
    make_items(once.len().saturating_mul(count))?;
    let all: Vec<Value> = (0..count).flat_map(|_| once.iter().cloned()).collect();
    Ok(like(repeated, all))
}

/// The remainder of numbers; a text with values in the places that it names.
fn modulo(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    let Some(text) = left.as_str() else {
        return arithmetic(state, "a % b", left, right);
    };
    let mut given = vec![left.clone()];
    if right.is_tuple() {
        given.extend(right.try_iter()?);
    } else {
        given.push(right.clone());
    }
    let places = text.replace("%%", "").matches('%').count();
    let is_single = right.is_tuple() || right.as_object().is_none();
    if is_single && given.len() > places + 1 {
        let given = given.len() - 1;
        return Err(refused(format!(
            "{given} values for the {places} places of a text"
        )));
    }
    state.apply_filter("format", &given)
}

/// What the library makes of two numbers, `a` and `b`.
fn arithmetic(state: &State, code: &str, a: &Value, b: &Value) -> Result<Value, Error> {
    let expression = state.env().compile_expression(code)?;
    expression.eval(minijinja::context! { a, b })
}

/// Items as a tuple if a value is one, else as a list.
fn like(value: &Value, items: Vec<Value>) -> Value {
    if value.is_tuple() {
        Value::from(Tuple::from(items))
    } else {
        Value::from(items)
    }
}

/// What an operator made: paid for, and no view of other values.
pub(crate) fn made(value: Value) -> Result<Value, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => make_text(text.len())?,
        (None, ValueKind::Iterable) => return settled(value),
        (None, ValueKind::Seq | ValueKind::Map) => make_items(items(&value))?,
        _ => {}
    }
    Ok(value)
}

fn weighed(value: Value) -> Result<Value, Error> {
    if value.as_object().is_some() {
        weigh(&value)?;
    }
    Ok(value)
}

/// Going over a text, or to an item of a view, takes as long as it is.
fn iterated(value: Value) -> Result<Value, Error> {
    match (value.as_str(), value.kind()) {
        (Some(text), _) => read(text.len())?,
        (None, ValueKind::Iterable) => work(items(&value))?,
        _ => work(1)?,
    }
    Ok(value)
}

/// Refuses none as a list: to the library it is an empty one.
pub(crate) fn some(value: &Value) -> Result<(), Error> {
    if value.is_none() {
        Err(refused("none has no items to go over"))
    } else {
        Ok(())
    }
}

fn splat(value: Value) -> Result<Value, Error> {
    let count = items(&value);
    if count > MOST_SPLAT {
        return Err(refused(format!(
            "a call with more than {MOST_SPLAT} arguments"
        )));
    }
    work(count)?;
    Ok(value)
}

/// A slice as Python takes it.
fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let bound = |value: &Value| {
        let given = Some(value).filter(|value| !value.is_none());
        given.map(|value| i64::try_from(value.clone())).transpose()
    };
    let bounds @ (_, _, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(refused("cannot slice by step size of 0"));
    }
    if value.is_undefined() || value.is_none() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if let Some(text) = value.as_str() {
        return slice_of_text(text, bounds).map(Value::from);
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let kind = value.kind();
        return Err(refused(format!("value of type {kind} cannot be sliced")));
    }
    make_items(items(value))?;
    let all: Vec<Value> = value.try_iter()?.collect();
    let taken: Vec<Value> = places(all.len(), bounds)
        .filter_map(|at| all.get(at).cloned())
        .collect();
    Ok(like(value, taken))
}

/// Where a slice begins and ends, and its step.
type Bounds = (Option<i64>, Option<i64>, i64);

fn slice_of_text(text: &str, bounds: Bounds) -> Result<String, Error> {
    read(text.len())?;
    let count = text.chars().count();
    let taken: String = match (places(count, bounds), bounds.2) {
        (mut places, 1) => {
            let first = places.next();
            let skipped = text.chars().skip(first.unwrap_or(count));
            skipped.take(places.count() + 1).collect()
        }
        (places, _) => {
            let chars: Vec<char> = text.chars().collect();
            places.filter_map(|at| chars.get(at)).collect()
        }
    };
    make_text(taken.len())?;
    Ok(taken)
}

/// The places of a slice of so many items.
fn places(count: usize, (start, stop, step): Bounds) -> impl Iterator<Item = usize> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let (least, most) = if step > 0 {
        (0, count)
    } else {
        (-1, count - 1)
    };
    let clamp = |bound: i64| {
        let from_end = if bound < 0 { count } else { 0 };
        bound.saturating_add(from_end).clamp(least, most)
    };
    let backwards = step < 0;
    let start = start.map_or(if backwards { most } else { least }, clamp);
    let stop = stop.map_or(if backwards { least } else { most }, clamp);
    let within = move |at: &i64| if backwards { *at > stop } else { *at < stop };
    let next = move |at: &i64| at.checked_add(step);
    std::iter::successors(Some(start), next)
        .take_while(within)
        .filter_map(|at| usize::try_from(at).ok())
}

#[cfg(test)]
mod tests_of_slices {
    use super::places;

    #[test]
    fn slices_are_pythons() {
        let (min, max) = (Some(i64::MIN), Some(i64::MAX));
        for (count, start, stop, step, found) in [
            (4, None, None, 1, vec![0, 1, 2, 3]),
            (4, None, None, -1, vec![3, 2, 1, 0]),
            (0, None, None, -1, vec![]),
            (4, Some(1), Some(-1), 1, vec![1, 2]),
            (4, Some(-3), None, 2, vec![1, 3]),
            (4, Some(9), Some(0), -2, vec![3, 1]),
            (4, Some(0), Some(5), -1, vec![]),
            (4, min, max, i64::MAX, vec![0]),
            (4, max, min, i64::MIN, vec![3]),
        ] {
            let all: Vec<_> = places(count, (start, stop, step)).collect();
            assert_eq!(all, found, "{count} [{start:?}:{stop:?}:{step}]");
        }
    }
}
