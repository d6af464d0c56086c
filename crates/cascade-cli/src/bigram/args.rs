//! The command line of `cascade bigram`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum BigramCommand {
    /// Count Wikipedia dumps and other texts, and write a table.
    Build(BuildArgs),
    /// Count a part of a corpus; `reduce` adds up such parts.
    Count(CountArgs),
    /// Add up partial counts, and write a table.
    Reduce(ReduceArgs),
    /// Show what a table is of, and what follows a token.
    Show(ShowArgs),
    /// Compare the first successors of two tables.
    Compare {
        /// The table by whose counts tokens are weighted.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Write the first successors of a table as a plain list.
    Export(ExportArgs),
    /// Make a table of a plain list of first successors.
    Import(ImportArgs),
}

/// Files may be MediaWiki dumps (XML), Parquet or JSONL with a column or field `text`, or plain text with blank lines between
/// documents, compressed or not, in any mixture: what a file is, is told by what it holds.
#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// Files to count; `-` is standard input.
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// The tokenizer: a tokenizer.json, a folder with one, a model of the Hugging Face hub (org/name), or embedded:NAME.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: String,

    /// Memory that the whole process may take, as 512MiB or 2GiB. What does not fit is sorted on the disk.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = size)]
    pub(crate) memory: u64,

    /// Threads that strip, tokenize and count; as many as there are processors if not given.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Stop after so many documents. Files are read in the order of their names.
    #[arg(long, value_name = "N")]
    pub(crate) limit_pages: Option<u64>,

    /// Go on where a count that was interrupted was last safe.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Make safe what has been counted every so many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub(crate) checkpoint: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// The table to write.
    #[arg(long, value_name = "TABLE.safetensors")]
    pub(crate) out: PathBuf,

    /// Successors that are kept for each token.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) top_k: usize,

    /// Drop pairs that occur less often.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) min_count: u64,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The file of counts to write.
    #[arg(long, value_name = "PART.parquet")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReduceArgs {
    /// Partial counts.
    #[arg(value_name = "PART.parquet", required = true)]
    pub(crate) parts: Vec<PathBuf>,

    /// If SQL has added up the parts already: the parts, which say what the counts are of.
    #[arg(long, value_name = "PART.parquet", num_args = 1..)]
    pub(crate) summed: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The table: a file, or embedded:NAME.
    pub(crate) table: String,

    /// Show what follows this token: as the vocabulary writes it, as a text that is one token, or #ID.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) token: Option<String>,

    /// The table's tokenizer, for texts instead of ids. Not needed for the embedded models.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The table.
    pub(crate) table: PathBuf,

    /// The file to write: a JSON list with the most frequent successor of each token. Where none is known, the most frequent
    /// token stands in.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) json: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A JSON list with the most frequent successor of each token.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) json: PathBuf,

    /// The tokenizer that the ids belong to.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: String,

    /// The table to write.
    #[arg(long, value_name = "TABLE.safetensors")]
    pub(crate) out: PathBuf,
}

/// A size in bytes: `2GiB`, `512 MiB`, `4GB`, `1000000`.
fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1_u64,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        unit => return Err(format!("{unit} is no unit; give a size as 512MiB or 2GiB")),
    };
    let number: f64 = digits
        .trim()
        .parse()
        .map_err(|_| "give a size as 512MiB or 2GiB".to_owned())?;
    let bytes = number * unit as f64;
    if !(1.0..1e18).contains(&bytes) {
        return Err("give a size as 512MiB or 2GiB".to_owned());
    }
    Ok(bytes as u64)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("0.5 g", 1 << 29),
            ("512mib", 512 << 20),
            ("1000", 1000),
            ("3GB", 3_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "2 GiBs", "nan", "0", "1e30"] {
            assert!(size(text).unwrap_err().contains("2GiB"), "{text}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err() && seconds("x").is_err());
    }
}
