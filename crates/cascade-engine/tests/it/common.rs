//! What several files use; first of all scripted models: they reproduce a fixed text, with mistakes
//! at chosen places, and log every call.

use std::sync::{Arc, Mutex};

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Drafter, GatheredProbs, Prompt, Result, RowDetail, ScoredTree, Scorer,
    ScorerInfo, Scores, TokenId, TokenTree, Top, Want,
};
use cascade_engine::{Cascade, CascadeBuilder, Convention, KMatrix, Options};

/// A matrix of quotas, each a number of added tokens.
pub(crate) fn matrix(rows: &[&[usize]]) -> KMatrix {
    KMatrix::new(rows.iter().map(|r| r.to_vec()).collect(), Convention::Added).unwrap()
}

/// What a [`Scripted`] target goes on with 2, 3, ….
pub(crate) fn prompt() -> Prompt {
    Prompt {
        context: vec![0, 1],
        ..Prompt::default()
    }
}

pub(crate) fn options(tokens: usize) -> Options {
    Options::default().with_max_new_tokens(tokens)
}

/// A cascade with a scripted target that makes no mistakes.
pub(crate) fn scripted(log: &Log) -> CascadeBuilder {
    Cascade::builder().target("target", Scripted::new("target", &[], log))
}

/// Lines like `base 0 1 2 | 3 4`: model, context, draft. A node of a draft that does not follow the
/// one before it names its parent: `5@0` follows node 0, `5@.` the context.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// The text is 0, 1, 2, 3, …: token `n` is at position `n`. With a mistake at `n`, the model
/// predicts `n + 100` instead.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) name: &'static str,
    pub(crate) mistakes: &'static [TokenId],
    pub(crate) log: Log,
}

impl Scripted {
    pub(crate) fn new(name: &'static str, mistakes: &'static [TokenId], log: &Log) -> Self {
        Self {
            name,
            mistakes,
            log: Arc::clone(log),
        }
    }

    fn says(&self, position: usize) -> TokenId {
        let right = position as TokenId;
        if self.mistakes.contains(&right) {
            right + 100
        } else {
            right
        }
    }

    /// Its prediction at a position, then the position plus 50, plus 51, ….
    fn top(&self, position: usize, width: usize) -> Vec<(TokenId, f32)> {
        let others = (0..).map(|i| (50 + position as TokenId + i, 0.1));
        std::iter::once((self.says(position), 0.5))
            .chain(others)
            .take(width)
            .collect()
    }

    fn book(&self, context: &[TokenId], tree: &TokenTree) {
        let context: Vec<String> = context.iter().map(ToString::to_string).collect();
        let draft: Vec<String> = (0..tree.len())
            .map(|node| match (tree.token(node), tree.parent(node)) {
                (token, parent) if parent.map_or(0, |p| p + 1) == node => token.to_string(),
                (token, Some(parent)) => format!("{token}@{parent}"),
                (token, None) => format!("{token}@."),
            })
            .collect();
        let line = format!("{} {} | {}", self.name, context.join(" "), draft.join(" "));
        self.log.lock().unwrap().push(line.trim_end().to_owned());
    }
}

impl Scorer for Scripted {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, 200)
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    /// Probabilities: 0.5 for its prediction, 0.25 for the correct token if that differs, 0 for the
    /// rest.
    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.book(context, tree);
        let position = |node: Option<usize>| context.len() + node.map_or(0, |n| tree.depth(n) + 1);
        let argmax: Vec<TokenId> = std::iter::once(None)
            .chain((0..tree.len()).map(Some))
            .map(|node| self.says(position(node)))
            .collect();
        let nodes = (0..tree.len())
            .map(|node| {
                let at = position(tree.parent(node));
                match tree.token(node) {
                    token if token == self.says(at) => 0.5,
                    token if token as usize == at => 0.25,
                    _ => 0.0,
                }
            })
            .collect();
        Ok(Scores::default()
            .with_gathered((want.rows == RowDetail::Gathered).then(|| GatheredProbs {
                argmax: vec![0.5; argmax.len()],
                nodes,
            }))
            .with_top((want.top > 0).then(|| {
                Top {
                    width: want.top,
                    tokens: std::iter::once(None)
                        .chain((0..tree.len()).map(Some))
                        .flat_map(|node| self.top(position(node), want.top))
                        .collect(),
                }
            }))
            .with_argmax(argmax)
            .with_rows_computed(tree.len() + 1))
    }
}

impl Drafter for Scripted {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let tree = TokenTree::chain((0..budget.depth).map(|i| self.says(context.len() + i)));
        self.book(context, &tree);
        tree.into()
    }
}

/// A toy whose scores are spoiled, in a way that may depend on the length of the context.
pub(crate) struct Spoiled<F> {
    pub(crate) model: ToyScorer,
    pub(crate) how: F,
}

impl<F: FnMut(usize, &mut Scores)> Scorer for Spoiled<F> {
    fn info(&self) -> ScorerInfo {
        self.model.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.model.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let mut scores = self.model.score(context, tree, want)?;
        (self.how)(context.len(), &mut scores);
        Ok(scores)
    }
}
