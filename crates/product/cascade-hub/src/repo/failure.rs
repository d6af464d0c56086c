//! What it means when the hub does not deliver a file. The only place that looks into the HTTP
//! client's errors.
//!
//! hf-hub passes on the errors of ureq, and their status codes are needed, so ureq is a direct
//! dependency: it must be of the version that hf-hub uses.

use hf_hub::api::sync::ApiError;

/// Why there is no file.
pub(super) enum Refusal {
    /// The hub has no such file, revision or repository.
    NotFound,
    /// HTTP status 401 or 403.
    Denied(u16),
    /// Part of an earlier download does not fit the file.
    DamagedPart,
    /// No answer, or none that says anything about the file.
    Unreachable(String),
    /// Another HTTP status that is final.
    Status(u16),
    /// Not the hub's doing: the cache's disk, for example.
    Local(String),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::TooManyRetries(inner) => (*inner).into(),
            ApiError::RequestError(error) => of_request(*error),
            ApiError::InvalidResume => Self::DamagedPart,
            // Whatever answered, perhaps the login page of a network, was no hub.
            error @ (ApiError::MissingHeader(_)
            | ApiError::InvalidHeader(_)
            | ApiError::ParseIntError(_)) => {
                Self::Unreachable(format!("the answer is not that of a hub ({error})"))
            }
            error => Self::Local(error.to_string()),
        }
    }
}

fn of_request(error: ureq::Error) -> Refusal {
    match error {
        ureq::Error::StatusCode(404) => Refusal::NotFound,
        ureq::Error::StatusCode(status @ (401 | 403)) => Refusal::Denied(status),
        ureq::Error::StatusCode(416) => Refusal::DamagedPart,
        // Too many requests say nothing about the file either.
        ureq::Error::StatusCode(status) if status < 500 && status != 429 => Refusal::Status(status),
        error => Refusal::Unreachable(error.to_string()),
    }
}
