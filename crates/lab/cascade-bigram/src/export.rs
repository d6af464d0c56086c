//! Tables with their counts, for other programs.
//!
//! Both forms have the columns of [partial counts](crate::count()): `left`, `right` and `count`,
//! sorted; where `right` is empty (CSV) or null (Parquet), `count` is how often the token `left`
//! occurs. They hold what the table holds: at most its top-k successors of each token.

use std::io::Write;

use cascade_core::fs::{parent, Output};
use cascade_core::TokenId;
use cascade_ngram::BigramTable;

use crate::pairs::{key, parts, Count, ALONE};
use crate::part::PartWriter;
use crate::{Error, Result};

/// Writes a table as CSV.
///
/// # Errors
/// Those of the system.
pub fn export_csv(table: &BigramTable, output: &Output) -> Result<()> {
    let write = || {
        let file = output.begin()?;
        write_csv(table, &mut std::io::BufWriter::new(file.file()))?;
        file.commit()
    };
    write().map_err(Error::write(output.path()))
}

fn write_csv(table: &BigramTable, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "left,right,count")?;
    for (key, count) in rows(table) {
        match parts(key) {
            (left, ALONE) => writeln!(out, "{left},,{count}")?,
            (left, right) => writeln!(out, "{left},{right},{count}")?,
        }
    }
    out.flush()
}

/// Writes a table as Parquet.
///
/// # Errors
/// Those of the system.
pub fn export_parquet(table: &BigramTable, output: &Output) -> Result<()> {
    let mut writer = PartWriter::create(parent(output.path()), output, None)?;
    rows(table).try_for_each(|row| writer.push(row))?;
    writer.finish()
}

/// All counts above 0, by left token, then right token, those of left tokens alone last.
fn rows(table: &BigramTable) -> impl Iterator<Item = Count> + '_ {
    (0..table.vocab_size() as TokenId).flat_map(|left| {
        let successors = table.successors(left);
        let mut rows: Vec<Count> = successors
            .map(|(right, count)| (key(left, right), count))
            .collect();
        rows.push((key(left, ALONE), table.unigram_count(left)));
        rows.retain(|row| row.1 > 0);
        rows.sort_unstable();
        rows
    })
}
