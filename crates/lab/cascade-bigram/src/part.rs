//! Partial counts as Parquet files.
//!
//! | column | type | content |
//! |---|---|---|
//! | `left` | UINT_32 | a token |
//! | `right` | UINT_32, optional | the token after it; null: `count` is that of `left` alone |
//! | `count` | UINT_64 | how often |
//!
//! Rows are sorted by `left`, then `right`, nulls last. As nulls are one group in SQL, `sum(count) … group by left, right`
//! adds up pairs and tokens alike. What else is known of the text stands in the file's metadata under `cascade-bigram`.
//! Files that SQL has summed have no such entry, and other integer types: those are read as well, if they are sorted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::{get_typed_column_reader, ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use cascade_core::Fingerprint;
use cascade_ngram::Source;
use serde::{Deserialize, Serialize};

use crate::output::Output;
use crate::pairs::{key, parts, Count, ALONE};
use crate::{Error, Result};

const SCHEMA: &str = "message counts {
    required int32 left (INTEGER(32, false));
    optional int32 right (INTEGER(32, false));
    required int64 count (INTEGER(64, false));
}";
const COLUMNS: [&str; 3] = ["left", "right", "count"];
const METADATA: &str = "cascade-bigram";
const FORMAT: u32 = 1;
/// No vocabulary is as large as this; a file that says so is damaged, and no memory is given to it.
const LARGEST_VOCABULARY: usize = 1 << 26;
/// Rows of a row group; about as many times 16 bytes are in memory.
const GROUP: usize = 1 << 20;
/// Rows that are read at a time.
const BATCH: usize = 1 << 12;
/// Small pages, because as many files as there are parts are open at once when they are added up.
const PAGE: usize = 128 << 10;

/// What is known of partial counts besides the counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    format: u32,
    tokenizer: String,
    vocab_size: usize,
    documents: u64,
    sources: Vec<Source>,
    command: String,
    version: String,
}

impl PartInfo {
    pub(crate) fn new(
        tokenizer: &Fingerprint,
        vocab_size: usize,
        documents: u64,
        sources: Vec<Source>,
        command: String,
    ) -> Self {
        Self {
            format: FORMAT,
            tokenizer: tokenizer.to_string(),
            vocab_size,
            documents,
            sources,
            command,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The vocabulary that the ids belong to.
    pub fn tokenizer(&self) -> Fingerprint {
        Fingerprint::from_stored(self.tokenizer.clone())
    }

    /// One more than the highest id of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Number of documents that were counted.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The files that were counted.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

/// Writes a file of partial counts.
pub(crate) struct PartWriter<'a> {
    path: &'a Path,
    writer: SerializedFileWriter<BufWriter<File>>,
    output: Output,
    rows: Vec<Count>,
}

impl<'a> PartWriter<'a> {
    pub(crate) fn create(temporary: PathBuf, path: &'a Path, info: &PartInfo) -> Result<Self> {
        let output = Output::create(temporary, path)?;
        let write = |error: ParquetError| Error::write(path)(to_io(error));
        let file = output.file().try_clone().map_err(Error::write(path))?;
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(write)?);
        let writer = SerializedFileWriter::new(BufWriter::new(file), schema, properties(info))
            .map_err(write)?;
        Ok(Self {
            path,
            writer,
            output,
            rows: Vec::new(),
        })
    }

    /// Adds a count, whose key must be above the one before.
    pub(crate) fn push(&mut self, count: Count) -> Result<()> {
        self.rows.push(count);
        if self.rows.len() < GROUP {
            return Ok(());
        }
        self.flush()
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()?;
        let path = self.path;
        let buffer = self
            .writer
            .into_inner()
            .map_err(|error| Error::write(path)(to_io(error)))?;
        buffer
            .into_inner()
            .map_err(|error| Error::write(path)(error.into_error()))?;
        self.output.finish()
    }

    fn flush(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.write_group(&rows)
            .map_err(|error| Error::write(self.path)(to_io(error)))
    }

    fn write_group(&mut self, rows: &[Count]) -> std::result::Result<(), ParquetError> {
        if rows.is_empty() {
            return Ok(());
        }
        let pairs = || rows.iter().map(|row| parts(row.0));
        let lefts: Vec<i32> = pairs().map(|(left, _)| left as i32).collect();
        let rights: Vec<i32> = pairs()
            .filter(|pair| pair.1 != ALONE)
            .map(|(_, right)| right as i32)
            .collect();
        let levels: Vec<i16> = pairs().map(|pair| i16::from(pair.1 != ALONE)).collect();
        let counts: Vec<i64> = rows.iter().map(|row| row.1 as i64).collect();
        let mut group = self.writer.next_row_group()?;
        let mut column = 0;
        while let Some(mut writer) = group.next_column()? {
            match column {
                0 => writer.typed::<Int32Type>().write_batch(&lefts, None, None),
                1 => writer
                    .typed::<Int32Type>()
                    .write_batch(&rights, Some(&levels), None),
                _ => writer.typed::<Int64Type>().write_batch(&counts, None, None),
            }?;
            writer.close()?;
            column += 1;
        }
        group.close()?;
        Ok(())
    }
}

fn properties(info: &PartInfo) -> Arc<WriterProperties> {
    let entry = KeyValue::new(METADATA.to_owned(), serde_json::json!(info).to_string());
    let right = ColumnPath::from("right");
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_size_limit(PAGE)
        .set_dictionary_page_size_limit(PAGE)
        .set_column_dictionary_enabled(right.clone(), false)
        .set_column_encoding(right, Encoding::DELTA_BINARY_PACKED)
        .set_key_value_metadata(Some(vec![entry]));
    Arc::new(builder.build())
}

/// What the system said, if it is about the system.
fn to_io(error: ParquetError) -> std::io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    }
}

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
    failed: bool,
}

