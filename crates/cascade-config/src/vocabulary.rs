//! Whether two models mean the same words.

use cascade_core::{Fingerprint, TokenId};
use cascade_engine::DraftVocabulary;
use cascade_models::Tokenizer;

use crate::{Error, Result};

/// Differing tokens that a note names.
const NAMED: usize = 6;

/// How the vocabulary of a drafter fits the one of its target.
#[derive(Clone, Debug, Default)]
pub(crate) struct VocabularyMatch {
    /// The tokens that mean the same in both: what the drafter may draft.
    pub(crate) vocabulary: DraftVocabulary,
    /// Which tokens differ, in a sentence.
    pub(crate) note: Option<String>,
}

/// Compares a drafter's tokenizer with the target's, and refuses it if tokens differ that texts are
/// made of. Added tokens may differ, as the names of unused ones do between models of one family:
/// these are not drafted. The target's tokenizer, which is asked for if there is a difference, may
/// be unknown; then there must be none.
pub(crate) fn shared(
    label: &str,
    (drafter, tokenizer): (&str, &Tokenizer),
    (target, expected): (&str, &Fingerprint),
    target_tokenizer: impl FnOnce() -> Option<Tokenizer>,
) -> Result<VocabularyMatch> {
    let found = tokenizer.fingerprint();
    if found == *expected {
        return Ok(VocabularyMatch {
            // Rows behind the last token are padding.
            vocabulary: DraftVocabulary::below(id_bound(tokenizer)),
            note: None,
        });
    }
    let refused = |difference: String| Error::Vocabulary {
        file: label.to_owned(),
        drafter: drafter.to_owned(),
        target: target.to_owned(),
        difference,
    };
    let Some(target_tokenizer) = target_tokenizer() else {
        return Err(refused(format!(
            "fingerprints {found:.15} and {expected:.15}"
        )));
    };
    let differences: Vec<Difference> = differences(tokenizer, &target_tokenizer).collect();
    if let Some(word) = differences.iter().find(|different| !different.added) {
        return Err(refused(word.in_words()));
    }
    let end = id_bound(tokenizer).min(id_bound(&target_tokenizer));
    let ids = differences.iter().map(|different| different.id);
    Ok(VocabularyMatch {
        vocabulary: DraftVocabulary::below(end).without(ids),
        note: (!differences.is_empty()).then(|| note(drafter, target, &differences)),
    })
}

fn id_bound(tokenizer: &Tokenizer) -> TokenId {
    TokenId::try_from(tokenizer.id_bound()).unwrap_or(TokenId::MAX)
}

/// An id that stands for one token in the drafter and for another, or none, in the target.
struct Difference {
    id: TokenId,
    drafter: Option<String>,
    target: Option<String>,
    /// Whether it is an added token wherever it is one.
    added: bool,
}

impl Difference {
    fn in_words(&self) -> String {
        let token = |token: &Option<String>| match token {
            Some(token) => format!("{token:?}"),
            None => "no token".to_owned(),
        };
        format!(
            "token {} is {} in the drafter and {} in the target",
            self.id,
            token(&self.drafter),
            token(&self.target)
        )
    }
}

fn differences<'a>(
    drafter: &'a Tokenizer,
    target: &'a Tokenizer,
) -> impl Iterator<Item = Difference> + 'a {
    let ids = id_bound(drafter).max(id_bound(target));
    (0..ids).filter_map(|id| {
        let (in_drafter, in_target) = (drafter.id_to_token(id), target.id_to_token(id));
        (in_drafter != in_target).then(|| Difference {
            id,
            added: (in_drafter.is_none() || drafter.is_added(id))
                && (in_target.is_none() || target.is_added(id)),
            drafter: in_drafter,
            target: in_target,
        })
    })
}

fn note(drafter: &str, target: &str, differences: &[Difference]) -> String {
    let named: Vec<String> = differences
        .iter()
        .take(NAMED)
        .map(Difference::in_words)
        .collect();
    let further = match differences.len().saturating_sub(NAMED) {
        0 => String::new(),
        further => format!(", and {further} more"),
    };
    format!(
        "drafter `{drafter}` has other added tokens than target `{target}`, which it never drafts: \
         {}{further}",
        named.join(", ")
    )
}
