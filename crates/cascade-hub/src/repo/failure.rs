//! Why the hub did not deliver a file, and whether it is worth asking again.

use std::time::Duration;

use ureq::http::HeaderMap;

/// What the hub gives, or why it does not.
pub(super) type Outcome<T> = Result<T, Failure>;

/// Why there is no file.
#[derive(Debug)]
pub(super) enum Failure {
    /// The hub has no such file, revision or repository.
    NotFound {
        /// The commit that has no such file, where it is the file alone that is missing.
        commit: Option<String>,
    },
    /// HTTP status 401 or 403 of the hub itself.
    Denied { status: u16, gated: bool },
    /// No answer, or none that says anything of the file: the cache may help.
    Unreachable { reason: String, again: Again },
    /// The rest of a file was asked for, and something else came.
    NotTheRest,
    /// An answer that contradicts itself or means harm.
    Untrusted(String),
    /// Another HTTP status that is final.
    Status(String),
    /// Not the hub's doing: the cache's disk, for example.
    Local(String),
}

/// Whether another attempt may succeed where one failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Not soon.
    No,
    /// If the hub was there a moment ago.
    IfReached,
    /// Yes.
    Soon,
    /// The server says when.
    After(Duration),
}

impl Failure {
    pub(super) fn unreachable(reason: impl Into<String>, again: Again) -> Self {
        let reason = reason.into();
        Self::Unreachable { reason, again }
    }

    /// Whatever answered, perhaps the login page of a network, was no hub.
    pub(super) fn no_hub(why: &str) -> Self {
        Self::unreachable(
            format!("the answer is not that of a hub ({why})"),
            Again::No,
        )
    }

    pub(super) fn untrusted(reason: impl Into<String>) -> Self {
        Self::Untrusted(reason.into())
    }

    /// The server names a commit that is none, or not the one that was asked for.
    pub(super) fn odd_commit(given: &str, why: &str) -> Self {
        Self::Untrusted(format!(
            "the server calls the commit \"{}\"{why}",
            shown(given)
        ))
    }

    /// What it means that a server answers with neither a file nor a redirect; whether it decides
    /// which files there are and who may have them.
    pub(super) fn of_status(status: u16, headers: &HeaderMap, host: &str, decides: bool) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let code = text("x-error-code").unwrap_or_default();
        let said = text("x-error-message").map(|text| format!(" ({})", shown(text)));
        let why = match status {
            429 => ": too many requests",
            _ => "",
        };
        let reason = format!(
            "HTTP status {status} from {host}{why}{}",
            said.unwrap_or_default()
        );
        match status {
            404 if decides => Self::NotFound {
                commit: (code == "EntryNotFound")
                    .then(|| text("x-repo-commit").unwrap_or_default().to_owned()),
            },
            401 | 403 if decides => Self::Denied {
                status,
                gated: code == "GatedRepo",
            },
            416 => Self::NotTheRest,
            429 | 503 => Self::unreachable(reason, wait(text("retry-after"))),
            408 | 500 | 502 | 504 => Self::unreachable(reason, Again::Soon),
            500.. => Self::unreachable(reason, Again::No),
            _ => Self::Status(reason),
        }
    }
}

/// `Retry-After`: seconds, or a date.
fn wait(header: Option<&str>) -> Again {
    let Some(text) = header.map(str::trim) else {
        return Again::Soon;
    };
    if let Ok(seconds) = text.parse() {
        return Again::After(Duration::from_secs(seconds));
    }
    match jiff::fmt::rfc2822::parse(text) {
        Ok(date) => {
            let left = date.timestamp().as_second() - jiff::Timestamp::now().as_second();
            Again::After(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
        }
        Err(_) => Again::Soon,
    }
}

/// Text of a server, for a message: short, and without anything that a terminal obeys.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown: String = text
        .trim()
        .chars()
        .take(LONGEST)
        .flat_map(char::escape_debug)
        .collect();
    if text.trim().chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_when_to_come_back() {
        assert_eq!(wait(None), Again::Soon);
        assert_eq!(wait(Some(" 7 ")), Again::After(Duration::from_secs(7)));
        assert_eq!(wait(Some("soon")), Again::Soon);
        assert_eq!(wait(Some("-7")), Again::Soon);
        let past = wait(Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(past, Again::After(Duration::ZERO));
        let Again::After(far) = wait(Some("Fri, 01 Jan 2100 00:00:00 GMT")) else {
            panic!("a date");
        };
        assert!(far > Duration::from_secs(1 << 30));
    }

    #[test]
    fn texts_of_servers_are_harmless() {
        assert_eq!(shown(" plain é "), "plain é");
        assert_eq!(shown("\u{1b}[2Jx"), "\\u{1b}[2Jx");
        assert_eq!(shown(&"x".repeat(300)).chars().count(), 201);
    }
}
