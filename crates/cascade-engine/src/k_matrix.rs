//! The K matrix: how many tokens each drafter adds.

use cascade_core::LevelId;

/// A square upper-triangular matrix for n drafters, largest first, the statistical one included
/// (K_nn in Cascade Speculative Drafting, Algorithm 1).
///
/// Row 0 is used when the target reviews, row `j + 1` when drafter `j` reviews. Entry `(r, j)` is
/// the number of tokens that drafter `j` adds to the draft for the reviewer of row `r`. A drafter
/// never drafts for itself or for a smaller one, so everything below the diagonal is zero.
///
/// # Example
/// The paper's best setting for FLAN-T5-XXL on GSM8K (Table 5: k11 = 8, k12 = 13, k22 = 1, with 10
/// tokens of Max-Gram each time) for base, small and Max-Gram, in both conventions:
/// ```
/// use cascade_engine::{Convention, KMatrix};
///
/// let added = KMatrix::new(
///     vec![vec![8, 5, 10], vec![0, 1, 10], vec![0, 0, 10]],
///     Convention::Added,
/// )?;
/// let running = KMatrix::new(
///     vec![vec![8, 13, 23], vec![0, 1, 11], vec![0, 0, 10]],
///     Convention::RunningSum,
/// )?;
/// assert_eq!(added, running);
/// # Ok::<(), cascade_engine::KMatrixError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KMatrix {
    /// Tokens added, row by row.
    added: Vec<Vec<usize>>,
}

/// What the entries of a written K matrix mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convention {
    /// Tokens that the drafter of the column adds. (The paper's K matrices for Vicuna.)
    #[default]
    Added,
    /// Tokens that the draft holds when the drafter of the column is done: the running sum along
    /// the row. (The paper's k11, k12, k22 for FLAN-T5.)
    RunningSum,
}

/// Why a matrix is not a valid K matrix. Rows and columns count from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KMatrixError {
    /// A row whose length is not the number of rows.
    #[error("the K matrix is not square: it has {rows} rows, but row {row} has {columns} columns")]
    NotSquare {
        /// Number of rows.
        rows: usize,
        /// The row.
        row: usize,
        /// Its length.
        columns: usize,
    },
    /// An entry below the diagonal.
    #[error(
        "the K matrix is not upper triangular: row {row}, column {column} is {value} and must be 0, \
         since no drafter drafts for itself or for a smaller one"
    )]
    BelowDiagonal {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The invalid entry.
        value: usize,
    },
    /// A running sum that decreases.
    #[error(
        "row {row} of the K matrix falls from {before} to {value} at column {column}, \
         and a running sum cannot fall; is it written in the `added` convention?"
    )]
    FallingSum {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
        /// The entry before.
        before: usize,
        /// The invalid entry.
        value: usize,
    },
}

impl KMatrix {
    /// Checks a matrix written in `convention`. A matrix without rows means plain decoding.
    pub fn new(rows: Vec<Vec<usize>>, convention: Convention) -> Result<Self, KMatrixError> {
        let n = rows.len();
        for (r, row) in rows.iter().enumerate() {
            if row.len() != n {
                return Err(KMatrixError::NotSquare {
                    rows: n,
                    row: r,
                    columns: row.len(),
                });
            }
            if let Some(column) = (0..r).find(|&c| row[c] != 0) {
                return Err(KMatrixError::BelowDiagonal {
                    row: r,
                    column,
                    value: row[column],
                });
            }
        }
        let added = match convention {
            Convention::Added => rows,
            Convention::RunningSum => differences(rows)?,
        };
        Ok(Self { added })
    }

    /// Number of drafters.
    pub fn size(&self) -> usize {
        self.added.len()
    }

    /// Tokens added, row by row, in the [`Convention::Added`]: n rows of n.
    pub fn rows(&self) -> &[Vec<usize>] {
        &self.added
    }

    /// Tokens that `drafter` adds when `reviewer` reviews; 0 if it is not a smaller level.
    ///
    /// # Panics
    /// If there is no such drafter, or if `reviewer` is the smallest level, which has no drafters.
    pub fn tokens(&self, reviewer: LevelId, drafter: LevelId) -> usize {
        match drafter.0.checked_sub(1) {
            Some(column) => self.added[reviewer.0][column],
            None => 0,
        }
    }

