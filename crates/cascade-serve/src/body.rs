//! Bodies of requests, read within bounds of size, time and memory.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use http_body_util::BodyExt;

use crate::Limits;
use crate::budget::{Budget, Held};
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;

/// Memory of bodies that are being read.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    memory: Budget,
    limits: Limits,
}

/// A body that has been read. Its memory is accounted for until it is dropped.
pub(crate) struct Content {
    bytes: Vec<u8>,
    held: Held,
}

impl Content {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The JSON object that it is, and what accounts for its memory. Costs time: not for the thread
    /// that all requests share.
    pub(crate) fn parse(self, strict: bool) -> ApiResult<(Fields, Held)> {
        Ok((Fields::parse(&self.bytes, strict)?, self.held))
    }
}

impl Bodies {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: Budget::new(limits.bodies.max(limits.body)),
            limits: limits.clone(),
        }
    }

    /// The body of a request.
    pub(crate) async fn read(&self, request: Request) -> ApiResult<Content> {
        check_type(&request)?;
        let read = tokio::time::timeout(self.limits.body_time, self.bytes(request.into_body()));
        read.await.map_err(|_| {
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout_error",
                "the body did not come in time; send it at once",
            )
        })?
    }

    async fn bytes(&self, mut body: Body) -> ApiResult<Content> {
        let (mut bytes, mut held) = (Vec::new(), self.memory.hold());
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| ApiError::invalid(format!("the body breaks off: {error}")))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > self.limits.body {
                return Err(ApiError::refused(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!(
                        "the body is larger than {} bytes; shorten it, or raise --max-body",
                        self.limits.body
                    ),
                ));
            }
            if !held.grow(data.len()) {
                let message = "too many large requests are being read; ask again later";
                return Err(ApiError::busy(StatusCode::SERVICE_UNAVAILABLE, message, 1));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Content { bytes, held })
    }
}

/// Only JSON is read, and not compressed. Forms of other origins' pages, which browsers send
/// without asking, are not.
fn check_type(request: &Request) -> ApiResult<()> {
    let text = |name| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or("(not text)"))
    };
    let refused = |message: String| {
        Err(ApiError::refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message,
        ))
    };
    let coded = text(header::CONTENT_ENCODING).unwrap_or("identity").trim();
    if !coded.eq_ignore_ascii_case("identity") {
        return refused(format!(
            "the header `Content-Encoding` is {coded:?}, and bodies are read as they are; send it uncompressed"
        ));
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    refused("the body must be JSON; send the header `Content-Type: application/json`".to_owned())
}
