//! The library's filters, tests, functions and methods, charged by the size of what they are given
//! and of what they return.

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, filters, functions, tests};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::limits::{make_items, make_text, read, refused, work};
use crate::methods;
use crate::namespace::Namespace;
use crate::operators::{charge_comparison, charge_search, made, printed, some};
use crate::weight::{items, weigh};

/// Columns that a template may indent or pad by.
pub(crate) const WIDEST: usize = 1000;

/// Arguments of a filter: each of them could be one more call within a call (`map`).
const MOST_ARGUMENTS: usize = 16;

/// Lists that one can be cut into, and items of each.
const MOST_CUTS: usize = 100_000;

/// How often an item is compared when lists are sorted.
const COMPARISONS: usize = 16;

/// What a filter goes over.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// A value as such.
    Value,
    /// The items of a list.
    Items,
    /// All that a value holds.
    All,
    /// All, and compares it many times.
    Sorted,
}

use Reach::{All, Items, Sorted};

/// Filters that return lists of lists, or nothing but the items of their arguments.
const NESTING: [&str; 5] = ["batch", "slice", "map", "groupby", "sum"];

/// Filters of lists to which none is no list, and what is undefined an empty one; to the others of
/// Jinja both are empty.
const OF_SOME: [&str; 17] = [
    "first", "last", "list", "reverse", "batch", "slice", "items", "join", "sum", "sort", "unique",
    "min", "max", "groupby", "dictsort", "length", "count",
];

/// Adds what the library has, but what Jinja has not.
pub(crate) fn add(environment: &mut Environment) {
    add_filters(environment);
    add_tests(environment);
    for of_no_template in ["chain", "zip", "pprint"] {
        environment.remove_filter(of_no_template);
    }
    environment.remove_global("debug");
    environment.add_function("namespace", |values: Option<ValueOrKwargs>| {
        let values = values.map(ValueOrKwargs::into_value);
        if let Some(values) = &values {
            weigh(values)?;
        }
        Namespace::create(values)
    });
    let dict = Value::from_function(functions::dict);
    environment.add_function(
        "dict",
        move |state: &mut State, given: Rest<ValueOrKwargs>| {
            let built = dict.call(state, &given.into_values())?;
            weigh(&built)?;
            made(built)
        },
    );
    environment.set_unknown_method_callback(method);
}

fn add_filters(environment: &mut Environment) {
    macro_rules! add {
        ($reach:expr; $($name:literal $function:ident),+ $(,)?) => {
            $(add_filter(environment, $name, $reach, Value::from_function(filters::$function));)+
        };
    }
    add!(Reach::Value; "safe" safe, "length" length, "count" length, "default" default,
         "d" default, "attr" attr, "bool" bool, "abs" abs, "round" round, "trim" trim,
         "replace" replace, "upper" upper, "lower" lower, "title" title, "capitalize" capitalize,
         "indent" indent, "split" split, "lines" lines, "int" int, "float" float);
    add!(Items; "first" first, "last" last, "list" list, "reverse" reverse, "select" select,
         "reject" reject, "selectattr" selectattr, "rejectattr" rejectattr, "map" map,
         "items" items, "batch" batch, "slice" slice);
    add!(All; "escape" escape, "e" escape, "join" join, "string" string, "sum" sum,
         "format" format);
    add!(Sorted; "sort" sort, "unique" unique, "min" min, "max" max, "groupby" groupby,
         "dictsort" dictsort);
}

fn add_filter(environment: &mut Environment, name: &'static str, reach: Reach, filter: Value) {
    let of_some = OF_SOME.contains(&name);
    let of_list = of_some && !["items", "dictsort"].contains(&name);
    let charged = move |state: &mut State, given: Rest<ValueOrKwargs>| {
        let mut given = given.into_values();
        match given.first_mut() {
            Some(value) if of_list && value.is_undefined() => *value = Value::from_iter([0; 0]),
            Some(value) if of_some => some(value)?,
            _ => {}
        }
        charge(&given, reach)?;
        if reach != Reach::Value {
            charge_letters(&given)?;
        }
        bound_result(name, &given)?;
        let result = filter.call(state, &given)?;
        if NESTING.contains(&name) {
            weigh(&result)?;
        }
        match reach {
            Reach::Value if result.as_str().is_none() => Ok(result),
            _ => made(result),
        }
    };
    environment.add_filter(name, charged);
}

