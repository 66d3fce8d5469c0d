//! A persistent ordered tree: the order of the store's objects, and of each index.
//!
//! A snapshot is a clone of the root, whatever the size. The writer changes nodes in place as long as nobody
//! else holds them, and copies the path from the root otherwise, so a reader that keeps a snapshot costs each
//! node one copy, once. Every entry is in a leaf; inner nodes hold bounds, which are keys, not entries: they
//! must not keep an old version of an object alive.
//!
//! Invariants: entries are in strict order; all leaves are at one depth; no node but the root is below
//! [`NODE_MIN`] or above [`NODE_MAX`]; a bound is at most the first entry below it and above every entry left
//! of it, except on the left edge, where bounds are not looked at.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Entries of a node. A copy of a path touches the counts of this many neighbours at each of its levels, a
/// search walks the more levels the smaller it is; 32 gives four levels for a million objects.
const NODE_MAX: usize = 32;

/// A node with less is merged with a neighbour. A quarter rather than half, so that deletes and inserts by
/// turns do not split and merge by turns.
const NODE_MIN: usize = NODE_MAX / 4;

/// What a tree holds, and how it is ordered.
pub(crate) trait Entry: Clone {
    /// The owned place of an entry in the order.
    type Bound: Clone;
    /// The borrowed place of an entry, or between entries.
    type Probe<'a>: Copy;

    fn bound(&self) -> Self::Bound;
    fn probe(&self) -> Self::Probe<'_>;
    fn compare(&self, probe: Self::Probe<'_>) -> Ordering;
    fn compare_bound(bound: &Self::Bound, probe: Self::Probe<'_>) -> Ordering;
}

pub(crate) struct Tree<E: Entry> {
    root: Arc<Node<E>>,
    len: usize,
}

enum Node<E: Entry> {
    Leaf(Vec<E>),
    Inner(Vec<Child<E>>),
}

struct Child<E: Entry> {
    bound: E::Bound,
    node: Arc<Node<E>>,
}

/// The entries of a tree from some place on, in order.
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

    /// Puts `entry` in its place; returns the one that was there.
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

    /// Takes out the entry at `probe`.
    pub(crate) fn remove(&mut self, probe: E::Probe<'_>) -> Option<E> {
        // Looking first keeps a miss from copying the path.
        self.get(probe)?;
        let removed = Node::remove(&mut self.root, probe);
        while let Node::Inner(children) = &*self.root
            && let [only] = &children[..]
        {
            self.root = Arc::clone(&only.node);
        }
        self.len -= usize::from(removed.is_some());
        removed
    }

    pub(crate) fn get(&self, probe: E::Probe<'_>) -> Option<&E> {
        let entry = self.from(probe).next()?;
        (entry.compare(probe) == Ordering::Equal).then_some(entry)
    }

    pub(crate) fn iter(&self) -> Iter<'_, E> {
        let mut iter = Iter { path: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root, |_| 0);
        iter
    }

    /// The entries from `probe` on.
    pub(crate) fn from(&self, probe: E::Probe<'_>) -> Iter<'_, E> {
        let mut iter = Iter { path: Vec::new(), leaf: [].iter() };
        iter.descend(&self.root, |children| child_at::<E>(children, probe));
        let entries = iter.leaf.as_slice();
        let before = entries.partition_point(|entry| entry.compare(probe) == Ordering::Less);
        iter.leaf = entries[before..].iter();
        iter
    }

    /// What the nodes ask of the allocator. It visits all of them.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.root.allocated_bytes()
    }
}

/// The child in which `probe` belongs.
fn child_at<E: Entry>(children: &[Child<E>], probe: E::Probe<'_>) -> usize {
    let is_before = |child: &Child<E>| E::compare_bound(&child.bound, probe) != Ordering::Greater;
    children.partition_point(is_before).saturating_sub(1)
}

