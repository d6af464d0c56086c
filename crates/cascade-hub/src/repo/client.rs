//! One request and its answer: the time limits, who gets the token, and what HTTP errors mean.
//!
//! Everything else that HTTP clients do by themselves is left to us: redirects, statuses,
//! compression.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use ureq::http::{HeaderMap, HeaderValue, header};
use ureq::{Agent, Body, Timeout};
use url::Url;

use super::failure::{Again, Failure, Outcome, shown};
use super::redirect::{Trail, place};
use crate::options::{ANSWER_VARIABLE, READ_VARIABLE};
use crate::{Error, ErrorKind, HubLimits, HubOptions, Result};

/// Sends requests to the hub and to the storage that it leads to.
pub(super) struct Client {
    agent: Agent,
    hub: Url,
    /// The token goes to the hub alone.
    bearer: Option<HeaderValue>,
    limits: HubLimits,
    reached: AtomicBool,
}

impl Client {
    /// # Errors
    /// A token that cannot be sent, or an endpoint that is none.
    pub(super) fn new(options: &HubOptions) -> Result<Self> {
        let limits = options.checked()?.limits.clone();
        let bearer = options.token.as_deref().map(bearer).transpose()?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("cascade/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_send_request(Some(limits.answer))
            .timeout_recv_response(Some(limits.answer))
            .timeout_per_read(Some(limits.read));
        Ok(Self {
            agent: config.build().into(),
            hub: endpoint(&options.endpoint)?,
            bearer,
            limits,
            reached: AtomicBool::new(false),
        })
    }

    pub(super) fn limits(&self) -> &HubLimits {
        &self.limits
    }

    /// Whether any server has answered.
    pub(super) fn reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// The address of the hub.
    pub(super) fn hub(&self) -> &Url {
        &self.hub
    }

    /// Whether an address is the hub's: of the same scheme, host and port.
    pub(super) fn is_hub(&self, url: &Url) -> bool {
        url.origin() == self.hub.origin()
    }

    /// Asks for what is at an address, from byte `from` on.
    pub(super) fn get(&self, url: &Url, from: u64) -> Outcome<HttpResponse> {
        let mut request = self.agent.get(url.as_str());
        if let Some(bearer) = self.bearer.as_ref().filter(|_| self.is_hub(url)) {
            request = request.header(header::AUTHORIZATION, bearer);
        }
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        let response = request.call().map_err(|error| self.failure(url, error))?;
        self.reached.store(true, Ordering::Relaxed);
        let (parts, body) = response.into_parts();
        Ok(HttpResponse {
            url: url.clone(),
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        })
    }

    /// Asks for what is at the end of a trail, from byte `from` on, wherever redirects lead.
    pub(super) fn follow(&self, trail: &mut Trail, from: u64) -> Outcome<HttpResponse> {
        loop {
            let answer = self.get(trail.here(), from)?;
            match answer.location()? {
                Some(location) => trail.follow(location)?,
                None => return Ok(answer),
            }
        }
    }

    /// What it means that a body could not be read.
    pub(super) fn body_failure(&self, url: &Url, error: io::Error) -> Failure {
        self.failure(url, error.into())
    }

    fn failure(&self, url: &Url, error: ureq::Error) -> Failure {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let host = url.origin().ascii_serialization();
        let (said, again) = match error {
            ureq::Error::Timeout(timeout) => {
                let reason = format!("{host} {}", self.timed_out(timeout));
                return Failure::unreachable(reason, Again::IfReached);
            }
            ureq::Error::Io(error) => match error.kind() {
                UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => {
                    (error.to_string(), Again::Soon)
                }
                _ => (error.to_string(), Again::IfReached),
            },
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                (error.to_string(), Again::IfReached)
            }
            error => (error.to_string(), Again::No),
        };
        Failure::unreachable(format!("{host}: {}", shown(&said)), again)
    }

    fn timed_out(&self, timeout: Timeout) -> String {
        let limits = &self.limits;
        match timeout {
            Timeout::Resolve | Timeout::Connect => {
                format!("did not take the connection within {:?}", limits.connect)
            }
            Timeout::PerRead | Timeout::PerWrite | Timeout::RecvBody => {
                let time = limits.read;
                format!("sent nothing for {time:?} ({READ_VARIABLE} sets the limit)")
            }
            _ => {
                let time = limits.answer;
                format!("did not answer within {time:?} ({ANSWER_VARIABLE} sets the limit)")
            }
        }
    }
}

/// Does not show the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("hub", &self.hub.origin())
            .finish_non_exhaustive()
    }
}

/// What a server answered; the body is not read yet.
pub(super) struct HttpResponse {
    pub(super) url: Url,
    status: u16,
    headers: HeaderMap,
    body: Body,
}

impl HttpResponse {
    /// A header, which must not be there twice and say different things.
    pub(super) fn header(&self, name: &str) -> Outcome<Option<&str>> {
        let mut found: Option<&str> = None;
        for value in self.headers.get_all(name) {
            let odd =
                |what: &str| Failure::untrusted(format!("{} sent {what} {name}", place(&self.url)));
            let text = value.to_str().map_err(|_| odd("an unreadable"))?.trim();
            if found.is_some_and(|found| found != text) {
                return Err(odd("two different headers"));
            }
            found = Some(text);
        }
        Ok(found)
    }

    /// A header that counts bytes.
    pub(super) fn count(&self, name: &str) -> Outcome<Option<u64>> {
        let text = self.header(name)?;
        text.map(|text| number(text).ok_or_else(|| self.odd(name, text)))
            .transpose()
    }

