//! A persistent ordered tree (a B+ tree): the order of the store's objects, and of each index.
//!
//! A snapshot is a clone of the root, whatever the size. The writer changes a node in place if
//! nobody else holds it, and copies it otherwise. So a snapshot costs the writer at most one copy
//! of each node. All entries are in leaves. Inner nodes hold bounds, which are keys and not
//! entries, because an entry would keep an old version of an object alive.
//!
//! Invariants:
//! - Entries are in strict order, and all leaves are at the same depth.
//! - A node has at most [`NODE_MAX`] items. Except for the root, it has at least one. Nodes are not
//!   merged: one with few items fills again, or goes with its last item.
//! - A bound is above every entry to its left and at most the first entry below it, except the
//!   first bound of a node, which may be too high. No search depends on a first bound: what is
//!   below it belongs to the first child, too.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The most items of a node. Large nodes make copies of a path expensive, small ones make the tree
/// deep. With 32, a million objects have four levels.
const NODE_MAX: usize = 32;

/// How many items stay in a full node when an item is inserted behind its last one. Inserts in
/// order, as from a server's list, would leave half-empty nodes behind if every split was in the
/// middle.
const KEPT_IN_ORDER: usize = NODE_MAX * 3 / 4;

/// What a tree holds, and how it is ordered.
pub(crate) trait Entry: Clone {
    /// The owned position of an entry.
    type Bound: Clone;
    /// The borrowed position of an entry, or a position between entries.
    type SearchKey<'a>: Copy;

    fn bound(&self) -> Self::Bound;
    fn search_key(&self) -> Self::SearchKey<'_>;
    fn compare(&self, sought: Self::SearchKey<'_>) -> Ordering;
    fn compare_bound(bound: &Self::Bound, sought: Self::SearchKey<'_>) -> Ordering;
}

#[derive(Clone)]
pub(crate) struct Tree<E: Entry> {
    root: Arc<Node<E>>,
    len: usize,
}

#[derive(Clone)]
enum Node<E: Entry> {
    Leaf(Vec<E>),
    Inner(Vec<Child<E>>),
}

#[derive(Clone)]
struct Child<E: Entry> {
    bound: E::Bound,
    node: Arc<Node<E>>,
}

/// Iterates over the entries of a tree in order, from some position on.
pub(crate) struct Iter<'a, E: Entry> {
    /// Inner nodes from the root down, each with the child to visit next.
    path: Vec<(&'a [Child<E>], usize)>,
    leaf: std::slice::Iter<'a, E>,
}

impl<E: Entry> Tree<E> {
    pub(crate) fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Inserts an entry. Returns the one that was at its position.
    pub(crate) fn insert(&mut self, entry: E) -> Option<E> {
        let (replaced, split) = Node::insert(&mut self.root, entry);
        if let Some(right) = split {
            let left = Arc::clone(&self.root);
            let bound = left.first_bound();
            self.root = Arc::new(Node::Inner(vec![Child { bound, node: left }, right]));
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes the entry at `sought`.
    pub(crate) fn remove(&mut self, sought: E::SearchKey<'_>) -> Option<E> {
        // A path is copied only if there is something to remove.
        self.get(sought)?;
        let removed = Node::remove(&mut self.root, sought);
        while let Node::Inner(children) = &*self.root
            && let [only] = &children[..]
        {
            self.root = Arc::clone(&only.node);
        }
        self.len -= usize::from(removed.is_some());
        removed
    }

    pub(crate) fn get(&self, sought: E::SearchKey<'_>) -> Option<&E> {
        let entry = self.from(sought).next()?;
        (entry.compare(sought) == Ordering::Equal).then_some(entry)
    }

    pub(crate) fn iter(&self) -> Iter<'_, E> {
        let mut iter = Iter { path: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root, |_| 0);
        iter
    }

    /// Iterates from `sought` on.
    pub(crate) fn from(&self, sought: E::SearchKey<'_>) -> Iter<'_, E> {
        let mut iter = Iter { path: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root, |children| child_at::<E>(children, sought));
        let entries = iter.leaf.as_slice();
        let before = entries.partition_point(|entry| entry.compare(sought) == Ordering::Less);
        iter.leaf = entries[before..].iter();
        iter
    }

    /// What the nodes take from the allocator. It visits all of them.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.root.allocated_bytes()
    }
}

/// The child to which `sought` belongs. The first bound is not looked at: see the invariants.
fn child_at<E: Entry>(children: &[Child<E>], sought: E::SearchKey<'_>) -> usize {
    let is_before = |child: &Child<E>| E::compare_bound(&child.bound, sought) != Ordering::Greater;
    children[1..].partition_point(is_before)
}

impl<E: Entry> Node<E> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(entries) => entries.is_empty(),
            Self::Inner(children) => children.is_empty(),
        }
    }

