//! Evaluates the nodes of a path on an object.
//!
//! A step that fails can still return values: those that client-go returns along with its error.
//! Only filters that test for existence use them. Two steps differ from client-go: maps are visited
//! in the order of their keys (in client-go in random order), and a wildcard finds nothing in a
//! string (in client-go its bytes).

use std::cmp::Ordering;

use serde_json::Value;

use super::{Node, Slice, Test};

/// The limit on values that a path may visit: more than an object has, but a path can visit each of
/// them many times. client-go has no limit.
pub(super) const VALUES_MAX: usize = 1_000_000;

/// The values that a step finds, or those that it had when it failed.
type Found<'a> = Result<Vec<&'a Value>, Vec<&'a Value>>;

/// Returns the values that the nodes find, or `None` if a step failed or visited too many values.
pub(super) fn find<'a>(nodes: &'a [Node], object: &'a Value) -> Option<Vec<&'a Value>> {
    let mut walk = Walk { left: VALUES_MAX };
    let found = walk.nodes(nodes, vec![object]).ok();
    found.filter(|_| walk.left > 0)
}

struct Walk {
    /// How many more values may be visited. At zero every step fails.
    left: usize,
}

impl Walk {
    fn nodes<'a>(&mut self, nodes: &'a [Node], mut values: Vec<&'a Value>) -> Found<'a> {
        for node in nodes {
            values = self.node(node, values)?;
            if !self.spend(values.len()) {
                return Err(Vec::new());
            }
        }
        Ok(values)
    }

    /// Counts visited values. Returns whether more are allowed.
    fn spend(&mut self, values: usize) -> bool {
        self.left = self.left.saturating_sub(values);
        self.left > 0
    }

    fn node<'a>(&mut self, node: &'a Node, values: Vec<&'a Value>) -> Found<'a> {
        // A step visits all values, even if it finds nothing.
        if !self.spend(values.len()) {
            return Ok(Vec::new());
        }
        match node {
            Node::Constant(text) if text.is_string() => Ok(vec![text]),
            Node::Constant(number) => Ok(vec![number; values.len()]),
            Node::Field(name) => Ok(values.iter().filter_map(|value| value.get(name)).collect()),
            Node::Slice(slice) => self.slice(*slice, values),
            Node::Filter { left, test, right } => self.filter(left, *test, right, values),
            Node::Wildcard => Ok(values.into_iter().flat_map(children).take(self.left).collect()),
            Node::Recursive => {
                let mut found = Vec::new();
                for value in values {
                    self.descend(value, &mut found);
                }
                Ok(found)
            }
            Node::Union(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    found.extend(self.nodes(part, values.clone()).map_err(|_| values.clone())?);
                }
                Ok(found)
            }
            Node::Word => Err(values),
        }
    }

    /// Adds the value and the values below it, except for empty ones and scalars that are not
    /// strings. The recursion is limited by the depth of requests.
    fn descend<'a>(&mut self, value: &'a Value, found: &mut Vec<&'a Value>) {
        let is_empty = match value {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => true,
        };
        if is_empty || !self.spend(1) {
            return;
        }
        found.push(value);
        for child in children(value) {
            if self.spend(1) {
                self.descend(child, found);
            }
        }
    }

    fn filter<'a>(
        &mut self,
        left: &'a [Node],
        test: Test,
        right: &'a [Node],
        values: Vec<&'a Value>,
    ) -> Found<'a> {
        let mut found = Vec::new();
        for value in &values {
            let Value::Array(items) = value else { return Err(values) };
            for item in items {
                if !self.spend(1) {
                    return Err(Vec::new());
                }
                match self.passes(left, test, right, item) {
                    Some(true) => found.push(item),
                    Some(false) => {}
                    None => return Err(values),
                }
            }
        }
        Ok(found)
    }

    /// Returns whether an item passes a filter, or `None` if they cannot be compared.
    fn passes<'a>(
        &mut self,
        left: &'a [Node],
        test: Test,
        right: &'a [Node],
        item: &'a Value,
    ) -> Option<bool> {
        let lefts = self.nodes(left, vec![item]);
        if test == Test::Exists {
            let (Ok(values) | Err(values)) = lefts;
            return Some(!values.is_empty());
        }
        let (left, right) = (lefts.ok()?, self.nodes(right, vec![item]));
        match (&left[..], right.as_deref().ok()) {
            // A missing value passes no comparison. Several values cannot be compared.
            ([], _) | ([_], Some([])) => Some(false),
            ([left], Some([right])) => compare(test, left, right),
            _ => None,
        }
    }

    fn slice<'a>(&mut self, slice: Slice, values: Vec<&'a Value>) -> Found<'a> {
        let mut found = Vec::new();
        for value in &values {
            let items = match value {
                Value::Null => continue,
                Value::Array(items) => items,
                _ => return Err(values),
            };
            let (start, end) = slice.bounds(items.len());
            // As in client-go, an empty range in one list ends the search in all of them.
            if start == end {
                break;
            }
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            let chosen = range.filter(|(start, _)| *start < items.len());
            let chosen = chosen.and_then(|(start, end)| items.get(start..end));
            let step = usize::try_from(slice.step.unwrap_or(1)).ok().filter(|step| *step > 0);
            let (Some(chosen), Some(step)) = (chosen, step) else { return Err(values) };
            let room = self.left.saturating_sub(found.len());
            found.extend(chosen.iter().step_by(step).take(room));
        }
        Ok(found)
    }
}

impl Slice {
    /// Returns the start and end for a list of that length. They may be out of bounds.
    fn bounds(self, length: usize) -> (i64, i64) {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let mut start = self.start.unwrap_or_default();
        if start < 0 {
            start = start.wrapping_add(length);
        }
        let mut end = self.end.unwrap_or(length);
        if end < 0 || end == 0 && self.is_index {
            end = end.wrapping_add(length);
        }
        (start, end)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// Compares two values of one type. Returns `None` if they are not comparable.
fn compare(test: Test, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => {
            return match test {
                Test::Equal => Some(left == right),
                Test::NotEqual => Some(left != right),
                _ => None,
            };
        }
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            // An integer and a float are of different types.
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
            _ => return None,
        },
        _ => return None,
    };
    match test {
        Test::Equal => Some(order == Ordering::Equal),
        Test::NotEqual => Some(order != Ordering::Equal),
        Test::Less => Some(order == Ordering::Less),
        Test::LessOrEqual => Some(order != Ordering::Greater),
        Test::Greater => Some(order == Ordering::Greater),
        Test::GreaterOrEqual => Some(order != Ordering::Less),
        Test::Exists | Test::Unknown => None,
    }
}