    /// Drafters that are never used, directly or through a drafter that reviews them: their columns
    /// are zero in every row that is used. `reviews` returns whether a level reviews drafts;
    /// statistical ones do not.
    pub fn idle_drafters(&self, reviews: impl Fn(LevelId) -> bool) -> Vec<LevelId> {
        let may_pair = |reviewer, drafter| self.tokens(reviewer, drafter) > 0;
        idle_drafters(self.size(), may_pair, reviews)
    }
}

fn differences(rows: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>, KMatrixError> {
    let difference = |row: usize, entries: &[usize], column: usize| {
        let before = if column > row { entries[column - 1] } else { 0 };
        entries[column]
            .checked_sub(before)
            .ok_or(KMatrixError::FallingSum {
                row,
                column,
                before,
                value: entries[column],
            })
    };
    rows.iter()
        .enumerate()
        .map(|(r, row)| (0..row.len()).map(|c| difference(r, row, c)).collect())
        .collect()
}

/// Drafters that never take part in a draft for the target, directly or through a drafter that
/// reviews them. `reviews` returns whether a level reviews drafts; statistical ones do not.
pub(crate) fn idle_drafters(
    drafters: usize,
    may_pair: impl Fn(LevelId, LevelId) -> bool,
    reviews: impl Fn(LevelId) -> bool,
) -> Vec<LevelId> {
    let mut drafts = vec![false; drafters + 1];
    let mut reviewing = vec![false; drafters + 1];
    reviewing[0] = true;
    for reviewer in 0..=drafters {
        for drafter in reviewer + 1..=drafters {
            if reviewing[reviewer] && may_pair(LevelId(reviewer), LevelId(drafter)) {
                drafts[drafter] = true;
                reviewing[drafter] |= reviews(LevelId(drafter));
            }
        }
    }
    (1..=drafters)
        .filter(|&level| !drafts[level])
        .map(LevelId)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(rows: &[&[usize]]) -> Result<KMatrix, KMatrixError> {
        KMatrix::new(rows.iter().map(|r| r.to_vec()).collect(), Convention::Added)
    }

    fn running(rows: &[&[usize]]) -> Result<KMatrix, KMatrixError> {
        KMatrix::new(
            rows.iter().map(|r| r.to_vec()).collect(),
            Convention::RunningSum,
        )
    }

    #[test]
    fn refuses_what_is_not_square_or_not_upper_triangular() {
        let not_square = added(&[&[1, 2], &[0]]).unwrap_err();
        assert!(
            not_square.to_string().contains("row 1 has 1 columns"),
            "{not_square}"
        );
        let below = added(&[&[1, 2], &[3, 4]]).unwrap_err();
        assert!(
            below.to_string().contains("row 1, column 0 is 3"),
            "{below}"
        );
        let falls = running(&[&[5, 3], &[0, 1]]).unwrap_err();
        assert!(
            falls.to_string().contains("falls from 5 to 3 at column 1"),
            "{falls}"
        );
        assert_eq!(added(&[]).unwrap().size(), 0);
    }

    /// Table 5 of the paper has both: 8, 13 as a running sum is 8, 5 added.
    #[test]
    fn both_conventions_give_the_tokens_added() {
        let rows = [vec![8, 5], vec![0, 10]];
        for k in [running(&[&[8, 13], &[0, 10]]), added(&[&[8, 5], &[0, 10]])] {
            assert_eq!(k.unwrap().rows(), rows);
        }
    }

    #[test]
    fn reports_who_never_drafts() {
        let all = added(&[&[5, 14, 10], &[0, 1, 10], &[0, 0, 10]]).unwrap();
        assert!(all.idle_drafters(|_| true).is_empty());
        // Drafter 1 would draft for drafter 0 only, and drafter 0 never drafts.
        let idle = added(&[&[0, 0, 10], &[0, 4, 10], &[0, 0, 10]]).unwrap();
        assert_eq!(idle.idle_drafters(|_| true), [LevelId(1), LevelId(2)]);
        // Drafter 1 drafts for drafter 0 only, which drafts for the target.
        let vertical = added(&[&[3, 0], &[0, 4]]).unwrap();
        assert!(vertical.idle_drafters(|_| true).is_empty());
        // A statistical drafter reviews nothing, so the row of drafter 0 is not used.
        let statistical = added(&[&[3, 0], &[0, 4]]).unwrap();
        assert_eq!(statistical.idle_drafters(|level| level.0 > 1), [LevelId(2)]);
    }
}
