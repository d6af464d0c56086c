//! Whose answers share what they have read.

use std::sync::{Arc, Weak};

use cascade_models::SharedPrefixes;

use crate::owner::Owner;

/// The prefixes of each client. They are there as long as a session has them.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    /// Whether clients without keys and salts share theirs.
    shared: bool,
    known: Vec<(Option<Owner>, Weak<SharedPrefixes>)>,
}

impl Scopes {
    /// If they are `shared`, clients without keys and salts take over what others of them have
    /// read.
    pub(crate) fn new(shared: bool) -> Self {
        Self {
            shared,
            known: Vec::new(),
        }
    }

    /// Whether what an `owner` finds may have been read by others.
    pub(crate) fn has_others(&self, owner: Owner) -> bool {
        self.shared && owner.is_unnamed()
    }

    /// What the answers of an `owner` share.
    pub(crate) fn of(&mut self, owner: Owner) -> Arc<SharedPrefixes> {
        let owner = Some(owner).filter(|owner| !self.has_others(*owner));
        self.known.retain(|(_, known)| known.strong_count() > 0);
        let known = self.known.iter().find(|(other, _)| *other == owner);
        known
            .and_then(|(_, known)| known.upgrade())
            .unwrap_or_else(|| {
                let new = Arc::default();
                self.known.push((owner, Arc::downgrade(&new)));
                new
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_share_with_themselves_and_strangers_only_where_they_may() {
        let (first, second) = (Owner::Connection(1), Owner::Connection(2));
        let named = first.salted("of my own");
        for shared in [false, true] {
            let mut scopes = Scopes::new(shared);
            let own = scopes.of(named);
            let [of_first, of_second] = [first, second].map(|owner| scopes.of(owner));
            assert!(Arc::ptr_eq(&own, &scopes.of(named)));
            assert!(!Arc::ptr_eq(&own, &of_first));
            assert_eq!(Arc::ptr_eq(&of_first, &of_second), shared);
            let proxied = [scopes.of(Owner::Request(1)), scopes.of(Owner::Request(2))];
            assert!(!Arc::ptr_eq(&proxied[0], &proxied[1]));
            drop((own, proxied));
            scopes.of(first);
            assert_eq!(scopes.known.len(), if shared { 1 } else { 2 });
        }
    }
}
