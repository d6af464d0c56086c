//! Reads PTX as NVIDIA's compiler writes it: one statement on a line.
//!
//! It knows the statements that this project's kernels use. Anything else is an error that names
//! the line, so that nothing is skipped.

mod kernel;
mod operands;
mod operation;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::ReadError;
use crate::instruction::Module;
use kernel::KernelReader;
use text::{array, integer};

type Result<T> = std::result::Result<T, String>;

impl Module {
    /// Reads a module.
    ///
    /// # Errors
    /// If it has a statement that the interpreter does not know.
    pub fn read(ptx: &str) -> std::result::Result<Self, ReadError> {
        let mut module = Self::default();
        let mut kernel: Option<KernelReader> = None;
        for (index, line) in ptx.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default().trim();
            let wrong = |reason| ReadError {
                line: index + 1,
                text: line.to_owned(),
                reason,
            };
            match &mut kernel {
                None => match top_level(line, &mut module.constants).map_err(wrong)? {
                    Some(name) => kernel = Some(KernelReader::new(name)),
                    None => continue,
                },
                Some(reader) if line == "}" && reader.in_outer_braces() => {
                    let (name, finished) = reader.finish().map_err(wrong)?;
                    module.kernels.insert(name, Arc::new(finished));
                    kernel = None;
                }
                Some(reader) => reader.statement(line, index + 1).map_err(wrong)?,
            }
        }
        Ok(module)
    }
}

/// A line outside kernels: the name of a kernel that begins there.
fn top_level(line: &str, constants: &mut BTreeMap<String, Vec<u8>>) -> Result<Option<String>> {
    if let Some(name) = line.strip_prefix(".visible .entry ") {
        return Ok(Some(name.trim_end_matches('(').to_owned()));
    }
    if line.contains(".global") {
        let (name, bytes) = constant(line)?;
        constants.insert(name, bytes);
        return Ok(None);
    }
    let known = [".version", ".target", ".address_size"];
    if line.is_empty() || known.iter().any(|known| line.starts_with(known)) {
        return Ok(None);
    }
    Err("not known outside kernels".to_owned())
}

/// `.global .align 4 .b8 name[8] = {1, 0, 3};`: what is left out at the end is zero.
fn constant(line: &str) -> Result<(String, Vec<u8>)> {
    let (declared, values) = line.split_once('=').ok_or("a global without values")?;
    let (name, count) = array(declared.split_whitespace().last().unwrap_or_default())?;
    let values = values
        .trim()
        .trim_start_matches('{')
        .trim_end_matches(['}', ';']);
    let size = match declared {
        _ if declared.contains(".b8 ") => 1,
        _ if declared.contains(".u32 ") || declared.contains(".b32 ") => 4,
        _ => return Err("a global of this type is not known".to_owned()),
    };
    let mut bytes = Vec::new();
    for value in values.split(',') {
        bytes.extend_from_slice(&integer(value.trim())?.to_le_bytes()[..size]);
    }
    bytes.resize(count * size, 0);
    Ok((name.to_owned(), bytes))
}
