//! Reading partial counts.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::{get_typed_column_reader, ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::digest::RowDigest;
use super::{PartInfo, DIGEST, FORMAT, METADATA};
use crate::pairs::{key, parts, Count, ALONE};
use crate::{Error, Result};

const COLUMNS: [&str; 3] = ["left", "right", "count"];
/// Larger than any vocabulary. A file that claims more is damaged, and no memory is allocated for
/// it.
const LARGEST_VOCABULARY: usize = 1 << 26;
/// Rows that are read at a time.
const BATCH: usize = 1 << 12;

/// Reads a file of partial counts, row by row, and checks that they are sorted.
pub(crate) struct PartReader {
    file: String,
    reader: SerializedFileReader<File>,
    info: Option<PartInfo>,
    columns: [usize; 3],
    group: usize,
    open: Option<[Column; 3]>,
    batch: VecDeque<Count>,
    last: Option<u64>,
    /// Of the rows so far, and what it must become.
    digest: Option<(RowDigest, String)>,
    failed: bool,
}

impl PartReader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let handle = match cascade_core::fs::open(path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                return Err(bad(&file, "it is a folder; name the files in it"))
            }
            opened => opened.map_err(Error::read(path))?,
        };
        let reader = caught(|| SerializedFileReader::new(handle))
            .map_err(|error| bad(&file, format!("not a whole Parquet file ({error})")))?;
        let info = info(&file, &reader)?;
        let digest = digest(&reader);
        let mut columns = [0; 3];
        for (place, name) in columns.iter_mut().zip(COLUMNS) {
            *place = find_column(&file, &reader, name)?;
        }
        Ok(Self {
            file,
            reader,
            info,
            columns,
            group: 0,
            open: None,
            batch: VecDeque::new(),
            last: None,
            digest,
            failed: false,
        })
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The file's metadata; `None` if SQL has written it.
    pub(crate) fn info(&self) -> Option<&PartInfo> {
        self.info.as_ref()
    }

    fn row(&mut self) -> Result<Option<Count>> {
        while self.batch.is_empty() {
            if !self.fill()? {
                return self.check_digest().map(|()| None);
            }
        }
        let row = self.batch.pop_front();
        if let Some((key, _)) = row {
            if self.last.is_some_and(|last| last >= key) {
                let (left, _) = parts(key);
                let reason = format!(
                    "its rows are not sorted, or not summed up, at left = {left}; \
                     group and order them by left, right nulls last"
                );
                return Err(bad(&self.file, reason));
            }
            self.last = Some(key);
        }
        if let (Some((digest, _)), Some(row)) = (&mut self.digest, row) {
            digest.add(row);
        }
        Ok(row)
    }

    /// Whether the rows are those that were written.
    fn check_digest(&mut self) -> Result<()> {
        match self.digest.take() {
            Some((digest, expected)) if digest.finish() != expected => Err(bad(
                &self.file,
                "its content is not what was written (the digest differs); \
                 copy it again, or count again",
            )),
            _ => Ok(()),
        }
    }

    /// Reads some rows; false at the end.
    fn fill(&mut self) -> Result<bool> {
        let damaged = |error| bad(&self.file, format!("it cannot be read ({error})"));
        let mut columns = match self.open.take() {
            Some(columns) => columns,
            None if self.group < self.reader.num_row_groups() => {
                self.group += 1;
                caught(|| open_group(&self.reader, self.group - 1, self.columns))
                    .map_err(damaged)?
            }
            None => return Ok(false),
        };
        let mut read = Vec::new();
        for column in &mut columns {
            read.push(caught(|| column.read()).map_err(damaged)?);
        }
        let [left, right, count] = &read[..] else {
            return Ok(false);
        };
        if left.len() != right.len() || left.len() != count.len() {
            return Err(bad(&self.file, "its columns are not of one length"));
        }
        for ((left, right), count) in left.iter().zip(right).zip(count) {
            self.batch.push_back(self.check(*left, *right, *count)?);
        }
        if !self.batch.is_empty() {
            self.open = Some(columns);
        }
        Ok(true)
    }

    /// A row, if its ids are those of tokens.
    fn check(&self, left: Option<i64>, right: Option<i64>, count: Option<i64>) -> Result<Count> {
        let ids = self
            .info
            .as_ref()
            .map_or(ALONE, |info| info.vocab_size as u32);
        let token = |value: i64| u32::try_from(value).ok().filter(|token| *token < ids);
        let left = left.and_then(token);
        let right = match right {
            None => Some(ALONE),
            Some(value) => token(value),
        };
        match (left, right, count) {
            (Some(left), Some(right), Some(count)) => Ok((key(left, right), count as u64)),
            _ => {
                let reason = "a row has no left or no count, or an id that no token has";
                Err(bad(&self.file, reason))
            }
        }
    }
}

