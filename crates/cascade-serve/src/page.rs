//! The page at `/`: our own files, which are part of the program and load nothing from elsewhere.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

/// Nothing but our own scripts, styles and answers; no frames, no forms to other places.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files: their paths, types and contents.
pub(crate) const FILES: [(&str, &str, &str); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_str!("../page/app.js"),
    ),
    (
        "/markdown.js",
        "text/javascript; charset=utf-8",
        include_str!("../page/markdown.js"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("../page/style.css"),
    ),
];

/// The router with the page.
pub(crate) fn added_to<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    FILES
        .into_iter()
        .fold(router, |router, (path, kind, content)| {
            router.route(path, get(move || async move { file(kind, content) }))
        })
}

fn file(kind: &'static str, content: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content)
}
