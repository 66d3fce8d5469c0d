//! What ties an object to others: its owners, and the finalizers that somebody has to take away.
//!
//! The pods of a replica set have the same owner, so these are shared as texts are.

use std::sync::Arc;

use super::Kind;
use super::packed::Packed;
use crate::interner::{Interning, Symbol};
use crate::version::Uid;

/// Owners and finalizers, in the object's order. There is one of them at least.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ties {
    pub(super) owners: Box<[Owner]>,
    pub(super) finalizers: Packed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) kind: Kind,
    pub(super) name: Symbol,
    pub(super) uid: Uid,
    pub(super) controller: bool,
    pub(super) block_deletion: bool,
}

impl Ties {
    /// What shared ones ask of the allocator; texts belong to the interner.
    pub(crate) fn allocated_bytes(this: &Arc<Self>) -> usize {
        let uids: usize = this.owners.iter().map(|owner| owner.uid.allocated_bytes()).sum();
        2 * size_of::<usize>() + size_of::<Self>() + size_of_val(&*this.owners) + uids
    }
}

impl Interning<'_> {
    /// The shared copy of these, which takes the owners.
    pub(super) fn share(&mut self, owners: &mut Vec<Owner>, finalizers: Packed) -> Arc<Ties> {
        // As the derived hash of both does.
        let hash = self.hash((&**owners, &finalizers));
        let is_it = |ties: &Ties| *ties.owners == **owners && ties.finalizers == finalizers;
        if let Some(known) = self.find_ties(hash, is_it) {
            return known;
        }
        self.add_ties(hash, Ties { owners: owners.drain(..).collect(), finalizers })
    }
}
