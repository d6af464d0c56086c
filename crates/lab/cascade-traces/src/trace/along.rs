//! A model's scores along a recorded output.

use cascade_core::{Error, Prompt, Scorer, Scores, TokenId, TokenTree, Want};

/// Scores an output after its prompt, so many tokens in a forward. `each` is called with the tokens
/// of a forward and the scores, of which row i is what the model says after i of them.
pub(crate) fn along<E: From<Error>>(
    model: &mut dyn Scorer,
    prompt: &Prompt,
    output: &[TokenId],
    (at_once, want): (usize, Want),
    mut each: impl FnMut(&[TokenId], &Scores) -> Result<(), E>,
) -> Result<(), E> {
    model.set_source(&prompt.source)?;
    let mut context = prompt.context.clone();
    for tokens in output.chunks(at_once.max(1)) {
        let chain = TokenTree::chain(tokens[..tokens.len() - 1].iter().copied());
        each(tokens, &model.score(&context, &chain, want)?)?;
        context.extend_from_slice(tokens);
    }
    Ok(())
}

/// The rows of logits that a forward gave.
///
/// # Errors
/// A scorer that gave none.
pub(crate) fn logits(scores: &Scores) -> cascade_core::Result<impl Iterator<Item = &[f32]>> {
    let logits = scores
        .logits
        .as_ref()
        .ok_or_else(|| Error::BrokenContract {
            interface: "Scorer::score",
            violation: "it returned no logits, which were asked for".to_owned(),
        })?;
    Ok((0..logits.rows()).map(|row| logits.row(row)))
}

/// Tokens of a forward that gives logits: enough to be quick, few enough that their logits are
/// small, and no more than the model takes.
pub(crate) fn at_once(model: &dyn Scorer) -> usize {
    const TOKENS: usize = 128;
    let most = model.info().max_nodes;
    most.map_or(TOKENS, |most| most.min(TOKENS))
}