/// Charges the arguments of a filter.
fn charge(given: &[Value], reach: Reach) -> Result<(), Error> {
    if given.len() > MOST_ARGUMENTS {
        return Err(refused(format!(
            "a filter with more than {MOST_ARGUMENTS} arguments"
        )));
    }
    for value in given {
        match (value.as_str(), reach) {
            (Some(text), _) => read(text.len())?,
            (None, Items) => work(items(value))?,
            (None, All) if value.as_object().is_some() => drop(weigh(value)?),
            (None, Sorted) if value.as_object().is_some() => {
                let weight = weigh(value)?;
                work((weight.nodes + weight.text / 64).saturating_mul(COMPARISONS))?;
            }
            // Filters of texts print what is none.
            (None, _) if value.kind() != ValueKind::Iterable => work(1)?,
            _ => work(items(value))?,
        }
    }
    Ok(())
}

/// The letters of a text that is taken for a list are values of their own.
fn charge_letters(given: &[Value]) -> Result<(), Error> {
    match given.first().and_then(Value::as_str) {
        Some(text) => make_items(text.len()),
        None => Ok(()),
    }
}

/// Refuses what would return far more than it is given.
fn bound_result(name: &str, given: &[Value]) -> Result<(), Error> {
    let (first, others) = match given {
        [first, others @ ..] => (first, others),
        [] => return Ok(()),
    };
    let text = |at: usize| given.get(at).and_then(Value::as_str);
    match name {
        "replace" | "trim" | "upper" | "lower" | "title" | "capitalize" | "split" | "lines"
        | "indent" | "safe"
            if first.as_str().is_none() =>
        {
            make_text(printed(first)?)
        }
        "replace" => bound_replaced(text(0), text(1), text(2)),
        "indent" => bound_indented(first, others),
        "join" => bound_joined(first, text(1).unwrap_or_default()),
        "escape" | "e" => make_text(printed(first)?.saturating_mul(6)),
        "format" => bound_formatted(first, others),
        "split" | "lines" => make_items(pieces(text(0).unwrap_or_default(), text(1))),
        "sum" => bound_sum(given),
        "attr" => others.first().map_or(Ok(()), |key| printed(key).map(drop)),
        "batch" | "slice" => match others.first().and_then(Value::as_usize) {
            Some(count) if count > MOST_CUTS => Err(refused(format!(
                "{name}({count}) is too large: more than {MOST_CUTS}"
            ))),
            _ => make_items(others.first().and_then(Value::as_usize).unwrap_or(0)),
        },
        _ => Ok(()),
    }
}

fn bound_replaced(text: Option<&str>, old: Option<&str>, new: Option<&str>) -> Result<(), Error> {
    let (Some(text), Some(old), Some(new)) = (text, old, new) else {
        return Ok(());
    };
    let count = if old.is_empty() {
        text.len() + 1
    } else {
        text.matches(old).count()
    };
    let shorter = text.len() - (count * old.len()).min(text.len());
    make_text(shorter.saturating_add(count.saturating_mul(new.len())))
}

fn bound_indented(text: &Value, others: &[Value]) -> Result<(), Error> {
    let named = others.last().and_then(|named| named.get_attr("width").ok());
    let widths = others.first().into_iter().chain(named.as_ref());
    let width = widths.filter_map(Value::as_usize).max().unwrap_or(4);
    if width > WIDEST {
        return Err(too_wide(width));
    }
    let text = text.as_str().unwrap_or_default();
    let lines = 1 + text.matches('\n').count();
    make_text(text.len() + lines * width)
}

fn bound_joined(list: &Value, between: &str) -> Result<(), Error> {
    let text = printed(list)?;
    make_text(text.saturating_add(items(list).saturating_mul(between.len())))
}

/// Sums of texts and lists are copied with every item.
fn bound_sum(given: &[Value]) -> Result<(), Error> {
    let count = given.first().map_or(0, items);
    let mut copied = 0;
    for value in given.iter().filter(|value| value.as_object().is_some()) {
        let weight = weigh(value)?;
        if weight.text > 0 || weight.nodes > count + 1 {
            copied += weight.nodes + weight.text;
        }
    }
    make_items((count * copied / 64).min(usize::MAX / 64))
}

