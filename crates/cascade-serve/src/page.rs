//! The page at `/`: our own files, which are part of the program and load nothing from elsewhere.

use axum::body::Body;
use axum::http::{header, HeaderValue, Response};

/// Nothing but our own scripts, styles and answers; no frames, no forms to other places.
const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn index() -> Response<Body> {
    file(
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
    )
}

pub(crate) async fn script() -> Response<Body> {
    file(
        "text/javascript; charset=utf-8",
        include_str!("../page/app.js"),
    )
}

pub(crate) async fn markdown() -> Response<Body> {
    file(
        "text/javascript; charset=utf-8",
        include_str!("../page/markdown.js"),
    )
}

pub(crate) async fn style() -> Response<Body> {
    file("text/css; charset=utf-8", include_str!("../page/style.css"))
}

fn file(kind: &'static str, content: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(content));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