    /// Where a redirect leads; `None` if this is none.
    pub(super) fn location(&self) -> Outcome<Option<&str>> {
        if !matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        match self.header("location")? {
            None => Err(Failure::no_hub("a redirect to nowhere")),
            location => Ok(location),
        }
    }

    /// The answer, if it has a body that can be taken as it is. Only the hub knows which files
    /// there are and who may have them, and it says so once: `is_promised` if it has already.
    pub(super) fn checked(self, client: &Client, is_promised: bool) -> Outcome<Self> {
        if !matches!(self.status, 200 | 206) {
            let host = self.url.origin().ascii_serialization();
            let decides = client.is_hub(&self.url) && !is_promised;
            let headers = &self.headers;
            return Err(Failure::of_status(self.status, headers, &host, decides));
        }
        match self.header("content-encoding")? {
            None | Some("" | "identity") => Ok(self),
            Some(encoding) => Err(Failure::untrusted(format!(
                "{} compressed it ({}) although it was asked not to",
                place(&self.url),
                shown(encoding)
            ))),
        }
    }

    /// The byte at which the body begins, and the size of the whole file if it is announced.
    pub(super) fn extent(&self) -> Outcome<(u64, Option<u64>)> {
        if self.status != 206 {
            return Ok((0, self.length()?));
        }
        let text = self.header("content-range")?.unwrap_or_default();
        let Some((first, last, total)) = content_range(text) else {
            return Err(self.odd("content-range", text));
        };
        match self.length()? {
            Some(length) if length != last - first + 1 => Err(self.odd("content-range", text)),
            _ => Ok((first, total)),
        }
    }

    /// Bytes of the body, if they are announced.
    fn length(&self) -> Outcome<Option<u64>> {
        if self.has_end_mark() {
            Ok(None)
        } else {
            self.count("content-length")
        }
    }

    /// Whether the body says itself where it ends.
    pub(super) fn has_end_mark(&self) -> bool {
        self.headers.contains_key(header::TRANSFER_ENCODING)
    }

    pub(super) fn into_body(self) -> Body {
        self.body
    }

    fn odd(&self, name: &str, text: &str) -> Failure {
        let (text, place) = (shown(text), place(&self.url));
        Failure::untrusted(format!("{place} sent the {name} \"{text}\""))
    }
}

/// A number of digits alone: no sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// `bytes 5-9/10`: first and last byte, and how many there are.
fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let total = match total {
        "*" => None,
        total => Some(number(total)?),
    };
    let inside = first <= last && last < u64::MAX && total.is_none_or(|total| last < total);
    inside.then_some((first, last, total))
}

/// The hub's address: over HTTP or HTTPS, with a host, perhaps with a path.
fn endpoint(text: &str) -> Result<Url> {
    let bad = |problem: &str| {
        let text = shown(text);
        let message = format!(
            "HF_ENDPOINT: \"{text}\" is not the address of a hub: {problem}; set it to something like \
             https://huggingface.co, or unset it"
        );
        Error::new(ErrorKind::Setting, message)
    };
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        Err(bad("it is neither http nor https"))
    } else if !url.username().is_empty() || url.password().is_some() {
        Err(bad("it has a user name, use HF_TOKEN instead"))
    } else if url.query().is_some() || url.fragment().is_some() {
        Err(bad("it has a query"))
    } else {
        Ok(url)
    }
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let visible = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    match value.ok().filter(|_| visible) {
        Some(mut value) => {
            value.set_sensitive(true);
            Ok(value)
        }
        None => {
            let message = "HF_TOKEN: the access token has characters that no token has; copy it again from the hub's \
                           settings, or run `hf auth login`";
            Err(Error::new(ErrorKind::Setting, message.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, 9, Some(10))));
        assert_eq!(content_range("bytes 0-0/*"), Some((0, 0, None)));
        for bad in [
            "",
            "bytes 5-9",
            "bytes 9-5/10",
            "bytes 5-10/10",
            "bytes */10",
            "5-9/10",
            "bytes +5-9/10",
            "bytes 5-99999999999999999999/*",
            "bytes 0-18446744073709551615/*",
        ] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn endpoints_are_addresses() {
        for good in [
            "https://huggingface.co",
            "http://127.0.0.1:9",
            "https://proxy/hf",
        ] {
            endpoint(good).unwrap();
        }
        for bad in [
            "",
            "huggingface.co",
            "ftp://hub",
            "https://me:pw@hub",
            "https://hub?x=1",
            "http://",
        ] {
            let message = endpoint(bad).unwrap_err().to_string();
            assert!(message.contains("HF_ENDPOINT") && message.contains("https://huggingface.co"));
        }
    }

    #[test]
    fn the_token_is_for_the_hub_alone() {
        let options = HubOptions::new("https://hub:443/x", "/nonexistent").with_token("hf_secret");
        let client = Client::new(&options).unwrap();
        assert!(!format!("{client:?}").contains("hf_secret"));
        let is_hub = |text: &str| client.is_hub(&Url::parse(text).unwrap());
        assert!(is_hub("https://hub/a") && is_hub("https://HUB:443/b"));
        for other in [
            "http://hub/a",
            "https://hub:444/a",
            "https://hub.evil/a",
            "https://a.hub/a",
        ] {
            assert!(!is_hub(other), "{other}");
        }
        for odd in ["", "a b", "hf_x\r\nX-Evil: 1", "é"] {
            let options = options.clone().with_token(odd);
            let message = Client::new(&options).unwrap_err().to_string();
            assert!(
                message.contains("HF_TOKEN") && !message.contains("Evil"),
                "{message}"
            );
        }
    }
}
