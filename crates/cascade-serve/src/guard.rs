//! Who may ask: keys, the names that this server answers to, and pages of other origins.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::error::ApiError;
use crate::owner::{ConnectionId, Owner};
use crate::{ServeOptions, page};

/// Where clients of other interfaces show their keys.
const X_API_KEY: header::HeaderName = header::HeaderName::from_static("x-api-key");

/// Whether a path is public even where a key is asked for: the page, which has a field for it, and
/// health.
fn is_public(path: &str) -> bool {
    path.trim_end_matches('/') == "/health" || page::FILES.iter().any(|(file, ..)| *file == path)
}

/// Decides which requests are answered.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Digests of the keys, so that neither their bytes nor their lengths show in the time of a
    /// comparison.
    keys: Vec<[u8; 32]>,
    /// Names of hosts, if only some are answered to.
    hosts: Option<Vec<String>>,
    origins: Vec<String>,
}

impl Guard {
    pub(crate) fn new(options: &ServeOptions) -> Self {
        let lowercase = |names: &[String]| {
            names
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect::<Vec<_>>()
        };
        // A page of another origin can let its own name lead here (DNS rebinding), and then is of
        // our origin to the browser; its name betrays it.
        let checked = options.address.ip().is_loopback() || !options.allowed_hosts.is_empty();
        Self {
            keys: options.api_keys.iter().map(|key| digest(key)).collect(),
            hosts: checked.then(|| lowercase(&options.allowed_hosts)),
            origins: lowercase(&options.cors_origins),
        }
    }

    /// The digest of the key that was shown, where one is asked for.
    fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Option<[u8; 32]>, ApiError> {
        let host = single(headers, header::HOST)?;
        self.check_host(host)?;
        self.check_origin(single(headers, header::ORIGIN)?, host)?;
        if *method == Method::OPTIONS || is_public(path) {
            Ok(None)
        } else {
            let bearer = single(headers, header::AUTHORIZATION)?.and_then(bearer);
            self.check_key(bearer.or(single(headers, X_API_KEY)?))
        }
    }

    fn check_host(&self, host: Option<&str>) -> Result<(), ApiError> {
        let Some(allowed) = &self.hosts else {
            return Ok(());
        };
        let refuse =
            |message: String| Err(ApiError::refused(StatusCode::MISDIRECTED_REQUEST, message));
        let Some(host) = host else {
            return refuse("the request has no Host header; give one".to_owned());
        };
        let name = host_name(host).to_ascii_lowercase();
        if is_this_machine(&name) || allowed.contains(&name) {
            Ok(())
        } else {
            refuse(format!(
                "this server does not answer to the name {name:?}; start it with --allowed-host {name}"
            ))
        }
    }

    /// A browser names the origin of the page that asks.
    fn check_origin(&self, origin: Option<&str>, host: Option<&str>) -> Result<(), ApiError> {
        let Some(origin) = origin.map(str::to_ascii_lowercase) else {
            return Ok(());
        };
        let own = |scheme: &str| {
            let host = host.unwrap_or_default().to_ascii_lowercase();
            origin.strip_prefix(scheme) == Some(host.as_str())
        };
        let allowed = self.origins.iter().any(|one| one == "*" || *one == origin);
        if allowed || own("http://") || own("https://") {
            Ok(())
        } else {
            Err(ApiError::refused(
                StatusCode::FORBIDDEN,
                format!(
                    "pages of {origin:?} may not ask; start the server with --cors-origin {origin}"
                ),
            ))
        }
    }

    fn check_key(&self, shown: Option<&str>) -> Result<Option<[u8; 32]>, ApiError> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let shown = digest(shown.unwrap_or_default());
        let equal = |known: &[u8; 32]| known.as_slice().ct_eq(&shown);
        // All are compared, so that the time does not tell which one was equal.
        let any = self
            .keys
            .iter()
            .map(equal)
            .fold(Choice::from(0), |any, one| any | one);
        if bool::from(any) {
            Ok(Some(shown))
        } else {
            Err(ApiError::refused(
                StatusCode::UNAUTHORIZED,
                "the API key is missing or wrong; send the header `Authorization: Bearer KEY` or `x-api-key: KEY`",
            )
            .with_code("invalid_api_key"))
        }
    }
}

