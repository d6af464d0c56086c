//! The Max-Gram tree of the arguments.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{anyhow, Result};
use cascade_core::Fingerprint;
use cascade_ngram::max_gram_tree::Weights;
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig, NgramTable};
use clap::Args;

use super::text::open;

/// What a Max-Gram tree drafts from.
#[derive(Debug, Args)]
pub(super) struct TreeArgs {
    /// A static table that it drafts from: a file, or embedded:NAME.
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,

    /// Weights to begin with [default: the shipped ones].
    #[arg(long, value_name = "FILE.json")]
    weights: Option<PathBuf>,

    /// Tokens of earlier outputs that are kept to draft from; 0 keeps none.
    #[arg(long, value_name = "N", default_value_t = MaxGramTreeConfig::default().session_tokens)]
    session_tokens: usize,
}

impl TreeArgs {
    /// The files, which no output may replace.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let table = self.table.iter().map(PathBuf::from);
        table.chain(self.weights.clone())
    }

    /// The drafter for outputs of this tokenizer. A recording does not know what the target would
    /// have said after rejected tokens, so it goes without that.
    pub(super) fn drafter(
        &self,
        tokenizer: &Fingerprint,
        learning_rate: f32,
    ) -> Result<MaxGramTree> {
        let table = self
            .table
            .as_deref()
            .map(|table| for_tokenizer(table, tokenizer))
            .transpose()?;
        let options = MaxGramTreeConfig {
            session_tokens: self.session_tokens,
            learning_rate,
            hints: 0,
            ..MaxGramTreeConfig::default()
        };
        let drafter = MaxGramTree::new(options, table);
        Ok(match &self.weights {
            Some(file) => {
                drafter.with_weights(Weights::open(file).map_err(|problem| anyhow!(problem))?)
            }
            None => drafter,
        })
    }
}

fn for_tokenizer(table: &str, tokenizer: &Fingerprint) -> Result<Arc<NgramTable>> {
    let table = open(table)?;
    table.check_tokenizer(tokenizer)?;
    Ok(Arc::new(table))
}
