//! Word problems of the project's own, made or read from a file.

use std::fmt;

use cascade_demo::problems::{Problem, ProblemKind, Split, problems};

use super::taken::Taken;
use crate::{Content, ContentKind, Error, PromptTemplate, Sample, Selection};

/// Which word problems: `problems:KIND:SPLIT:SEED`, any part of which may be left out.
///
/// Problems are drawn one after the other by the seed, each independently of the others, so the
/// first of a seed are a sample as good as any. A set has [`most`](Self::most) of them, of which
/// [`LENGTH`](Self::LENGTH) are taken without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProblemSet {
    /// `word-problem` (default) or `multiple-choice`.
    pub kind: ProblemKind,
    /// `test` (default), `validation`, `train`, `held-out` for templates that no model was trained
    /// on, or `ordinary` for thirty problems of no template.
    pub split: Split,
    /// 0 by default.
    pub seed: u64,
}

const NAME: &str = "problems";

impl ProblemSet {
    /// Word problems of the test split.
    pub const DEFAULT: Self = Self {
        kind: ProblemKind::WordProblem,
        split: Split::Test,
        seed: 0,
    };

    /// Problems that are taken after the offset if nothing limits them.
    pub const LENGTH: usize = 1000;

    /// The set of a name; `None` for a part that is no kind, split or seed, or comes twice.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let mut parts = name.split(':');
        (parts.next() == Some(NAME)).then_some(())?;
        let (mut kind, mut split, mut seed) = (None, None, None);
        for part in parts {
            let known = match (part.parse(), part.parse(), part.parse()) {
                (Ok(part), ..) => kind.replace(part).is_none(),
                (_, Ok(part), _) => split.replace(part).is_none(),
                (.., Ok(part)) => seed.replace(part).is_none(),
                _ => false,
            };
            known.then_some(())?;
        }
        Some(Self {
            kind: kind.unwrap_or(Self::DEFAULT.kind),
            split: split.unwrap_or(Self::DEFAULT.split),
            seed: seed.unwrap_or(Self::DEFAULT.seed),
        })
    }

    /// Problems of a set that templates make; those after it are for whoever asks for more with
    /// [`problems`](Self::problems).
    pub const MOST: usize = 100_000;

    /// How many problems this set has.
    pub fn most(self) -> usize {
        match self.split {
            Split::Ordinary => self.problems().count(),
            _ => Self::MOST,
        }
    }

    /// What the problems are asked with: a configuration's template if it takes problems of this
    /// kind, else `problem`.
    pub fn template(self, configured: PromptTemplate) -> PromptTemplate {
        let kind = match self.kind {
            ProblemKind::WordProblem => ContentKind::Question,
            ProblemKind::MultipleChoice => ContentKind::MultipleChoice,
        };
        if configured.accepts(kind) {
            configured
        } else {
            PromptTemplate::Problem
        }
    }

    /// The problems in their order, without end but for those of `ordinary`.
    pub fn problems(self) -> impl Iterator<Item = Problem> {
        problems(self.kind, self.split, self.seed)
    }

    /// A problem as a sample: its position is its id, its template the category, and the worked
    /// solution the reference.
    pub fn sample(position: usize, problem: Problem) -> Sample {
        let question = problem.question;
        let content = match problem.choices {
            None => Content::Question(question),
            Some(choices) => Content::MultipleChoice { question, choices },
        };
        Sample {
            category: Some(problem.template.to_owned()),
            references: vec![vec![problem.solution]],
            ..Sample::new(position.to_string(), content)
        }
    }

    /// The selected ones.
    pub(super) fn samples(self, selection: Selection) -> crate::Result<Vec<Sample>> {
        let (offset, most) = (selection.offset, self.most());
        if offset >= most {
            return Err(Error::offset_past_end(&self.to_string(), offset, most));
        }
        let limit = selection.limit.unwrap_or(Self::LENGTH);
        let mut taken = Taken::new(Selection {
            limit: Some(limit),
            ..selection
        });
        for (position, problem) in self.problems().take(Self::MOST).enumerate() {
            if taken.is_complete() {
                break;
            }
            taken.push(Self::sample(position, problem));
        }
        taken.finish(&self.to_string())
    }
}

/// What is not the default, after the name.
impl fmt::Display for ProblemSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::DEFAULT;
        f.write_str(NAME)?;
        if self.kind != default.kind {
            write!(f, ":{}", self.kind)?;
        }
        if self.split != default.split {
            write!(f, ":{}", self.split)?;
        }
        if self.seed != default.seed {
            write!(f, ":{}", self.seed)?;
        }
        Ok(())
    }
}
