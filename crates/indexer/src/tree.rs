//! A persistent ordered tree: the order of the store's objects, and of each index.
//!
//! A snapshot is a clone of the root, whatever the size. The writer changes nodes in place as long as nobody
//! else holds them, and copies the path from the root otherwise, so a reader that keeps a snapshot costs each
//! node one copy, once. Every entry is in a leaf; inner nodes hold bounds, which are keys, not entries: they
//! must not keep an old version of an object alive.
//!
//! Most changes replace an entry by its next version. A search for its place would compare it with twenty others
//! that nobody has looked at for long, and each of them is a wait for memory or two. So whoever holds an entry can
//! keep the [`Trail`] to it, and an entry that is still where that leads is found without looking at any other.
//!
//! Invariants: entries are in strict order; all leaves are at one depth; no node is empty but the root, nor above
//! [`NODE_MAX`], nor below [`NODE_MIN`] but the root and the last ones of each level; a bound is at most the first
//! entry below it and above every entry left of it, except on the left edge, where bounds are not looked at.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Entries of a node. A copy of a path touches the counts of this many neighbours at each of its levels, a
/// search walks the more levels the smaller it is; 32 gives four levels for a million objects.
const NODE_MAX: usize = 32;

/// A node with less is merged with a neighbour. A quarter rather than half, so that deletes and inserts by
/// turns do not split and merge by turns, but for the greatest entry, for which a node may be made and dropped.
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
    /// How many levels of inner nodes there are.
    height: u32,
    len: usize,
}

/// Which child was taken at each inner node on the way to an entry, in five bits each, the lowest level in the lowest
/// bits, without those above the sixth. It is a guess: nodes that are split or merged lead elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail(u32);

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
        Self { root: Arc::new(Node::Leaf(Vec::new())), height: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts `entry` in its place, where another may be.
    pub(crate) fn insert(&mut self, entry: E) -> Trail {
        let mut trail = Trail::default();
        let (is_new, split) = Node::insert(&mut self.root, entry, true, &mut trail);
        if let Some(right) = split {
            let left = Arc::clone(&self.root);
            let bound = left.first_bound();
            self.root = Arc::new(Node::Inner(vec![Child { bound, node: left }, right]));
            self.height += 1;
        }
        self.len += usize::from(is_new);
        trail
    }

    /// Puts `entry` in the place of the one that `is_old`, which it returns, if `trail` leads there, and nowhere
    /// otherwise. Both must have the same place in the order.
    pub(crate) fn replace(
        &mut self,
        trail: Trail,
        is_old: impl FnMut(&E) -> bool,
        entry: E,
    ) -> Result<E, E> {
        // Looking first keeps a miss from copying the path.
        let at = self.leaf_at(trail).and_then(|entries| entries.iter().position(is_old));
        let Some(at) = at else { return Err(entry) };
        let (mut node, mut level) = (&mut self.root, self.height);
        loop {
            match Arc::make_mut(node) {
                Node::Leaf(entries) => return Ok(std::mem::replace(&mut entries[at], entry)),
                Node::Inner(children) => {
                    level -= 1;
                    node = &mut children[trail.child(level)].node;
                }
            }
        }
    }

    /// The entries of the leaf that a trail leads to.
    fn leaf_at(&self, trail: Trail) -> Option<&[E]> {
        let (mut node, mut level) = (&self.root, self.height);
        loop {
            match &**node {
                Node::Leaf(entries) => return Some(entries),
                Node::Inner(children) => {
                    level -= 1;
                    node = &children.get(trail.child(level))?.node;
                }
            }
        }
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
            self.height -= 1;
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

impl Trail {
    const BITS: u32 = {
        assert!(NODE_MAX.is_power_of_two());
        NODE_MAX.ilog2()
    };

    /// It goes on to this child, one level lower.
    fn go_to(&mut self, child: usize) {
        let child = u32::try_from(child).expect("a node must be small");
        self.0 = self.0 << Self::BITS | child;
    }

    /// The child of the inner node on a level, counted from the lowest one.
    fn child(self, level: u32) -> usize {
        self.0.checked_shr(Self::BITS * level).unwrap_or(0) as usize % NODE_MAX
    }
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

    /// Returns whether there was none in its place, and the right part if the node had to be split.
    fn insert(
        node: &mut Arc<Self>,
        entry: E,
        is_last: bool,
        trail: &mut Trail,
    ) -> (bool, Option<Child<E>>) {
        match Arc::make_mut(node) {
            Self::Leaf(entries) => {
                match entries.binary_search_by(|other| other.compare(entry.probe())) {
                    Ok(at) => {
                        entries[at] = entry;
                        (false, None)
                    }
                    Err(at) => {
                        let right = insert_at(entries, at, entry, is_last);
                        (true, right.map(|right| Self::Leaf(right).into_child()))
                    }
                }
            }
            Self::Inner(children) => {
                let at = child_at::<E>(children, entry.probe());
                trail.go_to(at);
                let is_last_child = is_last && at + 1 == children.len();
                let (is_new, split) =
                    Self::insert(&mut children[at].node, entry, is_last_child, trail);
                let right = split.and_then(|split| insert_at(children, at + 1, split, is_last));
                (is_new, right.map(|right| Self::Inner(right).into_child()))
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
                match children[at].node.len() {
                    0 => drop(children.remove(at)),
                    1..NODE_MIN if children.len() > 1 => {
                        merge(children, at.min(children.len() - 2));
                    }
                    _ => {}
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

/// Inserts into a node; if it is full, splits it and returns the right part. `is_last`: on its level.
fn insert_at<T>(items: &mut Vec<T>, at: usize, item: T, is_last: bool) -> Option<Vec<T>> {
    if items.len() < NODE_MAX {
        if items.len() == items.capacity() {
            // Never beyond the limit, and by a quarter of it rather than double.
            items.reserve_exact((NODE_MAX / 4).min(NODE_MAX - items.len()));
        }
        items.insert(at, item);
        return None;
    }
    // A run in order, as a server's list is, leaves full nodes behind instead of half-empty ones; and at the end,
    // where nothing moves, trails that stay right.
    let middle = match (at == NODE_MAX, is_last) {
        (true, true) => NODE_MAX,
        (true, false) => NODE_MAX - NODE_MIN,
        (false, _) => NODE_MAX / 2,
    };
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

/// Moves the content of `right` to `left`; if it is too much for one node, half of all of it comes back.
fn join<T>(left: &mut Vec<T>, right: &mut Vec<T>) -> Option<Vec<T>> {
    let len = left.len() + right.len();
    if len <= NODE_MAX {
        left.reserve_exact(right.len());
        left.append(right);
        return None;
    }
    let mut both = std::mem::take(left).into_iter().chain(right.drain(..));
    left.reserve_exact(NODE_MAX);
    left.extend(both.by_ref().take(len / 2));
    let mut rest = Vec::with_capacity(NODE_MAX);
    rest.extend(both);
    Some(rest)
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
        Self { root: Arc::clone(&self.root), height: self.height, len: self.len }
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
mod tests;
