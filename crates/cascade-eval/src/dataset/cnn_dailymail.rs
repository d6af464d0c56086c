//! CNN/DailyMail: news articles and their highlights.

use serde_json::Value;

use super::entry::{Entry, Object, Record, Result};
use crate::{Content, Sample};

pub(super) fn sample(mut entry: Entry, position: usize) -> Result<Sample> {
    let id = entry.id(&["id"], position);
    let content = Content::Article(entry.text(&["article"])?);
    let references = entry.references("highlights")?;
    Ok(entry.sample(id, None, content, references))
}

/// The articles of an object that lists them as `articles`, each in a record of its own.
pub(super) fn unfold(record: Record) -> Vec<Record> {
    let Record { place, object } = &record;
    match object.get("articles") {
        Some(Value::Array(articles)) if !object.contains_key("article") => {
            let one = |article: &Value| Record {
                place: *place,
                object: Object::from_iter([("article".to_owned(), article.clone())]),
            };
            articles.iter().map(one).collect()
        }
        _ => vec![record],
    }
}
