//! Bodies of requests, read within bounds of size, time and memory.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{header, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::Limits;

/// Bytes that are accounted for together.
const UNIT: usize = 1024;

/// Memory of bodies that are being read.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    memory: Arc<Semaphore>,
    limits: Limits,
}

impl Bodies {
    pub(crate) fn new(limits: &Limits) -> Self {
        let units = (limits.bodies.max(limits.body) / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            memory: Arc::new(Semaphore::new(units)),
            limits: limits.clone(),
        }
    }

    /// The JSON object of a request.
    pub(crate) async fn read(&self, request: Request) -> ApiResult<Fields> {
        check_type(&request)?;
        let read = tokio::time::timeout(self.limits.body_time, self.bytes(request.into_body()));
        let (bytes, _held) = read.await.map_err(|_| {
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout_error",
                "the body did not come in time; send it at once",
            )
        })??;
        Fields::parse(&bytes)
    }

    async fn bytes(&self, mut body: Body) -> ApiResult<(Vec<u8>, Vec<OwnedSemaphorePermit>)> {
        let (mut bytes, mut held) = (Vec::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|error| ApiError::invalid(format!("the body breaks off: {error}")))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > self.limits.body {
                return Err(ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "invalid_request_error",
                    format!(
                        "the body is larger than {} bytes; shorten it, or raise --max-body",
                        self.limits.body
                    ),
                ));
            }
            let units = u32::try_from(data.len().div_ceil(UNIT)).unwrap_or(u32::MAX);
            let more = Arc::clone(&self.memory).try_acquire_many_owned(units);
            held.push(more.map_err(|_| {
                let message = "too many large requests are being read; ask again later";
                ApiError::busy(StatusCode::SERVICE_UNAVAILABLE, message, 1)
            })?);
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, held))
    }
}

/// Only JSON is read. Forms of other origins' pages, which browsers send without asking, are not.
fn check_type(request: &Request) -> ApiResult<()> {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request_error",
            "the body must be JSON; send the header `Content-Type: application/json`",
        )),
    }
}
