//! The replica sets of a deployment: the new one, which has the current template, and the old ones.

use kube::ResourceExt as _;

use crate::objects::ReplicaSet;

/// Replica sets, from the oldest to the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    all: Vec<ReplicaSet>,
    /// The index of the new one.
    new: Option<usize>,
}

impl Sets {
    /// If several have the template, which can happen by accident, the oldest is the new one.
    pub(super) fn of(mut all: Vec<ReplicaSet>, has_template: impl Fn(&ReplicaSet) -> bool) -> Self {
        all.sort_by_cached_key(|set| (set.creation_timestamp(), set.name_any()));
        let new = all.iter().position(has_template);
        Self { all, new }
    }

    /// Adds the new replica set.
    pub(super) fn add_new(&mut self, set: ReplicaSet) {
        self.new = Some(self.all.len());
        self.all.push(set);
    }

    pub(super) fn all(&self) -> &[ReplicaSet] {
        &self.all
    }

    /// Returns the index of the new one.
    pub(super) fn new_at(&self) -> Option<usize> {
        self.new
    }

    pub(super) fn newest(&self) -> Option<&ReplicaSet> {
        self.new.map(|at| &self.all[at])
    }

    /// Returns the indexes of the old ones.
    pub(super) fn old_at(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|at| Some(*at) != self.new).collect()
    }

    pub(super) fn old(&self) -> impl Iterator<Item = &ReplicaSet> {
        let new = self.new;
        self.all.iter().enumerate().filter(move |(at, _)| Some(*at) != new).map(|(_, set)| set)
    }

    /// Returns the indexes of those with a desired size above zero.
    pub(super) fn active_at(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|at| self.all[*at].replicas() > 0).collect()
    }

    /// Returns the indexes of the old ones with a desired size above zero.
    pub(super) fn old_active_at(&self) -> Vec<usize> {
        self.active_at().into_iter().filter(|at| Some(*at) != self.new).collect()
    }

    pub(super) fn replace(&mut self, at: usize, set: ReplicaSet) {
        self.all[at] = set;
    }

    /// Returns the one to scale outside of a rollout: the only one with pods, or the newest if none
    /// has any.
    pub(super) fn only_active_or_newest(&self) -> Option<usize> {
        match self.active_at()[..] {
            [] => self.new.or_else(|| self.all.len().checked_sub(1)),
            [only] => Some(only),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, second: u32, replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
            "spec": {"replicas": replicas, "selector": {}},
        }))
        .expect("a replica set")
    }

    #[test]
    fn oldest_with_the_template_is_the_new_one() {
        let all = vec![set("c", 3, 1), set("b", 2, 1), set("a", 1, 1)];
        let sets = Sets::of(all, |set| set.name_any() != "a");
        assert_eq!(sets.new_at(), Some(1));
        assert_eq!(sets.old_at(), [0, 2]);
    }

    #[test]
    fn scaling_is_for_the_only_one_with_pods_or_else_the_newest() {
        let none = |_: &ReplicaSet| false;
        assert_eq!(Sets::of(Vec::new(), none).only_active_or_newest(), None);
        let empty = vec![set("a", 1, 0), set("b", 2, 0)];
        assert_eq!(Sets::of(empty.clone(), none).only_active_or_newest(), Some(1));
        let rolled_back = Sets::of(empty, |set| set.name_any() == "a");
        assert_eq!(rolled_back.only_active_or_newest(), Some(0));
        let one = vec![set("a", 1, 2), set("b", 2, 0)];
        assert_eq!(Sets::of(one, none).only_active_or_newest(), Some(0));
        let two = vec![set("a", 1, 2), set("b", 2, 1)];
        assert_eq!(Sets::of(two, none).only_active_or_newest(), None);
    }
}