/// Bounds a text that is formatted by the widths that it names and by how often it can name its
/// arguments.
pub(crate) fn bound_formatted(text: &Value, arguments: &[Value]) -> Result<(), Error> {
    let text = text.as_str().unwrap_or_default();
    let mut padding: usize = 0;
    for width in fields(text).flat_map(|field| field.split(|c: char| !c.is_ascii_digit())) {
        match width.parse::<usize>() {
            Ok(width) if width <= WIDEST * 10 => padding += width,
            Err(_) if width.is_empty() => {}
            _ => return Err(too_wide(width)),
        }
    }
    let mut longest = 0;
    for argument in arguments {
        longest = longest.max(printed(argument)?);
        // A width can be an argument as well: `{:{}}`.
        if text.contains("{:{") || text.contains('*') {
            longest = longest.max(argument.as_usize().unwrap_or(0));
        }
    }
    let size = text.len().saturating_add(padding);
    let values = fields(text).count().saturating_mul(longest);
    make_text(size.saturating_add(values))
}

/// What stands for values in a format: `%…` up to a letter, and `{…}`.
fn fields(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(['%', '{']).map(|(at, open)| {
        let field = &text[at + open.len()..];
        let end = match open {
            "{" => field.find('}'),
            _ => field.find(|c: char| c.is_alphabetic()),
        };
        &field[..end.unwrap_or(field.len())]
    })
}

pub(crate) fn too_wide(width: impl std::fmt::Display) -> Error {
    refused(format!("the width {width} is too large"))
}

/// How many pieces a text falls into.
fn pieces(text: &str, separator: Option<&str>) -> usize {
    match separator {
        Some(separator) if !separator.is_empty() => 1 + text.matches(separator).count(),
        _ => 1 + text.matches(char::is_whitespace).count(),
    }
}

fn add_tests(environment: &mut Environment) {
    macro_rules! add {
        ($charge:expr; $($function:ident $($name:literal)+),+ $(,)?) => {
            $($(add_test(environment, $name, $charge, Value::from_function(tests::$function));)+)+
        };
    }
    add!(charge_comparison; is_eq "eq" "equalto" "==", is_ne "ne" "!=", is_lt "lt" "lessthan" "<",
         is_le "le" "<=", is_gt "gt" "greaterthan" ">", is_ge "ge" ">=", is_sameas "sameas");
    add!(charge_search; is_in "in", is_startingwith "startingwith", is_endingwith "endingwith");
    add!(charge_comparison; is_lower "lower", is_upper "upper");
}

fn add_test(
    environment: &mut Environment,
    name: &'static str,
    charge: fn(&Value, &Value) -> Result<(), Error>,
    test: Value,
) {
    let charged = move |state: &mut State, given: Rest<ValueOrKwargs>| {
        let given = given.into_values();
        if let [value, others @ ..] = &given[..] {
            charge(value, others.first().unwrap_or(value))?;
        }
        test.call(state, &given).map(|found| found.is_true())
    };
    environment.add_test(name, charged);
}

/// A method of Python's strings, lists and mappings.
fn method(state: &mut State, value: &Value, name: &str, given: &[Value]) -> Result<Value, Error> {
    for value in given.iter().chain([value]).filter_map(Value::as_str) {
        read(value.len())?;
    }
    for argument in given.iter().filter(|value| value.as_object().is_some()) {
        weigh(argument)?;
    }
    let text = |at: usize| given.get(at).and_then(Value::as_str);
    match (name, value.as_str()) {
        ("format", Some(_)) => bound_formatted(value, given)?,
        ("replace", Some(_)) => bound_replaced(value.as_str(), text(0), text(1))?,
        ("join", Some(between)) => given
            .first()
            .map_or(Ok(()), |list| bound_joined(list, between))?,
        ("split" | "rsplit" | "splitlines", Some(whole)) => make_items(pieces(whole, text(0)))?,
        ("count" | "index", None) => drop(weigh(value)?),
        _ => {}
    }
    let result = match methods::called(value, name, given)? {
        Some(result) => result,
        None => unknown_method_callback(state, value, name, given)?,
    };
    match result.as_str() {
        Some(text) => make_text(text.len())?,
        None => work(1)?,
    }
    Ok(result)
}

/// What is shown of a message that a template makes up.
pub(crate) fn shortened(text: String) -> String {
    const SHOWN: usize = 4000;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
