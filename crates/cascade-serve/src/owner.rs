//! To whom a session belongs: nobody is shown what another client said or was told.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};

/// Headers of proxies. What they pass on may come from many clients over one connection.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// Who asks. Drafters keep what they have learned of texts for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Whoever has a key, or knows a salt, or both.
    Named([u8; 32]),
    /// Whoever speaks on a connection, where no key is asked for.
    Connection(u64),
    /// Whoever sent one request: a client of a proxy that shows no key.
    Request(u64),
}

/// Which of a server's connections a request came on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionId(u64);

impl ConnectionId {
    /// One that no other connection has.
    pub(crate) fn unique() -> Self {
        Self(unique())
    }
}

fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Owner {
    /// Who sent a request, by the digest of the key that it showed, if one is asked for.
    pub(crate) fn of(
        key: Option<[u8; 32]>,
        connection: Option<ConnectionId>,
        headers: &HeaderMap,
    ) -> Self {
        let forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
        match (key, connection) {
            (Some(key), _) => Self::Named(key),
            (None, Some(ConnectionId(id))) if !forwarded => Self::Connection(id),
            _ => Self::Request(unique()),
        }
    }

    /// One of several who share a key, or have none: the salt distinguishes them.
    pub(crate) fn salted(self, salt: &str) -> Self {
        let mut hash = Sha256::new();
        if let Self::Named(key) = self {
            hash.update(key);
        }
        hash.update(salt);
        Self::Named(hash.finalize().into())
    }

    /// Whether it is a stranger to the server, who has neither a key nor a salt.
    pub(crate) fn is_unnamed(self) -> bool {
        matches!(self, Self::Connection(_))
    }

    /// Whether both are strangers.
    pub(crate) fn are_unnamed(self, other: Self) -> bool {
        self.is_unnamed() && other.is_unnamed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_salts_and_connections_tell_clients_apart() {
        let none = HeaderMap::new();
        let connection = Some(ConnectionId::unique());
        let of_key = |key: u8| Owner::of(Some([key; 32]), connection, &none);
        assert_eq!(of_key(1), of_key(1));
        assert_ne!(of_key(1), of_key(2));
        assert_ne!(of_key(1).salted("a"), of_key(1));
        assert_ne!(of_key(1).salted("a"), of_key(2).salted("a"));
        let own = Owner::of(None, connection, &none);
        assert_eq!(own, Owner::of(None, connection, &none));
        let other = Owner::of(None, Some(ConnectionId::unique()), &none);
        assert!(own != other && own.are_unnamed(other));
        assert_eq!(own.salted("a"), other.salted("a"), "a salt is a name");
        assert!(!own.are_unnamed(own.salted("a")));
        let mut proxied = HeaderMap::new();
        proxied.insert("x-forwarded-for", "10.0.0.1".parse().unwrap());
        let asked = || Owner::of(None, connection, &proxied);
        assert_ne!(asked(), asked());
        assert!(!asked().are_unnamed(asked()));
        assert_eq!(Owner::of(Some([1; 32]), connection, &proxied), of_key(1));
    }
}
