//! From an offer to a file of the cache: whole, of the announced size, with the right digest.

use std::fs::File;
use std::path::{Path, PathBuf};

use url::Url;

use super::body::Incoming;
use super::cache::RepoCache;
use super::client::{Client, HttpResponse};
use super::etag::Etag;
use super::failure::{Again, Failure, Outcome};
use super::lock::Lock;
use super::offer::Offer;
use super::partial_download::PartialDownload;
use super::progress::Display;
use super::retry::Patience;

/// A failed attempt does not count if it brought the file so much further than it has ever been.
const RENEWING: u64 = 1 << 20;

/// The way of one file into the cache.
pub(super) struct Download<'a> {
    pub(super) client: &'a Client,
    pub(super) cache: &'a RepoCache,
    pub(super) display: &'a Display,
    /// The address of the file in its commit.
    pub(super) url: Url,
    pub(super) commit: &'a str,
    pub(super) file: &'a str,
}

impl Download<'_> {
    /// The file in the cache.
    pub(super) fn run(&self, mut offer: Offer) -> Outcome<PathBuf> {
        let etag = offer.etag.clone();
        let lock_path = self.cache.lock(&etag);
        let mut lock = Lock::try_take(&lock_path)?;
        if matches!(lock, Lock::Busy) {
            offer.hang_up();
            lock = Lock::wait(&lock_path, self.display)?;
            if let Some(path) = self.cache.file(self.commit, self.file) {
                return Ok(path);
            }
            offer = self.ask_again(&etag)?;
        }
        let blob = self.cache.blob(&etag);
        if !is_content(&blob, &etag) {
            let part = PartialDownload::open(self.cache.part(&etag, lock.is_ours())?)?;
            self.fill(part, offer, lock.is_ours())?.finish(&blob)?;
        }
        self.cache.link(&blob, self.commit, self.file)
    }

    /// Completes a file. What came is kept for the next run if the failure was none of its own.
    fn fill(
        &self,
        mut part: PartialDownload,
        offer: Offer,
        is_locked: bool,
    ) -> Outcome<PartialDownload> {
        match self.complete(&mut part, offer) {
            Ok(()) => Ok(part),
            Err(failure) => {
                if !is_locked || matches!(failure, Failure::Untrusted(_)) {
                    part.discard();
                }
                Err(failure)
            }
        }
    }

    fn complete(&self, part: &mut PartialDownload, offer: Offer) -> Outcome<()> {
        let etag = offer.etag.clone();
        let mut patience = Patience::new(self.client.limits());
        let mut furthest = part.length();
        let mut first = Some(offer);
        loop {
            let offer = first.take().map_or_else(|| self.ask_again(&etag), Ok);
            match offer.and_then(|offer| self.receive(offer, part)) {
                Ok(()) => match part.problem(&etag)? {
                    None => return Ok(()),
                    Some(problem) if part.is_of_one_piece() => {
                        return Err(Failure::Untrusted(problem));
                    }
                    Some(problem) => {
                        let file = self.file;
                        self.display.say(&format!("{file} begins anew: {problem}"));
                        part.restart()?;
                    }
                },
                Err(Failure::NotTheRest) if part.length() > 0 => part.restart()?,
                Err(failure) => {
                    if part.length() >= furthest + RENEWING {
                        furthest = part.length();
                        patience.renew();
                    }
                    patience.wait_or_give_up(failure, self.client.reached(), self.display)?;
                }
            }
        }
    }

    /// Asks the hub once more: addresses of its storage are valid for a while only.
    fn ask_again(&self, etag: &Etag) -> Outcome<Offer> {
        let offer = Offer::ask(self.client, self.url.clone())?;
        if offer.etag != *etag {
            let now = &offer.etag;
            let reason = format!("its ETag was {etag}, and asked again it is {now}");
            return Err(Failure::Untrusted(reason));
        }
        Ok(offer)
    }

    /// Adds what is missing, as one answer gives it.
    fn receive(&self, offer: Offer, part: &mut PartialDownload) -> Outcome<()> {
        let (etag, announced) = (offer.etag.clone(), offer.size);
        match announced {
            // Nothing says that what an earlier run left is right.
            Some(size) if part.length() == size && !etag.is_digest() => part.restart()?,
            Some(size) if part.length() == size && size > 0 => return Ok(()),
            Some(size) if part.length() > size => part.restart()?,
            _ => {}
        }
        let from = part.length();
        let answer = offer.open(self.client, from)?;
        if from == 0 || !is_rest(&answer, from, announced, &etag) {
            // All of it is as good as the rest, and anything else is nothing.
            if !answer.extent().is_ok_and(|(begin, _)| begin == 0) {
                return Err(Failure::NotTheRest);
            }
            part.restart()?;
        }
        let size = self.size(&answer, announced, &etag)?;
        part.begin_piece();
        self.copy(answer, size, part)
    }

    /// The size of the file, if anybody says it. Without, an end or a digest must tell whether all
    /// of it came.
    fn size(
        &self,
        answer: &HttpResponse,
        announced: Option<u64>,
        etag: &Etag,
    ) -> Outcome<Option<u64>> {
        match (announced, answer.extent()?.1) {
            (Some(announced), Some(total)) if announced != total => Err(Failure::Untrusted(
                format!("the hub announced {announced} bytes, and {total} were to be sent"),
            )),
            (None, None) if !answer.has_end_mark() && !etag.is_digest() => Err(Failure::untrusted(
                "neither size nor digest of it is announced, so that half of it could not be \
                     told from all",
            )),
            (announced, total) => Ok(announced.or(total)),
        }
    }

    fn copy(
        &self,
        answer: HttpResponse,
        size: Option<u64>,
        part: &mut PartialDownload,
    ) -> Outcome<()> {
        let mut shown = self.display.file(self.file, size, part.length());
        let mut incoming = Incoming::new(self.client, answer);
        let most = size.unwrap_or(self.client.limits().unannounced);
        let mut buffer = vec![0; 1 << 17];
        loop {
            let n = incoming.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            if part.length() + n as u64 > most {
                return Err(Failure::Untrusted(match size {
                    Some(size) => format!("it is longer than the {size} bytes that were announced"),
                    None => {
                        format!("its size is not announced, and it is longer than {most} bytes")
                    }
                }));
            }
            part.append(&buffer[..n])?;
            shown.at(part.length());
        }
        match size {
            Some(size) if part.length() < size => {
                let reason = format!("it ended after {} of {size} bytes", part.length());
                Err(Failure::unreachable(reason, Again::Soon))
            }
            _ => {
                shown.finish();
                Ok(())
            }
        }
    }
}

/// Whether an answer goes on where the file ends so far. Where no digest will tell, the ETag of the
/// answer must.
fn is_rest(answer: &HttpResponse, from: u64, announced: Option<u64>, etag: &Etag) -> bool {
    let same_size = |total: Option<u64>| match (total, announced) {
        (Some(total), Some(announced)) => total == announced,
        _ => true,
    };
    let same_content = || {
        let given = answer.header("etag").ok().flatten();
        given.and_then(|given| Etag::parse(given).ok()).as_ref() == Some(etag)
    };
    let fits = answer
        .extent()
        .is_ok_and(|(begin, total)| begin == from && same_size(total));
    fits && (etag.is_digest() || same_content())
}

/// Whether a file of the cache is what its name says.
fn is_content(blob: &Path, etag: &Etag) -> bool {
    let check = || {
        let mut file = File::open(blob)?;
        let length = file.metadata()?.len();
        etag.mismatch(&mut file, length)
    };
    etag.is_digest() && matches!(check(), Ok(None))
}
