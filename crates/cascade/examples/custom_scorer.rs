//! A custom model: anything that can predict the next token after each node of a tree.
//!
//! This one counts, and makes occasional mistakes, so that there is something to reject.

use cascade::{
    Architecture, Cascade, Convention, GatheredProbs, KMatrix, Options, Prompt, RowDetail, Scorer,
    ScorerInfo, Scores, TokenId, TokenTree, Want,
};

const VOCABULARY: usize = 100;

/// Predicts the next number, or the one after that if the last token is a multiple of `mistakes`
/// (never if it is 0).
struct Counter {
    mistakes: TokenId,
}

impl Counter {
    fn next(&self, last: TokenId) -> TokenId {
        let slip = TokenId::from(self.mistakes > 0 && last.is_multiple_of(self.mistakes));
        (last + 1 + slip) % VOCABULARY as TokenId
    }
}

impl Scorer for Counter {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, VOCABULARY)
    }

    fn set_source(&mut self, _source: &[TokenId]) -> cascade::core::Result<()> {
        Ok(())
    }

    /// Row 0 follows the context, row i + 1 follows node i. What was not requested may be omitted;
    /// if a requested part is missing, the engine returns an error that names it.
    fn score(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> cascade::core::Result<Scores> {
        let last = *context.last().ok_or(cascade::core::Error::EmptyContext)?;
        let before: Vec<TokenId> = std::iter::once(last).chain(tree.tokens()).collect();
        let argmax: Vec<TokenId> = before.iter().map(|&last| self.next(last)).collect();
        let sure = |node: usize| {
            let said = argmax[TokenTree::row(tree.parent(node))];
            f32::from(u8::from(said == tree.token(node)))
        };
        Ok(Scores::default()
            .with_gathered((want.rows == RowDetail::Gathered).then(|| GatheredProbs {
                argmax: vec![1.0; argmax.len()],
                nodes: (0..tree.len()).map(sure).collect(),
            }))
            .with_rows_computed(argmax.len())
            .with_argmax(argmax))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cascade = Cascade::builder()
        .target("target", Counter { mistakes: 0 })
        .neural("drafter", Counter { mistakes: 7 })
        .k_matrix(KMatrix::new(vec![vec![5]], Convention::Added)?)
        .build()?;
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1]);
    let options = Options::default().with_max_new_tokens(30);
    let output = cascade.generate_tokens(&prompt, &options)?;
    assert_eq!(output.tokens, (2..32).collect::<Vec<TokenId>>());
    println!(
        "{:?}\n{:.2} tokens per forward of the target",
        output.tokens,
        output.mean_acceptance_length()
    );
    Ok(())
}
