//! The list of this crate's drafters.

use crate::{BigramConfig, MaxGramConfig, MaxGramTreeConfig, PromptLookupConfig, drafter_kinds};

drafter_kinds! {
    /// The drafters of this crate.
    pub struct Builtin:
        MaxGramConfig,
        MaxGramTreeConfig,
        BigramConfig,
        PromptLookupConfig,
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::{DrafterConfig, TableLocator};

    fn place() -> impl Strategy<Value = TableLocator> {
        let name = "[a-z0-9 :#'\"-]{1,8}";
        prop_oneof![
            name.prop_map(TableLocator::Embedded),
            name.prop_map(|name| TableLocator::File(format!("/tables/{name}").into())),
        ]
    }

    /// Writes settings and reads them again.
    fn again<C: DrafterConfig + serde::de::DeserializeOwned>(settings: &C) -> C {
        let settings: &dyn DrafterConfig = settings;
        let text = serde_json::to_string(settings).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    proptest! {
        // The fields are all named: one that is added has to be written and read too.
        #[test]
        fn settings_that_are_written_are_read(
            places in (option::of(place()), option::of(place()), place()),
            counts in [1usize..9, 1..9, 1..9],
            shares in [0.0f32..=1.0, 0.0..=1.0],
            latest in any::<bool>(),
            tokens in any::<u32>(),
            hints in 0usize..=8,
        ) {
            let max_gram = MaxGramConfig {
                bigram: places.0.clone(),
                occurrence: if latest { crate::Occurrence::Latest } else { crate::Occurrence::Earliest },
                min_match: counts[0],
                branches: counts[1],
                width: counts[2],
            };
            prop_assert_eq!(again(&max_gram), max_gram);
            let tree = MaxGramTreeConfig {
                table: places.0,
                weights: places.1,
                min_probability: shares[0],
                session_tokens: tokens as usize,
                hints,
                learning_rate: shares[1],
            };
            prop_assert_eq!(again(&tree), tree);
            let bigram = BigramConfig { table: places.2, width: counts[0] };
            prop_assert_eq!(again(&bigram), bigram);
            let lookup = PromptLookupConfig { max_ngram: counts[0], branches: counts[1] };
            prop_assert_eq!(again(&lookup), lookup);
        }
    }

    #[test]
    fn settings_have_the_papers_defaults() {
        let max_gram: MaxGramConfig = serde_json::from_str("{}").unwrap();
        assert_eq!(max_gram, MaxGramConfig::default());
        let other: MaxGramConfig =
            serde_json::from_str(r#"{"occurrence": "latest", "width": 2}"#).unwrap();
        assert_eq!(
            (other.occurrence, other.width),
            (crate::Occurrence::Latest, 2)
        );
        assert!(serde_json::from_str::<MaxGramConfig>(r#"{"occurrence": "last"}"#).is_err());
        let zero = serde_json::from_str::<PromptLookupConfig>(r#"{"branches": 0}"#).unwrap_err();
        assert!(zero.to_string().contains("expected 1 or more"), "{zero}");
    }
}