impl<E: Entry> Node<E> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(children) => children.len(),
        }
    }

    fn first_bound(&self) -> E::Bound {
        match self {
            Self::Leaf(entries) => entries[0].bound(),
            Self::Inner(children) => children[0].bound.clone(),
        }
    }

    /// Returns the entry that was replaced, and the right half if the node had to be split.
    fn insert(node: &mut Arc<Self>, entry: E) -> (Option<E>, Option<Child<E>>) {
        match Arc::make_mut(node) {
            Self::Leaf(entries) => {
                match entries.binary_search_by(|other| other.compare(entry.probe())) {
                    Ok(at) => (Some(std::mem::replace(&mut entries[at], entry)), None),
                    Err(at) => {
                        let right = insert_at(entries, at, entry);
                        (None, right.map(|right| Self::Leaf(right).into_child()))
                    }
                }
            }
            Self::Inner(children) => {
                let at = child_at::<E>(children, entry.probe());
                let (replaced, split) = Self::insert(&mut children[at].node, entry);
                let right = split.and_then(|split| insert_at(children, at + 1, split));
                (replaced, right.map(|right| Self::Inner(right).into_child()))
            }
        }
    }

    fn remove(node: &mut Arc<Self>, probe: E::Probe<'_>) -> Option<E> {
        match Arc::make_mut(node) {
            Self::Leaf(entries) => {
                let at = entries.binary_search_by(|other| other.compare(probe)).ok()?;
                Some(entries.remove(at))
            }
            Self::Inner(children) => {
                let at = child_at::<E>(children, probe);
                let removed = Self::remove(&mut children[at].node, probe);
                if children[at].node.len() < NODE_MIN && children.len() > 1 {
                    merge(children, at.min(children.len() - 2));
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

/// Inserts into a node; if it is full, splits it and returns the right part.
fn insert_at<T>(items: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if items.len() < NODE_MAX {
        if items.len() == items.capacity() {
            // Never beyond the limit, and by a quarter of it rather than double.
            items.reserve_exact((NODE_MAX / 4).min(NODE_MAX - items.len()));
        }
        items.insert(at, item);
        return None;
    }
    // A run in order, as a server's list is, leaves full nodes behind instead of half-empty ones.
    let middle = if at == NODE_MAX { NODE_MAX - NODE_MIN } else { NODE_MAX / 2 };
    let mut right = Vec::with_capacity(NODE_MAX);
    right.extend(items.drain(middle..));
    if at <= middle && at < NODE_MAX {
        items.insert(at, item);
    } else {
        right.insert(at - middle, item);
    }
    Some(right)
}

/// Joins the children `at` and `at + 1`, or shares their content evenly if it is too much for one.
fn merge<E: Entry>(children: &mut Vec<Child<E>>, at: usize) {
    let mut right = children.remove(at + 1);
    let split = match (Arc::make_mut(&mut children[at].node), Arc::make_mut(&mut right.node)) {
        (Node::Leaf(left), Node::Leaf(right)) => join(left, right).map(Node::Leaf),
        (Node::Inner(left), Node::Inner(right)) => join(left, right).map(Node::Inner),
        _ => unreachable!("all leaves must be at one depth"),
    };
    if let Some(split) = split {
        children.insert(at + 1, split.into_child());
    }
}

fn join<T>(left: &mut Vec<T>, right: &mut Vec<T>) -> Option<Vec<T>> {
    left.append(right);
    (left.len() > NODE_MAX).then(|| left.split_off(left.len() / 2))
}

impl<'a, E: Entry> Iter<'a, E> {
    /// Goes down to a leaf, at each level to the child that `choose` names.
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

impl<E: Entry> Clone for Tree<E> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root), len: self.len }
    }
}

impl<E: Entry> Clone for Node<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(entries) => Self::Leaf(entries.clone()),
            Self::Inner(children) => Self::Inner(children.clone()),
        }
    }
}

impl<E: Entry> Clone for Child<E> {
    fn clone(&self) -> Self {
        Self { bound: self.bound.clone(), node: Arc::clone(&self.node) }
    }
}

impl<E: Entry> fmt::Debug for Tree<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    impl Entry for (u16, u8) {
        type Bound = u16;
        type Probe<'a> = u16;

        fn bound(&self) -> u16 {
            self.0
        }
        fn probe(&self) -> u16 {
            self.0
        }
        fn compare(&self, probe: u16) -> Ordering {
            self.0.cmp(&probe)
        }
        fn compare_bound(bound: &u16, probe: u16) -> Ordering {
            bound.cmp(&probe)
        }
    }

    /// Checks the invariants below a node, and returns its depth.
    fn check(node: &Node<(u16, u8)>, is_root: bool, from: u16, to: Option<u16>) -> usize {
        assert!(node.len() <= NODE_MAX && (is_root || node.len() >= NODE_MIN), "{}", node.len());
        match node {
            Node::Leaf(entries) => {
                let is_inside = |key: u16| key >= from && to.is_none_or(|to| key < to);
                assert!(entries.iter().all(|entry| is_inside(entry.0)));
                1
            }
            Node::Inner(children) => {
                assert!(children.len() > 1);
                let depths = children.iter().enumerate().map(|(at, child)| {
                    let from = if at == 0 { from } else { child.bound };
                    check(&child.node, false, from, children.get(at + 1).map(|c| c.bound).or(to))
                });
                let depths: Vec<_> = depths.collect();
                assert!(depths.iter().all(|depth| *depth == depths[0]), "{depths:?}");
                depths[0] + 1
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Snapshots taken on the way keep what they saw.
        #[test]
        fn behaves_as_an_ordered_map(
            steps in prop::collection::vec((any::<bool>(), 0..1_000_u16, any::<u8>()), 0..2_000),
            remove_all in any::<bool>(),
        ) {
            let (mut tree, mut model) = (Tree::new(), BTreeMap::new());
            let mut snapshots = Vec::new();
            for (number, (is_insert, key, value)) in steps.into_iter().enumerate() {
                if is_insert || number < 500 {
                    let old = tree.insert((key, value)).map(|entry| entry.1);
                    prop_assert_eq!(old, model.insert(key, value));
                } else {
                    prop_assert_eq!(tree.remove(key).map(|entry| entry.1), model.remove(&key));
                }
                if number % 100 == 0 {
                    snapshots.push((tree.clone(), model.clone()));
                }
            }
            if remove_all {
                for key in model.keys() {
                    prop_assert!(tree.remove(*key).is_some());
                }
                model.clear();
            }
            snapshots.push((tree, model));
            for (tree, model) in snapshots {
                check(&tree.root, true, 0, None);
                prop_assert_eq!(tree.len(), model.len());
                prop_assert!(tree.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))));
                for from in [0, 17, 500, 999, 1_000] {
                    let wanted = model.range(from..).map(|(key, value)| (*key, *value));
                    prop_assert!(tree.from(from).copied().eq(wanted));
                }
            }
        }
    }

    #[test]
    fn a_run_in_order_fills_its_nodes() {
        let mut tree = Tree::new();
        for key in 0..10_000 {
            tree.insert((key, 0));
        }
        let room = tree.allocated_bytes() / size_of::<(u16, u8)>();
        assert!(room < 4 * 10_000, "room for {room}");
        check(&tree.root, true, 0, None);
    }
}
