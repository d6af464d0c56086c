//! The hub's Parquet exports: rows as objects, columns as fields.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use serde_json::Value;

use super::entry::{Object, Record};
use crate::error::Location;
use crate::{Error, ErrorKind, Result};

/// The rows. Only the part of the file that they need is decoded.
pub(super) fn records(
    label: &str,
    bytes: Bytes,
) -> Result<impl Iterator<Item = Result<Record>> + '_> {
    let rows = caught(|| {
        let reader = SerializedFileReader::new(bytes)?;
        Ok(RowIter::from_file_into(Box::new(reader)))
    });
    Ok(Rows {
        rows: Some(rows.map_err(|error| damaged(label, 0, &error))?),
        label,
        read: 0,
    })
}

struct Rows<'a> {
    /// None after the first error.
    rows: Option<RowIter<'static>>,
    label: &'a str,
    read: usize,
}

impl Iterator for Rows<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.as_mut()?;
        match caught(|| rows.next().transpose()) {
            Ok(row) => {
                let object = object(row?);
                self.read += 1;
                Some(Ok(Record {
                    place: Location::Row(self.read),
                    object,
                }))
            }
            Err(error) => {
                self.rows = None;
                Some(Err(damaged(self.label, self.read, &error)))
            }
        }
    }
}

fn object(row: Row) -> Object {
    let columns = row.into_columns().into_iter();
    columns.map(|(name, field)| (name, value(&field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        // Some writers do not say that their bytes are text.
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            Err(_) => field.to_json_value(),
        },
        _ => field.to_json_value(),
    }
}

/// Calls the Parquet library, which panics on some damaged files: an error, too. What was at work
/// is not used again.
fn caught<T>(
    call: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> std::result::Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("the reader failed")
            .to_owned();
        Err(ParquetError::General(message))
    })
}

fn damaged(label: &str, row: usize, error: &ParquetError) -> Error {
    let message =
        format!("{label}, after row {row}: not a whole Parquet file: {error}; download it again");
    Error::new(ErrorKind::Damaged, message)
}