impl Iterator for PartReader {
    type Item = Result<Count>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let row = self.row();
        self.failed = row.is_err();
        row.transpose()
    }
}

/// Calls the Parquet library, and turns its panics on damaged files into errors. The reader must
/// not be used afterwards.
fn caught<T>(
    call: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> std::result::Result<T, ParquetError> {
    let damaged = |_| Err(ParquetError::General("its pages are damaged".to_owned()));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(damaged)
}

/// A column within a row group.
enum Column {
    Short(ColumnReaderImpl<Int32Type>, bool),
    Long(ColumnReaderImpl<Int64Type>, bool),
}

impl Column {
    /// The next values; none at the end.
    fn read(&mut self) -> std::result::Result<Vec<Option<i64>>, ParquetError> {
        match self {
            // Ids are unsigned.
            Self::Short(reader, optional) => {
                read_batch(reader, *optional, |&value| i64::from(value as u32))
            }
            Self::Long(reader, optional) => read_batch(reader, *optional, |&value| value),
        }
    }
}

fn read_batch<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    optional: bool,
    number: impl Fn(&T::T) -> i64,
) -> std::result::Result<Vec<Option<i64>>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut rows = 0;
    while rows < BATCH {
        let wanted = optional.then_some(&mut levels);
        match reader
            .read_records(BATCH - rows, wanted, None, &mut values)?
            .0
        {
            0 => break,
            read => rows += read,
        }
    }
    let mut values = values.iter().map(number);
    let there = |row: usize| !optional || levels.get(row).is_some_and(|level| *level > 0);
    Ok((0..rows)
        .map(|row| there(row).then(|| values.next()).flatten())
        .collect())
}

fn open_group(
    reader: &SerializedFileReader<File>,
    group: usize,
    columns: [usize; 3],
) -> std::result::Result<[Column; 3], ParquetError> {
    let group = reader.get_row_group(group)?;
    let open = |column: usize| {
        let optional = group
            .metadata()
            .column(column)
            .column_descr()
            .max_def_level()
            > 0;
        Ok(match group.get_column_reader(column)? {
            reader @ ColumnReader::Int32ColumnReader(_) => {
                Column::Short(get_typed_column_reader(reader), optional)
            }
            reader @ ColumnReader::Int64ColumnReader(_) => {
                Column::Long(get_typed_column_reader(reader), optional)
            }
            _ => return Err(ParquetError::General("a column of no integers".to_owned())),
        })
    };
    let [left, right, count] = columns;
    Ok([open(left)?, open(right)?, open(count)?])
}

fn find_column(file: &str, reader: &SerializedFileReader<File>, name: &str) -> Result<usize> {
    use parquet::basic::Type::{INT32, INT64};
    let schema = reader.metadata().file_metadata().schema_descr();
    let fits = |column: &Arc<parquet::schema::types::ColumnDescriptor>| {
        column.path().parts() == [name]
            && matches!(column.physical_type(), INT32 | INT64)
            && column.max_rep_level() == 0
            && column.max_def_level() <= 1
    };
    schema.columns().iter().position(fits).ok_or_else(|| {
        let reason = format!("it has no column {name:?} of integers of 32 or 64 bits");
        bad(file, reason)
    })
}

/// The digest to compare with, and that of no rows; nothing if none was written.
fn digest(reader: &SerializedFileReader<File>) -> Option<(RowDigest, String)> {
    let metadata = entry(reader, METADATA).map_or("", String::as_str);
    Some((RowDigest::new(metadata), entry(reader, DIGEST)?.clone()))
}

/// An entry of the file's metadata.
fn entry<'a>(reader: &'a SerializedFileReader<File>, key: &str) -> Option<&'a String> {
    let mut entries = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .into_iter()
        .flatten();
    entries.find(|entry| entry.key == key)?.value.as_ref()
}

fn info(file: &str, reader: &SerializedFileReader<File>) -> Result<Option<PartInfo>> {
    let Some(json) = entry(reader, METADATA) else {
        return Ok(None);
    };
    let info: PartInfo = serde_json::from_str(json)
        .map_err(|error| bad(file, format!("its metadata cannot be read ({error})")))?;
    match info.format {
        FORMAT if info.vocab_size > LARGEST_VOCABULARY => {
            let size = info.vocab_size;
            Err(bad(
                file,
                format!("it claims a vocabulary of {size} tokens, which is too large"),
            ))
        }
        FORMAT => Ok(Some(info)),
        other => Err(bad(
            file,
            format!("it is of version {other}, this program reads version {FORMAT}; count again"),
        )),
    }
}

fn bad(file: &str, reason: impl Into<String>) -> Error {
    Error::part(file, reason.into())
}
