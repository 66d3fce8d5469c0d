//! Owner references and finalizers of an object, as a head holds them.
//!
//! The pods of a replica set have the same owner and the same finalizers, so they share one value.

use std::sync::Arc;

use crate::version::Uid;

/// Owner references and finalizers, in the object's order.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnersAndFinalizers {
    pub(crate) owners: Box<[Owner]>,
    pub(crate) finalizers: Box<[Arc<str>]>,
}

/// One owner reference.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Uid,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

impl OwnersAndFinalizers {
    /// What a shared value takes from the allocator. The interner counts the texts.
    pub(crate) fn allocated_bytes(&self) -> usize {
        let uids: usize = self.owners.iter().map(|owner| owner.uid.allocated_bytes()).sum();
        let lists = size_of_val(&*self.owners) + size_of_val(&*self.finalizers);
        2 * size_of::<usize>() + size_of::<Self>() + lists + uids
    }
}
