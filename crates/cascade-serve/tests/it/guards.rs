//! Who may ask, over the wire.

use cascade_serve::{Error, ServeOptions};
use serde_json::json;

use crate::common::{Running, wire};

#[test]
fn keys_names_and_origins() {
    let server = Running::start_with(|options| options.api_keys = vec!["secret".to_owned()]);
    let body = json!({"prompt": "2 + 3", "max_tokens": 1});
    let refused = server.post("/v1/completions", &body);
    assert!(refused.error(401).contains("Authorization"));
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    assert!(!refused.body.contains("secret"));
    for open in ["/", "/health"] {
        assert_eq!(server.get(open).status, 200, "{open}");
    }
    server.get("/metrics").error(401);
    let body = body.to_string();
    let with = |header: &str| {
        let request = wire("/v1/completions", &body);
        server
            .raw(&request.replacen("Content-Type", &format!("{header}\r\nContent-Type"), 1))
            .0
    };
    assert_eq!(with("Authorization: Bearer secret"), 200);
    assert_eq!(with("Authorization: Bearer secre"), 401);
    assert_eq!(
        with("Authorization: Bearer secret\r\nOrigin: https://evil.example"),
        403
    );
    let evil = wire("/v1/completions", &body).replace("Host: localhost", "Host: evil.example");
    assert_eq!(server.raw(&evil).0, 421);
    let form = wire("/v1/completions", &body).replace(
        "application/json",
        "text/plain\r\nAuthorization: Bearer secret",
    );
    assert_eq!(server.raw(&form).0, 415);
}

/// What a client in a page asks before it asks, and how it may.
#[test]
fn other_origins_ask_only_if_they_may() {
    let wanted = "authorization,content-type,x-stainless-os,x-stainless-retry-count";
    let head = |server: &Running, origin: &str| {
        use std::io::Read;
        let (status, mut reader) = server.raw(&format!(
            "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: close\r\n\
             Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: {wanted}\r\n\
             Access-Control-Request-Private-Network: true\r\n\r\n"
        ));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (status, text.to_ascii_lowercase())
    };
    let (own, other) = ("https://app.example", "https://evil.example");
    let closed = Running::start();
    assert!(!head(&closed, own).1.contains("allow-origin"));
    for origins in [own, "*"] {
        let open = Running::start_with(|options| options.cors_origins = vec![origins.to_owned()]);
        let (status, text) = head(&open, own);
        assert_eq!(status, 200);
        for line in [
            &format!("access-control-allow-origin: {origins}"),
            &format!("access-control-allow-headers: {wanted}"),
            "access-control-max-age: 3600",
            "access-control-allow-private-network: true",
        ] {
            assert!(text.contains(line), "{origins}: {line} in {text}");
        }
        let allowed = head(&open, other).1.contains("allow-origin");
        assert_eq!(allowed, origins == "*");
    }
}

#[test]
fn unknown_paths_and_methods() {
    let server = Running::start_with(|options| options.page = false);
    for path in [
        "/",
        "/v1",
        "/v1/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/app.js/../../Cargo.toml",
    ] {
        server.get(path).error(404);
    }
    server.get("/v1/completions").error(405);
    server.get("/v1/models/other").error(404);
    assert!(server.get("/v1/models/%ff").error(400).contains("UTF-8"));
    server.post("/health", &json!({})).error(405);
}

#[test]
fn addresses_of_others_need_a_key() {
    let mut options = ServeOptions::default();
    options.address = ([0, 0, 0, 0], 0).into();
    assert!(matches!(options.check(), Err(Error::Open { .. })));
    options.api_keys = vec!["key".to_owned()];
    options.check().unwrap();
    options.api_keys = vec![" ".to_owned()];
    assert!(matches!(options.check(), Err(Error::Option { .. })));
    options.api_keys.clear();
    options.public = true;
    options.check().unwrap();
    options.limits.sessions = 0;
    assert!(
        options
            .check()
            .unwrap_err()
            .to_string()
            .contains("--sessions")
    );
}
