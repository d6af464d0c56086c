//! Parquet shards: the string column `text`.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parquet::basic::Type;
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;

use crate::corpus::document::RawDocument;
use crate::corpus::progress::Progress;
use crate::{Error, Result};

/// Rows read at a time.
const BATCH: usize = 64;

/// Reads the rows of a file, row group by row group. Rows without a text are skipped by the caller
/// as empty ones.
pub(crate) struct ParquetReader {
    reader: SerializedFileReader<File>,
    file: Arc<str>,
    text: usize,
    group: usize,
    column: Option<Column>,
    /// Read and not yet delivered, last first.
    batch: Vec<RawDocument>,
    rows: u64,
    failed: bool,
    progress: Arc<Progress>,
}

/// A column of strings within one row group.
struct Column {
    reader: ColumnReaderImpl<ByteArrayType>,
    optional: bool,
}

impl ParquetReader {
    pub(crate) fn open(source: File, file: Arc<str>, progress: Arc<Progress>) -> Result<Self> {
        let reader = caught(|| SerializedFileReader::new(source))
            .map_err(|error| damaged(&file, 0, &error))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let Some(text) = string_column(schema, "text") else {
            let names: Vec<_> = schema
                .columns()
                .iter()
                .map(|column| column.path().string())
                .collect();
            return Err(Error::input(format!(
                "the Parquet file {file} has no string column \"text\", only {}; rename the column that has the text",
                names.join(", ")
            )));
        };
        Ok(Self {
            reader,
            file,
            text,
            group: 0,
            column: None,
            batch: Vec::new(),
            rows: 0,
            failed: false,
            progress,
        })
    }

    fn open_group(&self) -> std::result::Result<Column, ParquetError> {
        let group = self.reader.get_row_group(self.group)?;
        let described = group.metadata().column(self.text).column_descr();
        Ok(Column {
            optional: described.max_def_level() > 0,
            reader: get_typed_column_reader(group.get_column_reader(self.text)?),
        })
    }

    /// Fills `batch`, unless there is nothing more.
    fn read_batch(&mut self) -> std::result::Result<(), ParquetError> {
        while self.batch.is_empty() && self.group < self.reader.num_row_groups() {
            let mut column = match self.column.take() {
                Some(column) => column,
                None => self.open_group()?,
            };
            let texts = column.read()?;
            if texts.is_empty() {
                let size = self
                    .reader
                    .metadata()
                    .row_group(self.group)
                    .compressed_size();
                self.progress
                    .bytes_read
                    .fetch_add(size.max(0).unsigned_abs(), Relaxed);
                self.group += 1;
                continue;
            }
            self.column = Some(column);
            for text in texts {
                let document = RawDocument::plain(text.unwrap_or_default(), self.rows);
                self.batch.push(document);
                self.rows += 1;
            }
            self.batch.reverse();
        }
        Ok(())
    }
}

impl Column {
    /// The next rows of the column; none at its end.
    fn read(&mut self) -> std::result::Result<Vec<Option<String>>, ParquetError> {
        let (mut levels, mut values) = (Vec::new(), Vec::<ByteArray>::new());
        let wanted = self.optional.then_some(&mut levels);
        let (rows, _, _) = self.reader.read_records(BATCH, wanted, None, &mut values)?;
        let mut values = values.into_iter();
        let present =
            |row: usize| !self.optional || levels.get(row).is_some_and(|&level| level > 0);
        let row = |row| {
            present(row)
                .then(|| values.next())
                .flatten()
                .map(|value| string(&value))
                .transpose()
        };
        (0..rows).map(row).collect()
    }
}

fn string(value: &ByteArray) -> std::result::Result<String, ParquetError> {
    value.as_utf8().map(String::from)
}

/// Calls the Parquet library, and turns its panics on damaged files into errors. The reader must
/// not be used afterwards.
fn caught<T>(
    call: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> std::result::Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        Err(ParquetError::General(format!(
            "the file is damaged: {message}"
        )))
    })
}

/// The place of a top-level column of strings.
fn string_column(schema: &SchemaDescriptor, name: &str) -> Option<usize> {
    schema.columns().iter().position(|column| {
        column.path().parts() == [name]
            && column.physical_type() == Type::BYTE_ARRAY
            && column.max_rep_level() == 0
            && column.max_def_level() <= 1
    })
}

fn damaged(file: &str, row: u64, error: &ParquetError) -> Error {
    let cure = "fetch the file again";
    Error::input(format!(
        "the Parquet file {file} cannot be read at row {row}: {error}; {cure}"
    ))
}

impl Iterator for ParquetReader {
    type Item = Result<RawDocument>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.batch.is_empty()
            && let Err(error) = caught(|| self.read_batch())
        {
            self.failed = true;
            return Some(Err(damaged(&self.file, self.rows, &error)));
        }
        self.batch.pop().map(Ok)
    }
}
