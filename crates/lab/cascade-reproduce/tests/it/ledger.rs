//! SWI from ledgers, against cases counted by hand.

use cascade_core::{
    Architecture, Budget, Drafter, Prompt, Result, ScoredTree, Scorer, ScorerInfo, Scores, TokenId,
    TokenTree, Want,
};
use cascade_engine::{Cascade, Convention, GenerationOutput, KMatrix, Options};
use cascade_traces::CostTable;

const PROMPT: [TokenId; 2] = [90, 91];
const NEW_TOKENS: usize = 8;

/// Says 10, 11, 12, … after the prompt, and 99 at the positions where it errs, whatever the
/// context.
#[derive(Clone)]
struct Scripted {
    errs: Vec<usize>,
}

impl Scripted {
    fn says(&self, position: usize) -> TokenId {
        if self.errs.contains(&position) {
            99
        } else {
            10 + position as TokenId
        }
    }
}

impl Scorer for Scripted {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, 100)
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, _want: Want) -> Result<Scores> {
        let start = context.len() - PROMPT.len();
        // The trees here are chains.
        let argmax: Vec<TokenId> = (0..=tree.len()).map(|row| self.says(start + row)).collect();
        Ok(Scores::default()
            .with_rows_computed(argmax.len())
            .with_argmax(argmax))
    }
}

impl Drafter for Scripted {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let start = context.len() - PROMPT.len();
        TokenTree::chain((0..budget.depth).map(|i| self.says(start + i))).into()
    }
}

fn errs(positions: &[usize]) -> Scripted {
    Scripted {
        errs: positions.to_vec(),
    }
}

fn generate(mut cascade: Cascade) -> GenerationOutput {
    let prompt = Prompt {
        context: PROMPT.to_vec(),
        ..Prompt::default()
    };
    let options = Options::default().with_max_new_tokens(NEW_TOKENS);
    let generation = cascade.generate_tokens(&prompt, &options).unwrap();
    let right: Vec<TokenId> = (10..10 + NEW_TOKENS as TokenId).collect();
    assert_eq!(generation.tokens, right);
    generation
}

fn calls(generation: &GenerationOutput) -> Vec<u64> {
    generation
        .models
        .iter()
        .map(|model| model.usage.calls)
        .collect()
}

fn k(rows: &[&[usize]]) -> KMatrix {
    let rows = rows.iter().map(|row| row.to_vec()).collect();
    KMatrix::new(rows, Convention::Added).unwrap()
}

#[test]
fn plain_decoding_has_an_swi_of_exactly_one() {
    let generation = generate(
        Cascade::builder()
            .target("target", errs(&[]))
            .build()
            .unwrap(),
    );
    assert_eq!(calls(&generation), [8]);
    for costs in [CostTable::model_size(), CostTable::previous_work()] {
        let cost = costs.in_target_forwards("target", [("target", 8)]).unwrap();
        assert_eq!(generation.tokens.len() as f64 / cost, 1.0);
    }
    assert_eq!(generation.mean_acceptance_length(), 1.0);
}

/// Drafts of 3; the drafter is wrong about token 2.
///
/// * Step 1: drafts 0, 1, 2 in 3 forwards; the target keeps 0 and 1 and says 2. 3 tokens.
/// * Step 2: drafts 3, 4, 5 in 3 forwards; all are kept, the target says 6. 7 tokens.
/// * Step 3: one token is left, which the target says alone. 8 tokens.
#[test]
fn speculative_decoding_as_counted_by_hand() {
    let cascade = Cascade::builder()
        .target("target", errs(&[]))
        .neural("base", errs(&[2]))
        .k_matrix(k(&[&[3]]))
        .build();
    let generation = generate(cascade.unwrap());
    assert_eq!(calls(&generation), [3, 6]);
    let cost = CostTable::model_size()
        .in_target_forwards("target", [("target", 3), ("base", 6)])
        .unwrap();
    let swi = 8.0 / cost;
    assert!((swi - 8.0 * 11300.0 / (3.0 * 11300.0 + 6.0 * 220.0)).abs() < 1e-12);
    assert!((generation.mean_acceptance_length() - 8.0 / 3.0).abs() < 1e-12);
}

/// K = [[1, 2], [0, 2]]; Max-Gram is wrong about token 5.
///
/// * Step 1: to draft 1 token, base lets Max-Gram draft 0 and 1, keeps both and adds 2: one forward
///   of base, 3 tokens. That is all that the row asks for. The target keeps the 3 and says 3. 4
///   tokens.
/// * Step 2: 4 are left, so drafts hold at most 3. Max-Gram drafts 4 and 5; base keeps 4 and says
///   5: one forward, 2 tokens. Max-Gram adds 6, since the row asks for 3. The target keeps the 3
///   and says 7. 8 tokens.
#[test]
fn a_cascade_as_counted_by_hand() {
    let cascade = Cascade::builder()
        .target("target", errs(&[]))
        .neural("base", errs(&[]))
        .statistical("mag", errs(&[5]))
        .k_matrix(k(&[&[1, 2], &[0, 2]]))
        .build();
    let generation = generate(cascade.unwrap());
    assert_eq!(calls(&generation), [2, 2, 3]);
    // Max-Gram is free: its calls are not asked for.
    let cost = CostTable::previous_work()
        .in_target_forwards("target", [("target", 2), ("base", 2)])
        .unwrap();
    assert!((8.0 / cost - 8.0 / (2.0 + 2.0 * 0.04)).abs() < 1e-12);
}
