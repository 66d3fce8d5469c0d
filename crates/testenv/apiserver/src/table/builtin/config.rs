//! Config maps, secrets, service accounts, quotas and webhook configurations.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::cells::{entries, list, name, quantity, text};

pub(super) static CONFIG_MAPS: BuiltIn = BuiltIn::new(columns::CONFIGMAPS, |object, now| {
    let data = entries(&object["data"]) + entries(&object["binaryData"]);
    json!([name(object), data, now.age(object)])
});

pub(super) static SECRETS: BuiltIn = BuiltIn::new(columns::SECRETS, |object, now| {
    json!([name(object), text(&object["type"]), entries(&object["data"]), now.age(object)])
});

pub(super) static SERVICE_ACCOUNTS: BuiltIn =
    BuiltIn::new(columns::SERVICEACCOUNTS, |object, now| json!([name(object), now.age(object)]));

pub(super) static RESOURCE_QUOTAS: BuiltIn =
    BuiltIn::new(columns::RESOURCEQUOTAS, |object, now| {
        let [requests, limits] =
            [false, true].map(|limits| used_of_hard(&object["status"], limits));
        json!([name(object), requests, limits, now.age(object)])
    });

pub(super) static WEBHOOK_CONFIGURATIONS: BuiltIn =
    BuiltIn::new(columns::WEBHOOK_CONFIGURATIONS, |object, now| {
        json!([name(object), list(&object["webhooks"]).len(), now.age(object)])
    });

/// Formats a quota as `cpu: 1/2, memory: 1Gi/2Gi`: either its limits, or everything else.
fn used_of_hard(status: &Value, limits: bool) -> String {
    let mut hard: Vec<(&String, &Value)> =
        status["hard"].as_object().into_iter().flatten().collect();
    hard.retain(|(resource, _)| resource.starts_with("limits.") == limits);
    hard.sort_unstable_by_key(|(resource, _)| *resource);
    let shown = hard.into_iter().map(|(resource, hard)| {
        format!("{resource}: {}/{}", quantity(&status["used"][resource]), quantity(hard))
    });
    shown.collect::<Vec<_>>().join(", ")
}