/// Lets through what may be answered, with its [`Owner`].
pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let checked = guard.check(request.method(), request.uri().path(), request.headers());
    match checked {
        Ok(key) => {
            let connection = request.extensions().get::<ConnectionId>().copied();
            let owner = Owner::of(key, connection, request.headers());
            request.extensions_mut().insert(owner);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// The key of `Bearer KEY`.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, key) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// A header that may be there once.
fn single(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(&name).iter();
    let value = values.next().map(|value| value.to_str());
    match (value, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(ApiError::invalid(format!(
            "the header {name} is given twice, or is not text"
        ))),
    }
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_this_machine(name: &str) -> bool {
    let address = name.parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(change: impl FnOnce(&mut ServeOptions)) -> Guard {
        let mut options = ServeOptions::default();
        change(&mut options);
        Guard::new(&options)
    }

    fn status(guard: &Guard, path: &str, headers: &[(header::HeaderName, &str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        let checked = guard.check(&Method::POST, path, &map);
        checked.err().map(|error| error.status.as_u16())
    }

    #[test]
    fn names_of_others_are_not_answered_to() {
        let own = guard(|_| {});
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:80",
            "127.1.2.3",
            "[::1]:8080",
            "[::1]",
        ] {
            assert_eq!(
                status(&own, "/v1/models", &[(header::HOST, host)]),
                None,
                "{host}"
            );
        }
        for host in [
            "evil.example",
            "localhost.evil.example:8080",
            "10.0.0.1",
            "",
            "[::2]",
            "localhost@evil",
        ] {
            assert_eq!(
                status(&own, "/", &[(header::HOST, host)]),
                Some(421),
                "{host}"
            );
        }
        assert_eq!(status(&own, "/", &[]), Some(421));
        let twice = [(header::HOST, "localhost"), (header::HOST, "evil.example")];
        assert_eq!(status(&own, "/", &twice), Some(400));
        let named = guard(|options| options.allowed_hosts = vec!["GPU.lan".to_owned()]);
        assert_eq!(status(&named, "/", &[(header::HOST, "gpu.lan:8080")]), None);
        let open = guard(|options| options.address = ([0, 0, 0, 0], 80).into());
        assert_eq!(status(&open, "/", &[(header::HOST, "any.example")]), None);
    }

    #[test]
    fn pages_of_others_may_not_ask() {
        let asks = |guard: &Guard, origin: &str| {
            status(
                guard,
                "/v1/models",
                &[(header::HOST, "localhost:8080"), (header::ORIGIN, origin)],
            )
        };
        let own = guard(|_| {});
        assert_eq!(asks(&own, "http://localhost:8080"), None);
        for other in ["http://localhost:9090", "https://evil.example", "null", ""] {
            assert_eq!(asks(&own, other), Some(403), "{other}");
        }
        let some = guard(|options| options.cors_origins = vec!["https://App.example".to_owned()]);
        assert_eq!(asks(&some, "https://app.example"), None);
        assert_eq!(asks(&some, "https://evil.example"), Some(403));
        let all = guard(|options| options.cors_origins = vec!["*".to_owned()]);
        assert_eq!(asks(&all, "https://evil.example"), None);
    }

    #[test]
    fn only_known_keys_open() {
        let closed = guard(|options| options.api_keys = vec!["one".to_owned(), "two".to_owned()]);
        let asks = |path: &str, authorization: &str| {
            status(
                &closed,
                path,
                &[
                    (header::HOST, "localhost"),
                    (header::AUTHORIZATION, authorization),
                ],
            )
        };
        for key in ["Bearer one", "bearer two", "BEARER  two "] {
            assert_eq!(asks("/v1/models", key), None, "{key}");
        }
        for key in ["one", "Bearer", "Bearer on", "Bearer ones", "Basic one", ""] {
            assert_eq!(asks("/v1/models", key), Some(401), "{key}");
        }
        assert_eq!(asks("/metrics", ""), Some(401));
        for (key, expected) in [("two", None), ("tw", Some(401)), ("Bearer two", Some(401))] {
            let headers = [(header::HOST, "localhost"), (X_API_KEY, key)];
            assert_eq!(status(&closed, "/v1/models", &headers), expected, "{key}");
        }
        assert_eq!(
            status(&closed, "/health", &[(header::HOST, "localhost")]),
            None
        );
    }
}
