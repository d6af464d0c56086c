//! Calls of several sessions in one forward.

mod batcher;
mod ledger;
mod workers;

use std::sync::Arc;

pub use batcher::{BatchCounts, BatchedSession, Batcher, Participant, TakesPart};
use cascade_core::{Result, Scorer, Scores, TokenId, TokenTree, Want};
pub use workers::Workers;

use crate::backend::network::CHUNK;
use crate::session::{Scoring, Session};

/// A call of [`score`](cascade_core::Scorer::score) among several.
#[derive(Debug)]
pub struct ScoreCall<'a> {
    /// The session that scores.
    pub session: &'a mut Session,
    /// The tokens before the tree.
    pub context: &'a [TokenId],
    /// What is scored.
    pub tree: &'a TokenTree,
    /// What the caller needs.
    pub want: Want,
}

/// Answers calls of several sessions, each as [`score`](cascade_core::Scorer::score) answers it
/// alone, to the bit. Rows of sessions of one model that [gathers](crate::Model::gathers) are
/// computed in one forward, so that weights are read once for all of them; longer contexts are read
/// in several, beside the rows of the other calls.
///
/// The error of a call concerns that call alone.
pub fn score_together(calls: Vec<ScoreCall<'_>>) -> Vec<Result<Scores>> {
    let mut answers: Vec<Option<Result<Scores>>> = Vec::new();
    let mut begun = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        if !call.session.model().gathers() {
            answers.push(Some(call.session.score(call.context, call.tree, call.want)));
            continue;
        }
        match call.session.begin(call.context, call.tree, call.want) {
            Ok(scoring) => {
                answers.push(None);
                begun.push((number, call.session, scoring));
            }
            Err(error) => answers.push(Some(Err(error))),
        }
    }
    while let Some((_, first, _)) = begun.first() {
        let model = Arc::clone(first.model());
        let (numbers, calls): (Vec<_>, Vec<_>) = begun
            .iter_mut()
            .filter(|(_, session, _)| Arc::ptr_eq(session.model(), &model))
            .map(|(number, session, scoring)| (*number, (&mut **session, scoring)))
            .unzip();
        let forward = forward(calls, Company::Alone, Pieces::default());
        for (number, given) in numbers.into_iter().zip(forward.answers) {
            answers[number] = given;
        }
        begun.retain(|(number, ..)| answers[*number].is_none());
    }
    answers.into_iter().flatten().collect()
}

/// Whether calls that are not in a forward wait for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    Alone,
    OthersWait,
}

/// A forward over rows of several calls.
#[derive(Debug, Default)]
struct Forward {
    /// The answer of each call, in their order; nothing for calls that have rows left.
    answers: Vec<Option<Result<Scores>>>,
    /// Rows of each call, in their order.
    rows: Vec<usize>,
    /// Whether a piece of a prompt is among them.
    reads_prompt: bool,
}

/// Calls of a forward, and their sessions.
type Calls<'a> = Vec<(&'a mut Session, &'a mut Scoring)>;

/// Runs one forward over rows of some calls on sessions of one model that gathers, the oldest call
/// first.
fn forward(mut calls: Calls<'_>, company: Company, pieces: Pieces) -> Forward {
    let Some((first, _)) = calls.first() else {
        return Forward::default();
    };
    let model = Arc::clone(first.model());
    for (session, scoring) in &mut calls {
        session.adopt(scoring);
    }
    let needs = needs(&calls);
    let shares = shares(&needs, CHUNK, company, pieces);
    let rows: Vec<_> = calls
        .iter_mut()
        .zip(&shares)
        .filter_map(|((session, scoring), share)| {
            share.map(|allowed| session.new_rows(scoring, allowed))
        })
        .collect();
    let mut of_texts = rows.iter().map(|rows| rows.plan.rows());
    let computed = shares
        .iter()
        .map(|share| share.and_then(|_| of_texts.next()))
        .map(Option::unwrap_or_default)
        .collect();
    let mut given = model.network().forward(rows).into_iter();
    let mut take = |(session, scoring): (&mut Session, &mut Scoring), share: Option<usize>| {
        let given = share.and_then(|_| given.next())?;
        session.take(scoring, given)
    };
    let calls = calls.into_iter().zip(&shares);
    Forward {
        answers: calls.map(|(call, share)| take(call, *share)).collect(),
        rows: computed,
        reads_prompt: needs
            .iter()
            .zip(&shares)
            .any(|(need, share)| share.is_some() && need.is_some_and(RowsNeeded::is_prompt)),
    }
}

/// What each call needs, unless it waits.
fn needs(calls: &[(&mut Session, &mut Scoring)]) -> Vec<Option<RowsNeeded>> {
    let calls = calls.iter().zip(waiting(calls));
    calls
        .map(|(call, waits)| (!waits).then(|| RowsNeeded::by(call)))
        .collect()
}

/// Which calls wait for the end of an older one, which computes what they can take over.
fn waiting(calls: &[(&mut Session, &mut Scoring)]) -> Vec<bool> {
    let mut waiting: Vec<bool> = Vec::with_capacity(calls.len());
    for (session, scoring) in calls {
        let mut older = calls
            .iter()
            .zip(&waiting)
            .filter(|(_, waits)| !**waits)
            .map(|((other, its), _)| (&**other, &**its));
        let waits = older.any(|other| session.waits_for(scoring, other));
        waiting.push(waits);
    }
    waiting
}

