//! Errors in OpenAI's form.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::answer::Failure;

/// Characters of a message, which may quote the request.
const LONGEST_MESSAGE: usize = 1000;

/// What is wrong with a request, or went wrong with its answer.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
    /// Seconds after which another attempt may succeed.
    retry_after: Option<u64>,
}

/// A result whose error goes to the client.
pub(crate) type ApiResult<T> = std::result::Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: shortened(message.into()),
            retry_after: None,
        }
    }

    /// A request that cannot be answered as it is.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::refused(StatusCode::BAD_REQUEST, message)
    }

    /// A request that is refused with another status than [`invalid`](Self::invalid) has.
    pub(crate) fn refused(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(status, "invalid_request_error", message)
    }

    /// A field that cannot be as it is.
    pub(crate) fn field(name: impl Into<String>, message: impl Into<String>) -> Self {
        let name = name.into();
        let message = format!("`{name}`: {}", message.into());
        Self {
            param: Some(shortened(name)),
            ..Self::invalid(message)
        }
    }

    /// A server that cannot answer now.
    pub(crate) fn busy(status: StatusCode, message: impl Into<String>, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds.max(1)),
            ..Self::new(status, "overloaded_error", message)
        }
    }

    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// The error's JSON, as OpenAI writes it.
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }})
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let (status, kind) = match failure {
            Failure::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "timeout_error"),
            Failure::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "overloaded_error"),
            Failure::Unread => (StatusCode::REQUEST_TIMEOUT, "timeout_error"),
            Failure::Settings(_) => (StatusCode::BAD_REQUEST, "invalid_request_error"),
            Failure::Model(_) | Failure::Lost => {
                (StatusCode::INTERNAL_SERVER_ERROR, "server_error")
            }
        };
        Self::new(status, kind, failure.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let mut response = json_response(self.status, &self.to_json());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// A response with a JSON body.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    json_text(status, value.to_string())
}

/// A response whose body is JSON already.
pub(crate) fn json_text(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (status, headers, text.into()).into_response()
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_MESSAGE) {
        text.truncate(end);
        text.push('…');
    }
    text
}
