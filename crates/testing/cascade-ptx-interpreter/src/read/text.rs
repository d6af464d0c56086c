//! Pieces of statements.

use super::Result;

/// Splits at commas that are not in braces.
pub(super) fn split(operands: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = operands.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

/// `name[208]`.
pub(super) fn array(text: &str) -> Result<(&str, usize)> {
    let (name, size) = text
        .split_once('[')
        .ok_or_else(|| format!("{text} is not an array"))?;
    Ok((name, integer(size.trim_end_matches(']'))? as usize))
}

/// An integer; negative ones as their two's complement.
pub(super) fn integer(text: &str) -> Result<u64> {
    let text = text.trim_end_matches('U');
    let wrong = |_| format!("{text} is not an integer");
    match (text.strip_prefix("0x"), text.strip_prefix('-')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).map_err(wrong),
        (None, Some(digits)) => {
            let value = digits.parse::<u64>().map_err(wrong)?;
            Ok(value.wrapping_neg())
        }
        (None, None) => text.parse().map_err(wrong),
    }
}
