//! Checks that nothing is lost on the way to another version and back.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Problem, Versions};
use crate::serve::memory::Memory;

/// What is wrong with a conversion. It names versions and the path of a field, and shows no
/// content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundTripError {
    /// A field differs after the way there and back.
    #[error("{version} of {kind} {change} {path} on its way through {through}")]
    Differs {
        /// The version of the object.
        version: String,
        /// The kind of the object.
        kind: String,
        /// The version that it was converted to and back from.
        through: String,
        /// `loses`, `changes` or `gains`.
        change: &'static str,
        /// The first field that differs.
        path: String,
    },
    /// The object could not be converted.
    #[error("{version} cannot be converted to {through} and back: {reason}")]
    Failed {
        /// The version of the object.
        version: String,
        /// The version that it was to be converted to and back from.
        through: String,
        /// What failed.
        reason: String,
    },
    /// There was no object of a version, so the check shows nothing about it.
    #[error("there was no object of version {version}")]
    NoObject {
        /// The version.
        version: String,
    },
}

impl RoundTripError {
    pub(super) fn failed(version: &str, through: &str, problem: &Problem) -> Self {
        let (version, through) = (version.to_owned(), through.to_owned());
        Self::Failed { version, through, reason: problem.to_string() }
    }
}

impl Versions {
    pub(super) fn check_round_trips(
        &self,
        objects: impl IntoIterator<Item = Value>,
    ) -> Result<(), RoundTripError> {
        let mut missing: BTreeSet<&str> = self.names().collect();
        for object in objects {
            self.check_round_trip(&object)?;
            if let Ok(version) = self.version_of(&object) {
                missing.remove(version);
            }
        }
        match missing.first() {
            None => Ok(()),
            Some(version) => Err(RoundTripError::NoObject { version: (*version).to_owned() }),
        }
    }

    pub(super) fn check_round_trip(&self, object: &Value) -> Result<(), RoundTripError> {
        let version = self
            .version_of(object)
            .map_err(|problem| RoundTripError::failed("?", "?", &problem))?;
        for through in self.names().filter(|name| *name != version) {
            let failed = |problem| RoundTripError::failed(version, through, &problem);
            let memory = &mut Memory::unbounded();
            let there = self.convert(object, through, memory).map_err(failed)?;
            let back = self.convert(&there, version, memory).map_err(failed)?;
            // The types may write fields out that the raw object lacks. So raw objects are only
            // searched for losses, and all else is judged as the type shows it.
            let (was, is) = (self.through_type(object, version), self.through_type(&back, version));
            let (was, is) = (was.map_err(failed)?, is.map_err(failed)?);
            let raw = difference("", object, &back).filter(|(change, _)| *change != "gains");
            let Some((change, path)) = raw.or_else(|| difference("", &was, &is)) else { continue };
            return Err(RoundTripError::Differs {
                version: version.to_owned(),
                kind: self.kind.clone(),
                through: through.to_owned(),
                change,
                path,
            });
        }
        Ok(())
    }
}

/// The first field that differs, and how. `null` and no field are the same. Losses and changes come
/// before gains.
fn difference(path: &str, was: &Value, is: &Value) -> Option<(&'static str, String)> {
    let place = || path.to_owned();
    match (was, is) {
        (Value::Null, Value::Null) => None,
        (Value::Null, _) => Some(("gains", place())),
        (_, Value::Null) => Some(("loses", place())),
        (Value::Object(was), Value::Object(is)) => {
            let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
            first(keys.into_iter().map(|key| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let of = |fields: &serde_json::Map<String, Value>| {
                    fields.get(key).cloned().unwrap_or(Value::Null)
                };
                difference(&path, &of(was), &of(is))
            }))
        }
        (Value::Array(was), Value::Array(is)) => first((0..was.len().max(is.len())).map(|at| {
            let of = |list: &[Value]| list.get(at).cloned().unwrap_or(Value::Null);
            difference(&format!("{path}[{at}]"), &of(was), &of(is))
        })),
        (was, is) if was == is => None,
        _ => Some(("changes", place())),
    }
}

/// The first loss or change, or else the first gain.
fn first(
    differences: impl Iterator<Item = Option<(&'static str, String)>>,
) -> Option<(&'static str, String)> {
    let mut gain = None;
    for difference in differences.flatten() {
        if difference.0 != "gains" {
            return Some(difference);
        }
        gain.get_or_insert(difference);
    }
    gain
}
