//! Revisions: the current and former templates of a stateful set, each in an object of its own.
//!
//! Names and contents equal upstream's, including the hash: upstream hashes JSON, and we write the
//! same bytes.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass_reconciler::{OwnershipError, owner_reference};

use crate::deployment::template::{ALPHABET, labels};
use crate::objects::{ControllerRevision, StatefulSet};

/// The label of a revision with the hash of its template.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The maximum length of a set's name in front of a hash.
const PREFIX_MAX: usize = 223;

/// Sorts revisions from the oldest to the newest.
pub(super) fn sort(revisions: &mut [ControllerRevision]) {
    revisions.sort_by_cached_key(|one| (one.revision, one.creation_timestamp(), one.name_any()));
}

/// Returns the content of a revision: a patch that restores the template.
pub(super) fn data(set: &StatefulSet) -> Value {
    let mut template = set.spec.template.clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// Returns the template of a revision.
pub(super) fn template(revision: &ControllerRevision) -> Value {
    let mut template = revision.data["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

/// Returns a revision for the set's template, newer than the existing ones.
///
/// # Errors
/// If the set was not read from a server.
pub(super) fn new_revision(
    set: &StatefulSet,
    sorted: &[ControllerRevision],
    collisions: i32,
) -> Result<ControllerRevision, OwnershipError> {
    let data = data(set);
    let hash = hash(&data, collisions);
    let mut labels = labels(&set.spec.template);
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let mut prefix = set.name_any();
    prefix.truncate(PREFIX_MAX);
    Ok(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: set.namespace(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![owner_reference(set)?]),
            ..ObjectMeta::default()
        },
        data,
        revision: next(sorted),
    })
}

/// Returns the number after the last.
pub(super) fn next(sorted: &[ControllerRevision]) -> i64 {
    sorted.last().map_or(1, |last| last.revision.saturating_add(1))
}

/// Returns the oldest unused revisions beyond the history limit.
pub(super) fn surplus<'a>(
    set: &StatefulSet,
    sorted: &'a [ControllerRevision],
    in_use: &BTreeSet<String>,
) -> Vec<&'a ControllerRevision> {
    let unused: Vec<&ControllerRevision> =
        sorted.iter().filter(|revision| !in_use.contains(&revision.name_any())).collect();
    // The API's default is ten.
    let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10));
    let surplus = limit.map_or(0, |limit| unused.len().saturating_sub(limit));
    unused.into_iter().take(surplus).collect()
}

/// 32-bit FNV-1 over the JSON and the number of collisions, with its digits mapped to safe letters.
fn hash(data: &Value, collisions: i32) -> String {
    // As Go writes it, with HTML characters escaped.
    let text = data.to_string();
    let text = text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    let text = text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let bytes = text.into_bytes().into_iter().chain(collisions.to_string().into_bytes());
    let hash =
        bytes.fold(2_166_136_261_u32, |hash, byte| hash.wrapping_mul(16_777_619) ^ u32::from(byte));
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    hash.to_string().bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "uid": "1", "annotations": {"team": "a"}},
            "spec": {"revisionHistoryLimit": 1, "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": "db:1", "args": ["a<b&c>d"]}]},
            }},
        }))
        .expect("a set")
    }

    fn revision(name: &str, revision: i64) -> ControllerRevision {
        serde_json::from_value(json!({"metadata": {"name": name}, "revision": revision}))
            .expect("a revision")
    }

    #[test]
    fn hash_is_that_of_go() {
        // From fnv.New32 and rand.SafeEncodeString over the same JSON, by a Go program.
        assert_eq!(hash(&data(&set()), 0), GO_HASH);
        assert_ne!(hash(&data(&set()), 1), GO_HASH);
    }

    /// Go's hash of the template above.
    const GO_HASH: &str = "79dd9cdcd9";

    #[test]
    fn template_round_trips() {
        let new = new_revision(&set(), &[revision("a", 4)], 0).expect("owned");
        assert_eq!(template(&new), set().spec.template);
        assert_eq!(new.revision, 5);
        assert_eq!(new.labels()["app"], "db");
        assert_eq!(new.annotations()["team"], "a");
        assert_eq!(new.name_any(), format!("db-{}", new.labels()[HASH_LABEL]));
    }

    #[test]
    fn oldest_unused_revisions_are_surplus() {
        let sorted = [1, 2, 3, 4].map(|number| revision(&format!("r{number}"), number));
        let in_use = BTreeSet::from(["r1".to_owned(), "r4".to_owned()]);
        let names: Vec<_> = surplus(&set(), &sorted, &in_use)
            .into_iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        assert_eq!(names, ["r2"]);
    }
}
