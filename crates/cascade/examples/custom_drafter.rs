//! A custom drafter: proposes what followed the last token at its previous occurrence.
//!
//! It learns from the emitted tokens (`observe`), which changes the speed and never the output.

use std::collections::HashMap;

use cascade::AssembleOptions;
use cascade::{
    Budget, Cascade, Convention, Drafter, KMatrix, Observation, Options, ScoredTree, TokenId,
    TokenTree,
};

#[derive(Default)]
struct LastFollower {
    followers: HashMap<TokenId, TokenId>,
}

impl Drafter for LastFollower {
    fn set_source(&mut self, source: &[TokenId]) {
        let pairs = source.windows(2).map(|pair| (pair[0], pair[1]));
        self.followers.extend(pairs);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let last = context.last().copied();
        let next = |token: &TokenId| self.followers.get(token).copied();
        let chain = std::iter::successors(last.as_ref().and_then(next), next);
        TokenTree::chain(chain.take(budget.depth)).into()
    }

    fn observe(&mut self, seen: &Observation<'_>) {
        let mut last = seen.context.last().copied();
        for &token in seen.emitted {
            if let Some(last) = last.replace(token) {
                self.followers.insert(last, token);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = cascade::demo::config()?;
    let pool = config.pool(&AssembleOptions::default());
    let target = pool.target(&config)?;
    let mut cascade = Cascade::builder()
        .target("target", target.session())
        .statistical("last follower", LastFollower::default())
        .k_matrix(KMatrix::new(vec![vec![4]], Convention::Added)?)
        .eos(target.eos_token_ids.iter().copied())
        .codec(std::sync::Arc::new(target.tokenizer.clone()))
        .build()?;
    let options = Options::default().with_max_new_tokens(64);
    let prompt = "Question: Tom reads 6 pages a day. How many in 5 days?";
    let fast = cascade.generate(prompt, &options)?;
    let plain = cascade.generate(prompt, &options.with_speculation(false))?;
    assert_eq!(fast.tokens, plain.tokens, "the answer is the target's");
    println!(
        "{} tokens in {} forwards instead of {}",
        fast.tokens.len(),
        fast.steps.len(),
        plain.steps.len()
    );
    Ok(())
}
