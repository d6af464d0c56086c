//! Writing partial counts.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use cascade_core::fs::{AtomicFile, Output};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::digest::RowDigest;
use super::{PartInfo, DIGEST, METADATA};
use crate::output;
use crate::pairs::{parts, Count, ALONE};
use crate::{Error, Result};

const SCHEMA: &str = "message counts {
    required int32 left (INTEGER(32, false));
    optional int32 right (INTEGER(32, false));
    required int64 count (INTEGER(64, false));
}";
/// Rows of a row group, which is held in memory at about 16 bytes a row.
const GROUP: usize = 1 << 20;
/// Small pages, because as many files as there are parts are open at once when they are added up.
const PAGE: usize = 128 << 10;

/// Writes a file of partial counts.
pub(crate) struct PartWriter<'a> {
    path: &'a Path,
    writer: SerializedFileWriter<BufWriter<File>>,
    output: AtomicFile,
    rows: Vec<Count>,
    /// Of partial counts, which say what they are of.
    digest: Option<RowDigest>,
}

impl<'a> PartWriter<'a> {
    pub(crate) fn create(
        folder: &Path,
        output: &'a Output,
        info: Option<&PartInfo>,
    ) -> Result<Self> {
        let path = output.path();
        let output = output::begin(folder, output)?;
        let write = |error: ParquetError| Error::write(path)(to_io(error));
        let file = output.file().try_clone().map_err(Error::write(path))?;
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(write)?);
        let metadata = info.map(|info| serde_json::json!(info).to_string());
        let digest = metadata.as_deref().map(RowDigest::new);
        let properties = properties(metadata);
        let writer =
            SerializedFileWriter::new(BufWriter::new(file), schema, properties).map_err(write)?;
        Ok(Self {
            path,
            writer,
            output,
            rows: Vec::new(),
            digest,
        })
    }

    /// Adds a count, whose key must be above the one before.
    pub(crate) fn push(&mut self, count: Count) -> Result<()> {
        if let Some(digest) = &mut self.digest {
            digest.add(count);
        }
        self.rows.push(count);
        if self.rows.len() < GROUP {
            return Ok(());
        }
        self.flush()
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.flush()?;
        let path = self.path;
        if let Some(digest) = self.digest {
            let digest = KeyValue::new(DIGEST.to_owned(), digest.finish());
            self.writer.append_key_value_metadata(digest);
        }
        let buffer = self
            .writer
            .into_inner()
            .map_err(|error| Error::write(path)(to_io(error)))?;
        buffer
            .into_inner()
            .map_err(|error| Error::write(path)(error.into_error()))?;
        self.output.commit().map_err(Error::write(path))
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

fn properties(metadata: Option<String>) -> Arc<WriterProperties> {
    let entry = metadata.map(|metadata| KeyValue::new(METADATA.to_owned(), metadata));
    let right = ColumnPath::from("right");
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_size_limit(PAGE)
        .set_dictionary_page_size_limit(PAGE)
        .set_column_dictionary_enabled(right.clone(), false)
        .set_column_encoding(right, Encoding::DELTA_BINARY_PACKED)
        .set_key_value_metadata(entry.map(|entry| vec![entry]));
    Arc::new(builder.build())
}

/// The operating system's error, if that is the cause.
fn to_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
