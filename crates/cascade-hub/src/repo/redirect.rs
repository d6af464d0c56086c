//! Where a server may send us.

use url::Url;

use super::failure::{Again, Failure, Outcome, shown};

/// Redirects that are followed for one file. The hub itself needs two: to the new name of a
/// repository, and to the storage of its files.
const MOST: usize = 5;

/// The addresses that a request has led to, in order. There is at least one.
#[derive(Debug)]
pub(super) struct Trail {
    before: Vec<Url>,
    here: Url,
}

impl Trail {
    pub(super) fn new(start: Url) -> Self {
        Self {
            before: Vec::new(),
            here: start,
        }
    }

    /// The last address.
    pub(super) fn here(&self) -> &Url {
        &self.here
    }

    /// Goes to where a redirect leads: over HTTP or HTTPS, never from HTTPS back to HTTP, and not
    /// in circles.
    pub(super) fn follow(&mut self, location: &str) -> Outcome<()> {
        let next = self.here.join(location).ok().filter(is_web);
        let Some(mut next) = next else {
            let (from, to) = (place(&self.here), shown(location));
            return Err(Failure::untrusted(format!("{from} redirects to \"{to}\"")));
        };
        next.set_fragment(None);
        if self.here.scheme() == "https" && next.scheme() != "https" {
            let (from, to) = (place(&self.here), place(&next));
            return Err(Failure::untrusted(format!(
                "{from} redirects to {to}, which is not encrypted"
            )));
        }
        let before = std::mem::replace(&mut self.here, next);
        self.before.push(before);
        if self.before.contains(&self.here) {
            return Err(self.lost("it redirects in a circle"));
        }
        if self.before.len() > MOST {
            return Err(self.lost(&format!("it redirects more than {MOST} times")));
        }
        Ok(())
    }

    fn lost(&self, why: &str) -> Failure {
        let places = self
            .before
            .iter()
            .chain([&self.here])
            .map(place)
            .collect::<Vec<_>>()
            .join(" -> ");
        Failure::unreachable(format!("{why}: {places}"), Again::No)
    }
}

/// The user name in an address would be sent on, and hides which host it is.
fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
}

/// An address for messages: without its query, which may be a signature that lets people in.
pub(super) fn place(url: &Url) -> String {
    let origin = url.origin().ascii_serialization();
    shown(&format!("{origin}{}", url.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(start: &str) -> Trail {
        Trail::new(Url::parse(start).unwrap())
    }

    fn reason(failure: Failure) -> String {
        match failure {
            Failure::Untrusted(reason) | Failure::Unreachable { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn locations_may_be_relative() {
        let mut trail = trail("https://hub/a/b?c");
        for (location, place) in [
            ("/x/y#z", "https://hub/x/y"),
            ("w", "https://hub/x/w"),
            ("//other/q", "https://other/q"),
            ("https://hub:8443/", "https://hub:8443/"),
        ] {
            trail.follow(location).unwrap();
            assert_eq!(trail.here().as_str(), place);
        }
    }

    #[test]
    fn encryption_is_not_given_up() {
        let message = reason(
            trail("https://hub/a")
                .follow("http://hub/b?secret")
                .unwrap_err(),
        );
        assert!(
            message.contains("https://hub/a redirects to http://hub/b"),
            "{message}"
        );
        assert!(
            message.contains("not encrypted") && !message.contains("secret"),
            "{message}"
        );
        trail("http://hub/a").follow("https://hub/b").unwrap();
    }

    #[test]
    fn only_the_web_is_followed() {
        for location in [
            "file:///etc/passwd",
            "ftp://hub/a",
            "javascript:0",
            "http://me:you@hub/",
            "http://",
            "http://[bad",
            "data:,x",
            "\u{1b}]0;x\u{7}://",
        ] {
            // What is no address at all is a path on the same host.
            let mut trail = trail("http://hub/a");
            match trail.follow(location) {
                Err(failure) => assert!(!reason(failure).contains('\u{1b}')),
                Ok(()) => assert_eq!(trail.here().host_str(), Some("hub"), "{location}"),
            }
        }
        assert!(trail("http://hub/a").follow("file:///etc/passwd").is_err());
    }
}
