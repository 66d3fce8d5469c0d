//! Label selectors. They read heads and decode nothing.
//!
//! Grammar and meaning are those of the Kubernetes API, without `<` and `>`. A requirement that a
//! label is not some value also holds for objects without the label.

use std::collections::BTreeSet;
use std::fmt;

use crate::head::Labels;

/// Requirements on labels. An object is selected if all of them hold. A selector without
/// requirements selects everything.
///
/// ```
/// use windlass_indexer::Selector;
///
/// let selector: Selector = "app=web, tier in (front, back), !canary".parse()?;
/// assert_eq!(selector.to_string(), "app=web,tier in (back,front),!canary");
/// let same = Selector::everything().equals("app", "web").is_in("tier", ["front", "back"]);
/// assert_eq!(selector, same.lacks("canary"));
/// # Ok::<(), windlass_indexer::SelectorError>(())
/// ```
///
/// An error shows the position and what to write instead:
///
/// ```
/// # use windlass_indexer::Selector;
/// let error = "tier in front".parse::<Selector>().expect_err("no brackets");
/// assert_eq!(
///     error.to_string(),
///     "selector \"tier in front\", at \"front\": \
///      `in` takes a list in brackets, as in `tier in (a, b)`",
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals(String),
    EqualsNot(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Lacks,
}

impl Selector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Requires that the label is `value`.
    pub fn equals(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.and(key, Operator::Equals(value.into()))
    }

    /// Requires that the label is not `value`. It may be missing.
    pub fn equals_not(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.and(key, Operator::EqualsNot(value.into()))
    }

    /// Requires that the label is one of `values`.
    pub fn is_in<V: Into<String>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.and(key, Operator::In(values.into_iter().map(Into::into).collect()))
    }

    /// Requires that the label is none of `values`. It may be missing.
    pub fn is_not_in<V: Into<String>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.and(key, Operator::NotIn(values.into_iter().map(Into::into).collect()))
    }

    /// Requires that the object has the label.
    pub fn has(self, key: impl Into<String>) -> Self {
        self.and(key, Operator::Exists)
    }

    /// Requires that the object does not have the label.
    pub fn lacks(self, key: impl Into<String>) -> Self {
        self.and(key, Operator::Lacks)
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether all requirements hold.
    pub fn matches(&self, labels: Labels<'_>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }

    /// Labels that every selected object must have, with their only possible value.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (&str, &str)> {
        self.requirements.iter().filter_map(|requirement| match &requirement.operator {
            Operator::Equals(value) => Some((&*requirement.key, &**value)),
            Operator::In(values) if values.len() == 1 => {
                values.first().map(|value| (&*requirement.key, &**value))
            }
            _ => None,
        })
    }

    pub(crate) fn and(mut self, key: impl Into<String>, operator: Operator) -> Self {
        self.requirements.push(Requirement { key: key.into(), operator });
        self
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        match &self.operator {
            Operator::Equals(wanted) => value == Some(wanted),
            Operator::EqualsNot(unwanted) => value != Some(unwanted),
            Operator::In(wanted) => value.is_some_and(|value| wanted.contains(value)),
            Operator::NotIn(unwanted) => value.is_none_or(|value| !unwanted.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::Lacks => value.is_none(),
        }
    }
}

impl fmt::Display for Selector {
    /// Writes it as the `labelSelector` parameter of a request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, requirement) in self.requirements.iter().enumerate() {
            let separator = if number > 0 { "," } else { "" };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &BTreeSet<String>| {
            values.iter().map(String::as_str).collect::<Vec<_>>().join(",")
        };
        let key = &self.key;
        match &self.operator {
            Operator::Equals(value) => write!(f, "{key}={value}"),
            Operator::EqualsNot(value) => write!(f, "{key}!={value}"),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => write!(f, "{key}"),
            Operator::Lacks => write!(f, "!{key}"),
        }
    }
}
