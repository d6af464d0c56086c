//! Whether two models mean the same words.

use cascade_core::Fingerprint;
use cascade_models::Tokenizer;

use crate::{Error, Result};

/// Refuses a drafter whose vocabulary is not the target's. The target's tokenizer serves the
/// message, and may be unknown.
pub(crate) fn check_same(
    label: &str,
    (drafter, tokenizer): (&str, &Tokenizer),
    (target, expected_tokenizer, expected): (&str, Option<&Tokenizer>, &Fingerprint),
) -> Result<()> {
    let found = tokenizer.fingerprint();
    if found == *expected {
        return Ok(());
    }
    let token = expected_tokenizer.and_then(|target| first_difference(tokenizer, target));
    let token = token.unwrap_or_default();
    Err(Error::Vocabulary {
        file: label.to_owned(),
        drafter: drafter.to_owned(),
        target: target.to_owned(),
        difference: format!("{token}fingerprints {found} and {expected}"),
    })
}

/// The first id that stands for different tokens, in words.
fn first_difference(drafter: &Tokenizer, target: &Tokenizer) -> Option<String> {
    let ids = drafter.id_bound().max(target.id_bound()) as u32;
    let id = (0..ids).find(|&id| drafter.id_to_token(id) != target.id_to_token(id))?;
    let token = |tokenizer: &Tokenizer| match tokenizer.id_to_token(id) {
        Some(token) => format!("{token:?}"),
        None => "no token".to_owned(),
    };
    Some(format!(
        "token {id} is {} in the drafter and {} in the target; ",
        token(drafter),
        token(target)
    ))
}
