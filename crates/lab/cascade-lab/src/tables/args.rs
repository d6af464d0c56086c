//! Arguments of `cascade-lab bigram` and `cascade-lab ngram`.

use std::path::PathBuf;
use std::time::Duration;

use cascade_cli::args::size;
use clap::{Args, Subcommand};

use super::fit::FitArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum BigramCommand {
    /// Build a table from Wikipedia dumps or other text.
    Build(BuildArgs),
    /// Describe a table, or list the successors of a token.
    Show(ShowArgs),
    /// Compare the top successors of two tables.
    Compare {
        /// The table whose counts weight the tokens: a file, or embedded:NAME.
        first: String,
        /// The other table.
        second: String,
    },
    /// Build a table from a JSON list of top successors.
    Import(ImportArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum NgramCommand {
    /// Fit the weights of the Max-Gram tree to recorded outputs.
    ///
    /// Moves them so that the recorded tokens become more probable (Adagrad, one step for each
    /// token). A configuration names the file by `max_gram_tree: { weights: FILE }`.
    Fit(FitArgs),
}

/// What to count, and within which limits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Corpus")]
pub(crate) struct InputArgs {
    /// Files to count, or `-` for standard input: MediaWiki dumps (XML), Parquet or JSONL with a
    /// column or field `text`, or plain text with blank lines between documents; plain, gzip, zstd
    /// or bzip2. File types are detected from content.
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// The tokenizer: a tokenizer.json, tokenizer.model or .gguf file, a folder with one, a Hugging
    /// Face hub model (org/name), or embedded:NAME.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: String,

    /// Count each sentence once: leave out those that were read before. The sentences of all
    /// documents are remembered up to some millions, then the latest, in 128 MiB.
    #[arg(long)]
    pub(crate) unique_sentences: bool,

    /// Memory limit of the whole process, such as 512MiB or 2GiB; the rest is sorted on disk.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = size)]
    pub(crate) memory: u64,

    /// Stop after N documents. Files are read in order of their names.
    #[arg(long, value_name = "N")]
    pub(crate) limit_pages: Option<u64>,

    /// Resume an interrupted count from its last checkpoint.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Checkpoint interval, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub(crate) checkpoint: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct TableArgs {
    /// The table to write.
    #[arg(long, value_name = "TABLE.safetensors")]
    pub(crate) out: PathBuf,

    /// Successors to keep per context: 1 to 255.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) top_k: usize,

    /// Drop pairs that occur fewer than N times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) min_count: u64,

    /// Replace the table if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,

    /// Tokens of context: 1, which is enough for Max-Gram; or 2, for max_gram_tree: such a table
    /// also knows what follows two tokens.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) order: u8,

    /// With --order 2, drop contexts of two tokens that are continued fewer than N times.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) min_context: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The table: a file, or embedded:NAME.
    pub(crate) table: String,

    /// Token whose successors to list: a vocabulary entry, a text that is one token, or #ID. Given
    /// twice, what follows the two.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) token: Vec<String>,

    /// Id of the token whose successors to list. Given twice, what follows the two.
    #[arg(long, value_name = "ID", conflicts_with = "token")]
    pub(crate) id: Vec<u32>,

    /// Number of successors to list [default: all]; without a token, list the N most frequent
    /// tokens, each with its most frequent successor (of order 2, at most 64).
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// The table's tokenizer, to show text instead of ids. Not needed for embedded models.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A JSON list of the most frequent successor of each token.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) json: PathBuf,

    /// The tokenizer of the ids.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: String,

    /// The table to write.
    #[arg(long, value_name = "TABLE.safetensors")]
    pub(crate) out: PathBuf,

    /// Replace the table if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err() && seconds("x").is_err());
    }
}