impl PartReader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let handle = File::open(path).map_err(Error::read(path))?;
        if handle.metadata().map_err(Error::read(path))?.is_dir() {
            return Err(bad(&file, "it is a folder; name the files in it"));
        }
        let reader = caught(|| SerializedFileReader::new(handle))
            .map_err(|error| bad(&file, format!("not a whole Parquet file ({error})")))?;
        let info = info(&file, &reader)?;
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
            failed: false,
        })
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// What the file says about itself; `None` if SQL has made it.
    pub(crate) fn info(&self) -> Option<&PartInfo> {
        self.info.as_ref()
    }

    fn row(&mut self) -> Result<Option<Count>> {
        while self.batch.is_empty() {
            if !self.fill()? {
                return Ok(None);
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
        Ok(row)
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

    fn check(&self, left: Option<i64>, right: Option<i64>, count: Option<i64>) -> Result<Count> {
        let token = |value: i64| u32::try_from(value).ok().filter(|token| *token != ALONE);
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

/// Calls the Parquet library, which panics on some damaged files: an error, too. What was at work is not used again.
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

fn info(file: &str, reader: &SerializedFileReader<File>) -> Result<Option<PartInfo>> {
    let entries = reader.metadata().file_metadata().key_value_metadata();
    let entry = entries
        .into_iter()
        .flatten()
        .find(|entry| entry.key == METADATA);
    let Some(json) = entry.and_then(|entry| entry.value.as_ref()) else {
        return Ok(None);
    };
    let info: PartInfo = serde_json::from_str(json)
        .map_err(|error| bad(file, format!("its metadata cannot be read ({error})")))?;
    match info.format {
        FORMAT if info.vocab_size > LARGEST_VOCABULARY => {
            let size = info.vocab_size;
            Err(bad(
                file,
                format!("it speaks of {size} tokens, which no vocabulary has"),
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
    Error::Part {
        file: file.to_owned(),
        reason: reason.into(),
    }
}