/// Rows that a call still needs.
#[derive(Clone, Copy, Debug)]
struct RowsNeeded {
    /// Tokens of the context, one at least.
    context: usize,
    nodes: usize,
}

impl RowsNeeded {
    /// The rows that a call needs.
    fn by((session, scoring): &(&mut Session, &mut Scoring)) -> Self {
        Self {
            context: session.missing(scoring),
            nodes: scoring.nodes(),
        }
    }

    /// Whether the call reads a prompt, and not only tokens emitted since the last call.
    fn is_prompt(self) -> bool {
        self.context > 16
    }
}

/// Rows of prompts in a forward: enough to use each weight as often as it pays once it is read, and
/// few enough that others go on soon, and that a prompt is given up soon that nobody waits for.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    /// At most, where no other text waits.
    alone: usize,
    /// At least and at most, where others wait for their tokens.
    beside_others: (usize, usize),
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            alone: CHUNK,
            beside_others: (16, 64),
        }
    }
}

impl Pieces {
    /// Where somebody reads tokens as they come.
    const OF_STREAMS: Self = Self {
        alone: 128,
        beside_others: (16, 16),
    };
}

/// How many tokens of the context each call has computed in the next forward, the oldest call
/// first; `None` for those that wait for a later one or for an older call.
///
/// There are about `most` rows at most. Prompts share what the others leave of it, and take turns
/// if that is little.
fn shares(
    needs: &[Option<RowsNeeded>],
    most: usize,
    company: Company,
    pieces: Pieces,
) -> Vec<Option<usize>> {
    let mut left = most;
    let mut shares = vec![None; needs.len()];
    let needs = || {
        (0..)
            .zip(needs)
            .filter_map(|(call, need)| Some((call, (*need)?)))
    };
    for (call, need) in needs().filter(|(_, need)| !need.is_prompt()) {
        let rows = need.context + need.nodes;
        if rows <= left || left == most {
            shares[call] = Some(need.context);
            left = left.saturating_sub(rows);
        }
    }
    let (least, most) = if left < most || company == Company::OthersWait {
        pieces.beside_others
    } else {
        (0, pieces.alone)
    };
    left = left.clamp(least, most);
    for (call, need) in needs().filter(|(_, need)| need.is_prompt()) {
        if left > 0 {
            let allowed = need.context.min(left);
            shares[call] = Some(allowed);
            left -= allowed;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(needs: &[(usize, usize)]) -> Vec<Option<usize>> {
        let need = |&(context, nodes): &(usize, usize)| Some(RowsNeeded { context, nodes });
        let needs: Vec<_> = needs.iter().map(need).collect();
        shares(&needs, 512, Company::Alone, Pieces::default())
    }

    /// Rows beside others at least and at most.
    fn beside_others() -> (usize, usize) {
        Pieces::default().beside_others
    }

    #[test]
    fn one_call_has_whole_forwards() {
        assert_eq!(of(&[(1, 7)]), [Some(1)]);
        assert_eq!(of(&[(512, 7)]), [Some(512)]);
        assert_eq!(of(&[(513, 7)]), [Some(512)]);
        // However large its tree.
        assert_eq!(of(&[(1, 2000)]), [Some(1)]);
    }

    #[test]
    fn prompts_are_read_beside_others() {
        let (_, share) = beside_others();
        assert_eq!(of(&[(1900, 0), (1, 4)]), [Some(share), Some(1)]);
        assert_eq!(
            of(&[(1, 4), (40, 0), (40, 3), (40, 0)]),
            [Some(1), Some(40), Some(share - 40), None]
        );
        // Nobody waits for them: the oldest is read first.
        assert_eq!(
            of(&[(400, 0), (400, 0), (40, 0)]),
            [Some(400), Some(112), None]
        );
    }

    #[test]
    fn prompts_hold_up_no_other_model_for_long() {
        let prompt = Some(RowsNeeded {
            context: 1900,
            nodes: 0,
        });
        let (_, share) = beside_others();
        let of = |company| shares(&[prompt], 512, company, Pieces::default());
        assert_eq!(of(Company::OthersWait), [Some(share)]);
        assert_eq!(of(Company::Alone), [Some(512)]);
    }

    #[test]
    fn prompts_of_streams_are_read_in_small_pieces() {
        let prompt = RowsNeeded {
            context: 1900,
            nodes: 0,
        };
        let decoding = RowsNeeded {
            context: 1,
            nodes: 4,
        };
        let of =
            |needs: &[Option<RowsNeeded>], company| shares(needs, 512, company, Pieces::OF_STREAMS);
        let (alone, beside) = ([Some(prompt)], [Some(prompt), Some(decoding)]);
        assert_eq!(of(&alone, Company::Alone), [Some(128)]);
        assert_eq!(of(&alone, Company::OthersWait), [Some(16)]);
        assert_eq!(of(&beside, Company::Alone), [Some(16), Some(1)]);
    }

    #[test]
    fn forwards_are_bounded() {
        let shares = of(&[(2, 98); 8]);
        let taken = shares.iter().flatten().count();
        assert_eq!(taken, 5);
        assert!(shares[..5].iter().all(|share| *share == Some(2)));
        // However many others there are, a prompt goes on.
        let (least, _) = beside_others();
        assert_eq!(of(&[(1, 255), (1, 255), (90, 0)])[2], Some(least));
    }
}
