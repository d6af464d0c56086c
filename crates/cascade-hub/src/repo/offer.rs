//! What a server says of a file before it sends it.

use url::Url;

use super::client::{Client, HttpResponse};
use super::etag::Etag;
use super::failure::{Failure, Outcome};
use super::redirect::Trail;

/// A file that a server is ready to send.
pub(super) struct Offer {
    /// `X-Repo-Commit`, as the server wrote it.
    pub(super) commit: Option<String>,
    pub(super) etag: Etag,
    /// Bytes of the file.
    pub(super) size: Option<u64>,
    /// Where the file is.
    trail: Trail,
    /// The answer whose body is the file, if it was the hub itself that sent it.
    answer: Option<HttpResponse>,
}

/// What the answers on the way say, of which the first counts.
#[derive(Default)]
struct Described {
    commit: Option<String>,
    etag: Option<String>,
    size: Option<u64>,
}

impl Described {
    /// The headers that the hub sends along with a redirect, of the file that it leads to.
    fn read(&mut self, answer: &HttpResponse) -> Outcome<()> {
        let text = |name| Ok(answer.header(name)?.map(str::to_owned));
        if self.commit.is_none() {
            self.commit = text("x-repo-commit")?;
        }
        if self.etag.is_none() {
            self.etag = text("x-linked-etag")?;
        }
        if self.size.is_none() {
            self.size = answer.count("x-linked-size")?;
        }
        Ok(())
    }

    fn offer(self, trail: Trail, answer: Option<HttpResponse>) -> Outcome<Offer> {
        let etag = self.etag.ok_or(Failure::no_hub("there is no ETag"))?;
        Ok(Offer {
            commit: self.commit,
            etag: Etag::parse(&etag)?,
            size: self.size,
            trail,
            answer,
        })
    }
}

impl Offer {
    /// Asks the hub for a file, and goes as far as needed to know what it is. The body of large
    /// files is not begun.
    pub(super) fn ask(client: &Client, url: Url) -> Outcome<Self> {
        let mut trail = Trail::new(url);
        let mut described = Described::default();
        loop {
            let answer = client.get(trail.here(), 0)?;
            described.read(&answer)?;
            match answer.location()? {
                Some(location) => trail.follow(location)?,
                None => {
                    let answer = answer.checked(client, described.etag.is_some())?;
                    if described.etag.is_none() {
                        described.etag = answer.header("etag")?.map(str::to_owned);
                    }
                    if described.size.is_none() {
                        described.size = answer.extent()?.1;
                    }
                    return described.offer(trail, Some(answer));
                }
            }
            // Nobody else than the hub knows the commit.
            let is_settled = described.commit.is_some() || !client.is_hub(trail.here());
            if described.etag.is_some() && is_settled {
                return described.offer(trail, None);
            }
        }
    }

    /// Where the file is.
    pub(super) fn here(&self) -> &Url {
        self.trail.here()
    }

    /// Hangs up, so that a server need not wait while we do.
    pub(super) fn hang_up(&mut self) {
        self.answer = None;
    }

    /// The answer whose body is the file from byte `from` on, if the server can do that: see
    /// [`HttpResponse::extent`].
    pub(super) fn open(self, client: &Client, from: u64) -> Outcome<HttpResponse> {
        match self.answer {
            Some(answer) if from == 0 => return Ok(answer),
            // The connection is closed before the next is opened.
            answer => drop(answer),
        }
        let mut trail = self.trail;
        client.follow(&mut trail, from)?.checked(client, true)
    }
}
