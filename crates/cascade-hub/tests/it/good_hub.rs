//! A hub that does everything right.

use std::collections::BTreeMap;
use std::net::TcpStream;

use sha1::{Digest, Sha1};

use crate::test_server::{Request, hex, ranged, send, sha256};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const NEXT: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// The hub's name for a file that is not in Git LFS: Git's SHA-1 of it.
pub(crate) fn git_sha1(bytes: &[u8]) -> String {
    let start = Sha1::new().chain_update(format!("blob {}\0", bytes.len()));
    hex(&start.chain_update(bytes).finalize())
}

/// Whether it asks the storage of large files.
pub(crate) fn is_for_storage(request: &Request) -> bool {
    request.path.starts_with("/lfs/")
}

/// Whether it asks the hub for a file.
pub(crate) fn is_for_file(request: &Request) -> bool {
    request.path.contains("/resolve/")
}

/// What a hub has: files of one dataset and model, `org/name`. Those that end in `.bin` or
/// `.safetensors` are in Git LFS.
#[derive(Clone, Default)]
pub(crate) struct Hub {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Where the large files are; the hub itself if `None`.
    pub(crate) storage: Option<String>,
}

impl Hub {
    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let owned = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), bytes.to_vec());
        Self {
            files: files.iter().map(owned).collect(),
            storage: None,
        }
    }

    /// The whole protocol, done right.
    pub(crate) fn answer(&self, request: &Request, stream: &mut TcpStream) -> std::io::Result<()> {
        let (head, body) = self.reply(request);
        send(stream, &head, &body)
    }

    pub(crate) fn reply(&self, request: &Request) -> (String, Vec<u8>) {
        let path = request.path.replace("%20", " ").replace("%23", "#");
        let path = path.as_str();
        if let Some(rest) = path.strip_prefix("/lfs/") {
            let name = rest.split('?').next().unwrap();
            let etag = "\"of-the-storage\"";
            return ranged(request, &format!("ETag: {etag}"), &self.files[name]);
        }
        if path.starts_with("/api/") {
            let names = self.files.keys();
            let siblings: Vec<_> = names
                .map(|name| serde_json::json!({ "rfilename": name }))
                .collect();
            let info = serde_json::json!({ "sha": COMMIT, "siblings": siblings });
            return ("200 OK".to_owned(), info.to_string().into_bytes());
        }
        let rest = path
            .trim_start_matches("/datasets")
            .strip_prefix("/org/name/resolve/");
        let Some((revision, name)) = rest.and_then(|rest| rest.split_once('/')) else {
            return (
                "404 Not Found\r\nX-Error-Code: RepoNotFound".to_owned(),
                Vec::new(),
            );
        };
        if revision != "main" && revision != COMMIT {
            return (
                "404 Not Found\r\nX-Error-Code: RevisionNotFound".to_owned(),
                Vec::new(),
            );
        }
        let commit = format!("X-Repo-Commit: {COMMIT}");
        let Some(bytes) = self.files.get(name) else {
            let head = format!("404 Not Found\r\nX-Error-Code: EntryNotFound\r\n{commit}");
            return (head, Vec::new());
        };
        if !is_large(name) {
            return ranged(
                request,
                &format!("{commit}\r\nETag: \"{}\"", git_sha1(bytes)),
                bytes,
            );
        }
        let storage = self.storage.as_deref().unwrap_or_default();
        let place = name.replace(' ', "%20").replace('#', "%23");
        let head = format!(
            "302 Found\r\n{commit}\r\nLocation: {storage}/lfs/{place}?signature=s3cret\r\n\
             X-Linked-Size: {}\r\nX-Linked-Etag: \"{}\"",
            bytes.len(),
            sha256(bytes)
        );
        (head, b"Found. Redirecting".to_vec())
    }
}

pub(crate) fn is_large(name: &str) -> bool {
    name.ends_with(".bin") || name.ends_with(".safetensors")
}
