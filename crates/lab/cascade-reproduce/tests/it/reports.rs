//! Reports and folders of results.

mod documents;
mod results;
