//! The tree is an ordered map and keeps its invariants.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

impl Entry for (u16, u8) {
    type Bound = u16;
    type SearchKey<'a> = u16;

    fn bound(&self) -> u16 {
        self.0
    }
    fn search_key(&self) -> u16 {
        self.0
    }
    fn compare(&self, sought: u16) -> Ordering {
        self.0.cmp(&sought)
    }
    fn compare_bound(bound: &u16, sought: u16) -> Ordering {
        bound.cmp(&sought)
    }
}

fn check(tree: &Tree<(u16, u8)>) {
    check_node(&tree.root, true, 0, None);
}

/// Checks the invariants below a node, and returns how many levels of inner nodes there are.
fn check_node(node: &Node<(u16, u8)>, is_root: bool, from: u16, to: Option<u16>) -> u32 {
    match node {
        Node::Leaf(entries) => {
            assert!((usize::from(!is_root)..=NODE_MAX).contains(&entries.len()));
            let is_inside = |key: u16| key >= from && to.is_none_or(|to| key < to);
            assert!(entries.iter().all(|entry| is_inside(entry.0)));
            0
        }
        Node::Inner(children) => {
            assert!((1 + usize::from(is_root)..=NODE_MAX).contains(&children.len()));
            let heights = children.iter().enumerate().map(|(at, child)| {
                let from = if at == 0 { from } else { child.bound };
                let to = children.get(at + 1).map(|next| next.bound).or(to);
                check_node(&child.node, false, from, to)
            });
            let heights: Vec<_> = heights.collect();
            assert!(heights.iter().all(|height| *height == heights[0]), "{heights:?}");
            heights[0] + 1
        }
    }
}

proptest! {
    /// Snapshots taken on the way keep what they saw.
    #[test]
    fn behaves_as_an_ordered_map(
        steps in prop::collection::vec((any::<bool>(), 0..1_000_u16, any::<u8>()), 0..2_000),
        ordered in 0..1_000_u16,
        // In ascending or descending order, or not at all.
        remove_all in any::<Option<bool>>(),
    ) {
        let (mut tree, mut model) = (Tree::new(), BTreeMap::new());
        let mut snapshots = Vec::new();
        for key in 0..ordered {
            tree.insert((key, 0));
            model.insert(key, 0);
        }
        for (number, (is_insert, key, value)) in steps.into_iter().enumerate() {
            if is_insert {
                let replaced = tree.insert((key, value)).map(|entry| entry.1);
                prop_assert_eq!(replaced, model.insert(key, value));
            } else {
                prop_assert_eq!(tree.remove(key).map(|entry| entry.1), model.remove(&key));
            }
            if number % 100 == 0 {
                snapshots.push((tree.clone(), model.clone()));
            }
        }
        if let Some(is_descending) = remove_all {
            let mut keys: Vec<_> = std::mem::take(&mut model).into_keys().collect();
            if is_descending {
                keys.reverse();
            }
            for key in keys {
                prop_assert!(tree.remove(key).is_some());
                check(&tree);
            }
        }
        snapshots.push((tree, model));
        for (tree, model) in snapshots {
            check(&tree);
            prop_assert_eq!(tree.len(), model.len());
            prop_assert!(tree.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))));
            for from in [0, 17, 500, 999, 1_000] {
                let wanted = model.range(from..).map(|(key, value)| (*key, *value));
                prop_assert!(tree.from(from).copied().eq(wanted));
            }
        }
    }
}

const RUN: u16 = 40_000;

/// A tree that was filled in order.
fn run() -> Tree<(u16, u8)> {
    let mut tree = Tree::new();
    (0..RUN).for_each(|key| assert_eq!(tree.insert((key, 0)), None));
    tree
}

fn leaves(node: &Node<(u16, u8)>) -> usize {
    match node {
        Node::Leaf(_) => 1,
        Node::Inner(children) => children.iter().map(|child| leaves(&child.node)).sum(),
    }
}

#[test]
fn a_run_in_order_fills_three_quarters_of_its_nodes() {
    let tree = run();
    check(&tree);
    let leaves = leaves(&tree.root);
    // All but the last one.
    assert!((leaves - 1) * KEPT_IN_ORDER <= usize::from(RUN), "{leaves} leaves");
}

#[test]
fn a_tree_of_four_levels_is_emptied_from_its_end() {
    let mut tree = run();
    assert_eq!(check_node(&tree.root, true, 0, None), 3);
    for key in (0..RUN).rev() {
        assert_eq!(tree.remove(key), Some((key, 0)));
        if key < 1_100 || key % 97 == 0 {
            check(&tree);
        }
    }
    assert_eq!(tree.len(), 0);
}

#[test]
fn a_tree_with_few_entries_left_takes_little_memory() {
    let mut tree = run();
    let full = tree.allocated_bytes();
    for key in (0..RUN).filter(|key| key % 100 != 0) {
        assert_eq!(tree.remove(key), Some((key, 0)));
    }
    check(&tree);
    let left = tree.allocated_bytes();
    assert!(left < full / 4, "{left} of {full} bytes");
}

#[test]
fn a_miss_copies_no_node() {
    let mut tree = run();
    let snapshot = tree.clone();
    assert_eq!(tree.remove(RUN), None);
    assert!(Arc::ptr_eq(&snapshot.root, &tree.root));
}

/// The first bound of a node may be above what is below it, and above the bounds behind it.
#[test]
fn what_is_inserted_before_a_deleted_first_child_is_found() {
    let mut tree = Tree::new();
    let first = 2_000;
    for key in first..first + 1_000 {
        tree.insert((key, 0));
    }
    for key in first..first + 100 {
        tree.remove(key);
    }
    for key in (0..first).rev() {
        tree.insert((key, 0));
    }
    check(&tree);
    let expected: Vec<u16> = (0..first).chain(first + 100..first + 1_000).collect();
    assert!(expected.iter().all(|key| tree.get(*key) == Some(&(*key, 0))));
    assert!(tree.iter().map(|entry| entry.0).eq(expected));
}
