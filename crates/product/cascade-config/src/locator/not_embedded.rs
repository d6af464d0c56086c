//! Stands in for `embedded.rs` where the feature `demo` is off: nothing is part of the program.

use cascade_models::ModelSource;

use super::Unknown;

/// Names of the tables.
pub(super) const TABLES: &[&str] = &[];

pub(super) fn model(_: &str) -> Result<ModelSource, Unknown> {
    Err(refusal())
}

pub(super) fn models_hint() -> String {
    "check the text".to_owned()
}

pub(super) fn table(_: &str) -> Result<&'static [u8], Unknown> {
    Err(refusal())
}

pub(super) fn config(_: &str) -> Result<Option<&'static str>, Unknown> {
    Err(refusal())
}

fn refusal() -> Unknown {
    (
        "this program was built without the feature \"demo\" of cascade-config, which embeds it"
            .to_owned(),
        "build it with the feature, or give a file or folder".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use crate::{model_source, Config};

    #[test]
    fn embedded_files_are_refused_by_the_name_of_the_feature() {
        let config = Config::open("embedded:demo-t5").unwrap_err();
        let model = model_source("embedded:demo-t5-target").unwrap_err();
        for error in [config, model] {
            let message = error.to_string();
            assert!(message.contains("feature \"demo\""), "{message}");
        }
    }
}
