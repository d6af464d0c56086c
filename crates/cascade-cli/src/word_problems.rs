//! What is said where the embedded demo is asked something that it has not learned.

use cascade_config::Config;
use cascade_demo::problems::Wording;
use cascade_models::ModelSource;

/// Words that are named at most.
const MOST: usize = 3;

/// A sentence on a question to an embedded model, if problems that it has learned are in other
/// words. Where they are in these, the question may be of another kind all the same.
pub(crate) fn remark(config: &Config, question: &str) -> Option<String> {
    if !matches!(config.target.source, ModelSource::Embedded(_)) {
        return None;
    }
    let wording = Wording::of(question);
    let reason = match (&wording.unknown[..], wording.known) {
        ([], 1..) => return None,
        ([], 0) => "this is none of its problems".to_owned(),
        (unknown, _) => {
            let named: Vec<String> = unknown
                .iter()
                .take(MOST)
                .map(|word| format!("{word:?}"))
                .collect();
            format!("none of its problems has {}", named.join(" or "))
        }
    };
    Some(format!(
        "{reason}; the demo knows word problems of the kinds that `cascade-lab demo problems` prints, and \
         nothing else"
    ))
}
