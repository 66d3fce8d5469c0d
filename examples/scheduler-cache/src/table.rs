//! What is shown now and then: pods by node, counted twice.

use std::collections::BTreeSet;
use std::fmt;

use windlass::indexer::ObjectKey;

/// Pods by node, by the index of the cache and by the handler's own account.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Pods without a node.
    pub waiting: usize,
    /// What else is in the caches, and how much of it.
    pub others: Vec<(String, usize)>,
    /// One for each node, in the order of their names.
    pub rows: Vec<Row>,
}

/// The pods of a node.
#[derive(Clone, Debug)]
pub struct Row {
    /// The node.
    pub node: String,
    /// Its pods, by the index.
    pub by_index: BTreeSet<ObjectKey>,
    /// Its pods, by the handler's account.
    pub by_handler: BTreeSet<ObjectKey>,
}

/// More nodes than this are summed up.
const ROWS_MAX: usize = 20;

/// More pods than this are counted only.
const NAMES_MAX: usize = 5;

impl Table {
    pub(crate) fn push(
        &mut self,
        node: String,
        by_index: BTreeSet<ObjectKey>,
        by_handler: BTreeSet<ObjectKey>,
    ) {
        self.rows.push(Row { node, by_index, by_handler });
    }

    /// Whether index and handler say the same of every node.
    pub fn agrees(&self) -> bool {
        self.rows.iter().all(Row::agrees)
    }

    /// How many pods have a node, by the index.
    pub fn assigned(&self) -> usize {
        self.rows.iter().map(|row| row.by_index.len()).sum()
    }
}

impl Row {
    /// Whether index and handler say the same.
    pub fn agrees(&self) -> bool {
        self.by_index == self.by_handler
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.node.len()).max().unwrap_or(0).max(6);
        writeln!(f, "  {:width$}  {:>8}  {:>10}", "NODE", "BY INDEX", "BY HANDLER")?;
        for row in self.rows.iter().take(ROWS_MAX) {
            writeln!(f, "  {row:width$}")?;
        }
        if let Some(more) = self.rows.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
            writeln!(f, "  … and {more} nodes more")?;
        }
        let (assigned, waiting) = (self.assigned(), self.waiting);
        let verdict = if self.agrees() { "index and handler agree" } else { "THEY DISAGREE" };
        write!(f, "  pods assigned: {assigned} ({verdict}), waiting: {waiting}")?;
        self.others.iter().try_for_each(|(kind, count)| write!(f, ", {kind}: {count}"))
    }
}

impl fmt::Display for Row {
    /// The width is the node's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(0);
        let (by_index, by_handler) = (self.by_index.len(), self.by_handler.len());
        write!(f, "{:width$}  {by_index:>8}  {by_handler:>10}  ", self.node)?;
        let names: Vec<_> =
            self.by_index.iter().take(NAMES_MAX).map(ObjectKey::to_string).collect();
        f.write_str(if names.is_empty() { "–".to_owned() } else { names.join(" ") }.as_str())?;
        match by_index.checked_sub(NAMES_MAX) {
            Some(more) if more > 0 => write!(f, " +{more}"),
            _ => Ok(()),
        }
    }
}
