//! The drafters as entries of configurations: what they open, tell and draw.

use std::sync::Arc;

use cascade_core::{Budget, TokenId, TokenTree};
use cascade_ngram::{
    BigramConfig, DrafterConfig, DrafterFactory, DrafterKey, MaxGramConfig, NgramTable,
    PromptLookup, PromptLookupConfig, Resources, Result, TableLocator,
};

use crate::common::tables::bigrams;

/// One table, wherever it is looked for: 1 is followed by 2, 3 and 4, less and less often, and 2 by
/// 5.
struct OneTable(Arc<NgramTable>);

impl OneTable {
    fn new() -> Self {
        let documents = [[1, 2], [1, 2], [1, 2], [1, 3], [1, 3], [1, 4], [2, 5]];
        Self(Arc::new(bigrams(8, &documents.map(Vec::from), 8)))
    }
}

impl Resources for OneTable {
    fn table(&self, locator: &TableLocator) -> Result<Arc<NgramTable>> {
        assert_eq!(*locator, TableLocator::from("embedded:one"));
        Ok(Arc::clone(&self.0))
    }
}

fn tree(factory: &dyn DrafterFactory, context: &[TokenId], budget: Budget) -> TokenTree {
    let mut drafter = factory.drafter();
    drafter.set_source(&[]);
    drafter.propose(context, budget).into_tree()
}

fn chain(factory: &dyn DrafterFactory, context: &[TokenId]) -> Vec<TokenId> {
    tree(factory, context, Budget::chain(4)).tokens().collect()
}

fn with_table() -> MaxGramConfig {
    serde_json::from_str(r#"{"bigram": "embedded:one"}"#).unwrap()
}

#[test]
fn max_gram_opens_its_table() {
    let resources = OneTable::new();
    let mut config = with_table();
    let factory = config.open(&resources).unwrap();
    assert_eq!(chain(&*factory, &[7, 1]), [2, 5]);
    assert!(
        factory.source().starts_with("max-gram with "),
        "{}",
        factory.source()
    );
    let (key, place) = config.tables().pop().unwrap();
    assert_eq!(
        (key, &*place),
        ("max_gram.bigram", &TableLocator::from("embedded:one"))
    );
    *place = TableLocator::from("elsewhere");
    assert_eq!(config.bigram, Some(TableLocator::from("elsewhere")));

    let mut without = MaxGramConfig::default();
    let factory = without.open(&resources).unwrap();
    assert_eq!(chain(&*factory, &[7, 1]), [0u32; 0]);
    assert_eq!(factory.source(), "max-gram");
    assert!(without.tables().is_empty());
}

#[test]
fn a_bigram_opens_its_table_with_its_width() {
    let resources = OneTable::new();
    let mut config = BigramConfig::new(TableLocator::from("embedded:one"));
    let factory = config.open(&resources).unwrap();
    assert_eq!(chain(&*factory, &[1]), [2, 5]);
    assert_eq!(factory.source(), resources.0.file());
    assert_eq!(config.tables().len(), 1);
    config.width = 3;
    let budget = Budget { depth: 1, nodes: 8 };
    let wide = tree(&*config.open(&resources).unwrap(), &[1], budget);
    assert_eq!(wide.tokens().collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn prompt_lookup_opens_nothing() {
    let config: PromptLookupConfig = serde_json::from_str(r#"{"max_ngram": 2}"#).unwrap();
    let factory = config.open(&OneTable::new()).unwrap();
    assert_eq!(factory.source(), "prompt lookup, n <= 2");
    assert_eq!(chain(&*factory, &[3, 4, 5, 3]), [4, 5, 3]);
    assert!(config.clone().tables().is_empty());
}

/// An n-gram that occurs at the end alone has no continuation; a shorter one may.
#[test]
fn prompt_lookup_falls_back_to_shorter_ngrams() {
    let mut drafter = PromptLookup::new(3);
    let proposed = cascade_core::Drafter::propose(&mut drafter, &[1, 2, 9, 5, 2], Budget::chain(2));
    assert_eq!(*proposed.tree(), TokenTree::chain([9, 5]));
}

#[test]
fn drafters_are_called_by_their_keys() {
    let own_name = |config: &dyn DrafterConfig| config.own_name();
    assert_eq!(own_name(&MaxGramConfig::default()), "max-gram");
    assert_eq!(own_name(&PromptLookupConfig::default()), "prompt-lookup");
}

/// A configuration as the one of its drafter.
fn as_one<C: DrafterConfig + Clone>(config: &Arc<dyn DrafterConfig>) -> C {
    config.downcast_ref::<C>().unwrap().clone()
}

/// Random settings are drawn from ranges that begin at 1, and change nothing else.
#[test]
fn drawn_settings_are_described_and_keep_the_rest() {
    let mut drawn = Vec::new();
    let mut draw = |range: std::ops::Range<usize>| {
        drawn.push(range.clone());
        range.end - 1
    };
    let max_gram = with_table().with_drawn_settings(&mut draw).unwrap();
    let bigram = BigramConfig::new(TableLocator::from("embedded:one"))
        .with_drawn_settings(&mut draw)
        .unwrap();
    let lookup = PromptLookupConfig::default()
        .with_drawn_settings(&mut draw)
        .unwrap();
    assert!(
        drawn.iter().all(|range| range.start == 1 && range.end > 2),
        "{drawn:?}"
    );

    let found: MaxGramConfig = as_one(&max_gram);
    assert_eq!(found.bigram, with_table().bigram);
    assert_eq!(
        (found.branches, found.width),
        (drawn[0].end - 1, drawn[1].end - 1)
    );
    assert_eq!(as_one::<BigramConfig>(&bigram).width, drawn[2].end - 1);
    assert_eq!(
        as_one::<PromptLookupConfig>(&lookup).branches,
        drawn[3].end - 1
    );
    assert!(max_gram.downcast_ref::<BigramConfig>().is_none());

    // Settings are described, so that a report of a violation can be repeated.
    let PromptLookupConfig { branches, .. } = as_one(&lookup);
    let told = format!("branches {}, width {}", found.branches, found.width);
    assert_eq!(max_gram.settings(), told);
    assert_eq!(lookup.settings(), format!("branches {branches}"));
    assert_eq!(bigram.settings(), format!("width {}", drawn[2].end - 1));
}

/// A drafter without settings or tables.
#[test]
fn a_drafter_need_not_have_any_of_it() {
    #[derive(Debug, serde::Serialize)]
    struct Plain;
    impl DrafterKey for Plain {
        const KEY: &'static str = "plain";
    }
    impl DrafterConfig for Plain {
        fn open(
            &self,
            _: &dyn Resources,
        ) -> std::result::Result<Arc<dyn DrafterFactory>, cascade_ngram::OpenError> {
            Ok(Arc::new(|| PromptLookup::new(1)))
        }
    }
    let mut plain = Plain;
    assert!(plain.tables().is_empty() && plain.settings().is_empty());
    assert!(
        plain
            .with_drawn_settings(&mut |range| range.start)
            .is_none()
    );
    let factory = plain.open(&OneTable::new()).unwrap();
    assert_eq!(factory.source(), "no tables");
    assert_eq!(chain(&*factory, &[3, 4, 3]), [4, 3]);
}