    fn first_bound(&self) -> E::Bound {
        match self {
            Self::Leaf(entries) => entries[0].bound(),
            Self::Inner(children) => children[0].bound.clone(),
        }
    }

    /// Returns the entry that was replaced, and the right part if the node was split.
    fn insert(node: &mut Arc<Self>, entry: E) -> (Option<E>, Option<Child<E>>) {
        match Arc::make_mut(node) {
            Self::Leaf(entries) => {
                match entries.binary_search_by(|other| other.compare(entry.search_key())) {
                    Ok(at) => (Some(std::mem::replace(&mut entries[at], entry)), None),
                    Err(at) => {
                        let right = insert_at(entries, at, entry);
                        (None, right.map(|right| Self::Leaf(right).into_child()))
                    }
                }
            }
            Self::Inner(children) => {
                let at = child_at::<E>(children, entry.search_key());
                let (replaced, split) = Self::insert(&mut children[at].node, entry);
                let right = split.and_then(|split| insert_at(children, at + 1, split));
                (replaced, right.map(|right| Self::Inner(right).into_child()))
            }
        }
    }

    fn remove(node: &mut Arc<Self>, sought: E::SearchKey<'_>) -> Option<E> {
        match Arc::make_mut(node) {
            Self::Leaf(entries) => {
                let at = entries.binary_search_by(|other| other.compare(sought)).ok()?;
                Some(remove_at(entries, at))
            }
            Self::Inner(children) => {
                let at = child_at::<E>(children, sought);
                let removed = Self::remove(&mut children[at].node, sought);
                if children[at].node.is_empty() {
                    remove_at(children, at);
                }
                removed
            }
        }
    }

    fn into_child(self) -> Child<E> {
        Child { bound: self.first_bound(), node: Arc::new(self) }
    }

    fn allocated_bytes(&self) -> usize {
        let node = 2 * size_of::<usize>() + size_of::<Self>();
        node + match self {
            Self::Leaf(entries) => entries.capacity() * size_of::<E>(),
            Self::Inner(children) => {
                let below: usize = children.iter().map(|child| child.node.allocated_bytes()).sum();
                children.capacity() * size_of::<Child<E>>() + below
            }
        }
    }
}

/// Inserts into a node. If the node is full, splits it and returns the right part.
fn insert_at<T>(items: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if items.len() < NODE_MAX {
        items.insert(at, item);
        return None;
    }
    let middle = if at == NODE_MAX { KEPT_IN_ORDER } else { NODE_MAX / 2 };
    let mut right = items.split_off(middle);
    if at <= middle {
        items.insert(at, item);
    } else {
        right.insert(at - middle, item);
    }
    Some(right)
}

/// Removes from a node. Gives memory back if most of it is unused, because a node with few items
/// may stay for long.
fn remove_at<T>(items: &mut Vec<T>, at: usize) -> T {
    let removed = items.remove(at);
    if items.capacity() > 4 * items.len() {
        items.shrink_to(2 * items.len());
    }
    removed
}

impl<'a, E: Entry> Iter<'a, E> {
    /// Goes down to a leaf. At each level, `choose` names the child.
    fn descend(&mut self, mut node: &'a Node<E>, choose: impl Fn(&[Child<E>]) -> usize) {
        loop {
            match node {
                Node::Leaf(entries) => {
                    self.leaf = entries.iter();
                    return;
                }
                Node::Inner(children) => {
                    let at = choose(children);
                    self.path.push((children, at + 1));
                    node = &children[at].node;
                }
            }
        }
    }
}

impl<'a, E: Entry> Iterator for Iter<'a, E> {
    type Item = &'a E;

    fn next(&mut self) -> Option<&'a E> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some(entry);
            }
            let (children, next) = self.path.last_mut()?;
            match children.get(*next) {
                Some(child) => {
                    *next += 1;
                    self.descend(&child.node, |_| 0);
                }
                None => drop(self.path.pop()),
            }
        }
    }
}

impl<E: Entry> fmt::Debug for Tree<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
