//! The tree: that it is an ordered map, keeps its invariants, and that trails lead where they should.

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

fn check(tree: &Tree<(u16, u8)>) {
    assert_eq!(check_node(&tree.root, 0, 0, None), tree.height);
}

/// Checks the invariants below a node, and returns how many levels of inner nodes there are.
fn check_node(node: &Node<(u16, u8)>, min: usize, from: u16, to: Option<u16>) -> u32 {
    assert!((min..=NODE_MAX).contains(&node.len()), "{}", node.len());
    match node {
        Node::Leaf(entries) => {
            assert!(entries.capacity() <= NODE_MAX, "{}", entries.capacity());
            let is_inside = |key: u16| key >= from && to.is_none_or(|to| key < to);
            assert!(entries.iter().all(|entry| is_inside(entry.0)));
            0
        }
        Node::Inner(children) => {
            let is_root = min == 0;
            assert!(!is_root || children.len() > 1);
            assert!(children.capacity() <= NODE_MAX, "{}", children.capacity());
            let heights = children.iter().enumerate().map(|(at, child)| {
                let from = if at == 0 { from } else { child.bound };
                let is_last = min < NODE_MIN && at + 1 == children.len();
                let to = children.get(at + 1).map(|next| next.bound).or(to);
                check_node(&child.node, if is_last { 1 } else { NODE_MIN }, from, to)
            });
            let heights: Vec<_> = heights.collect();
            assert!(heights.iter().all(|height| *height == heights[0]), "{heights:?}");
            heights[0] + 1
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Snapshots taken on the way keep what they saw.
    #[test]
    fn behaves_as_an_ordered_map(
        steps in prop::collection::vec((0..3, 0..1_000_u16, any::<u8>()), 0..2_000),
        ordered in 0..1_000_u16,
        // In order, against it, or not at all.
        remove_all in any::<Option<bool>>(),
    ) {
        let (mut tree, mut model) = (Tree::new(), BTreeMap::new());
        let (mut snapshots, mut trails) = (Vec::new(), BTreeMap::new());
        for key in 0..ordered {
            trails.insert(key, tree.insert((key, 0)));
            model.insert(key, 0);
        }
        for (number, (step, key, value)) in steps.into_iter().enumerate() {
            match (step, trails.get(&key)) {
                (0, _) => {
                    prop_assert_eq!(tree.remove(key).map(|entry| entry.1), model.remove(&key));
                }
                (1, Some(trail)) => {
                    let replaced = tree.replace(*trail, |entry| entry.0 == key, (key, value));
                    if let Ok(old) = replaced {
                        prop_assert_eq!(Some(old.1), model.insert(key, value));
                    }
                }
                _ => {
                    trails.insert(key, tree.insert((key, value)));
                    model.insert(key, value);
                }
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

/// Where one entry makes a node of each level but the highest, with nothing else in it.
#[test]
fn the_last_entries_come_and_go_on_every_level() {
    for full in [NODE_MAX, NODE_MAX.pow(2), NODE_MAX.pow(3)] {
        let (mut tree, last) = (Tree::new(), u16::try_from(full).expect("few"));
        for key in 0..=last {
            tree.insert((key, 0));
        }
        check(&tree);
        let height = tree.height;
        assert_eq!(tree.remove(last), Some((last, 0)));
        check(&tree);
        assert_eq!(tree.height, height - 1);
        tree.insert((last, 1));
        check(&tree);
        for key in (0..=last).rev() {
            assert!(tree.remove(key).is_some());
            if key < 1_100 || key % 97 == 0 {
                check(&tree);
            }
        }
        assert_eq!(tree.len(), 0);
    }
}

const RUN: u16 = 40_000;

/// A run in order, and the trails to its entries.
fn run() -> (Tree<(u16, u8)>, Vec<Trail>) {
    let mut tree = Tree::new();
    let trails = (0..RUN).map(|key| tree.insert((key, 0))).collect();
    (tree, trails)
}

fn found(tree: &mut Tree<(u16, u8)>, trails: &[Trail]) -> usize {
    let found = |key: &u16| {
        let trail = trails[usize::from(*key)];
        tree.replace(trail, |entry| entry.0 == *key, (*key, 1)).is_ok()
    };
    (0..RUN).filter(found).count()
}

#[test]
fn a_run_in_order_fills_its_nodes() {
    let (tree, _) = run();
    let room = tree.allocated_bytes() / size_of::<(u16, u8)>();
    assert!(room < 2 * usize::from(RUN), "room for {room}");
    check(&tree);
}

#[test]
fn trails_of_a_run_in_order_lead_to_its_entries() {
    let (mut tree, trails) = run();
    assert_eq!(tree.height, 3);
    // But for one in each leaf, for which that leaf was made.
    assert!(found(&mut tree, &trails) >= usize::from(RUN) / NODE_MAX * (NODE_MAX - 1));
}

#[test]
fn trails_lead_to_entries_that_were_found_by_a_search() {
    let (mut tree, _) = run();
    let trails: Vec<_> = (0..RUN).map(|key| tree.insert((key, 0))).collect();
    assert_eq!(found(&mut tree, &trails), usize::from(RUN));
}

#[test]
fn a_trail_that_leads_elsewhere_changes_nothing() {
    let (mut tree, trails) = run();
    let root = Arc::clone(&tree.root);
    let last = trails[usize::from(RUN) - 1];
    for trail in [last, Trail(u32::MAX)] {
        assert_eq!(tree.replace(trail, |entry| entry.0 == 7, (7, 1)), Err((7, 1)));
    }
    assert!(Arc::ptr_eq(&root, &tree.root), "no path was copied");
}
