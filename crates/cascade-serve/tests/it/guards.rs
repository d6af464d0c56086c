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

#[test]
fn other_origins_ask_only_if_they_may() {
    let preflight = "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\
                     Access-Control-Request-Method: POST\r\n\r\n";
    let head = |server: &Running| {
        use std::io::Read;
        let (status, mut reader) =
            server.raw(&preflight.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (
            status,
            text.to_ascii_lowercase()
                .contains("access-control-allow-origin: https://app.example"),
        )
    };
    let closed = Running::start();
    assert!(!head(&closed).1);
    let open = Running::start_with(|options| {
        options.cors_origins = vec!["https://app.example".to_owned()]
    });
    assert_eq!(head(&open), (200, true));
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
