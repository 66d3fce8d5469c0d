//! Asks at the start whether the account may do what the operator needs, and names everything that
//! is missing in one line.
//!
//! Without it a missing verb shows as a cache that is never filled, or as a run that fails, one
//! after the other. It is only advice: nothing waits for it, and nothing fails because of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};
use windlass_evidence::Scope;
use windlass_informer::client::safe_message;

use super::{Rights, holds};

/// How many questions are asked at most. With many namespaces there would be thousands.
const QUESTIONS_MAX: usize = 200;

/// Asks the API server whether the account has the declared rights.
pub(crate) struct Review {
    client: Client,
    rights: Rights,
}

impl Review {
    pub(crate) fn new(client: Client, rights: Rights) -> Self {
        Self { client, rights }
    }

    /// Asks one question after the other, so that other requests of this client do not queue up
    /// behind them. Logs what is missing, as far as it is known.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing is logged.
    pub(crate) async fn run(self) {
        let (missing, unanswered) = self.find_missing().await;
        if !missing.is_empty() {
            let more = match unanswered {
                0 => String::new(),
                count => format!(" (and {count} questions were not answered)"),
            };
            tracing::warn!(
                "this account lacks rights that the operator needs: {}{more}; add them to its Role \
                 (`cargo windlass rbac --write` in the folder of the operator does that) and apply \
                 it",
                missing.join("; ")
            );
        } else if unanswered == 0 {
            tracing::debug!("the account has all rights that the operator declares");
        }
    }

    /// What is missing, as in `list, watch deployments.apps`, by resource and place, and how many
    /// questions were not answered.
    async fn find_missing(&self) -> (Vec<String>, usize) {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let mut asked = BTreeSet::new();
        let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let (mut unanswered, mut last_error) = (0, None);
        for attributes in self.questions() {
            let question = format!("{attributes:?}");
            if !asked.insert(question) {
                continue;
            }
            if asked.len() > QUESTIONS_MAX {
                unanswered += 1;
                continue;
            }
            let (resource, verb) = (describe(&attributes.0), attributes.1);
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes.0),
                non_resource_attributes: None,
            };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            match reviews.create(&PostParams::default(), &review).await {
                Ok(answer) if answer.status.as_ref().is_some_and(|status| !status.allowed) => {
                    missing.entry(resource).or_default().push(verb);
                }
                Ok(_) => {}
                Err(error) => {
                    unanswered += 1;
                    last_error = Some(safe_message(&error));
                }
            }
        }
        if let Some(error) = last_error {
            tracing::debug!("whether rights are missing could not be asked: {error}");
        }
        let described =
            |(resource, verbs): (String, Vec<&str>)| format!("{} {resource}", verbs.join(", "));
        (missing.into_iter().map(described).collect(), unanswered)
    }

    fn questions(&self) -> impl Iterator<Item = (ResourceAttributes, &str)> {
        let Rights { options, declared } = &self.rights;
        declared.iter().filter(|one| holds(&one.needed.condition, options)).flat_map(|one| {
            one.namespaces.iter().map(|namespace| {
                let right = &one.needed.right;
                let own = || self.client.default_namespace().to_owned();
                let namespace = match right.scope {
                    Scope::Own => Some(namespace.clone().unwrap_or_else(own)),
                    Scope::Cluster | Scope::Watched => namespace.clone(),
                };
                let attributes = ResourceAttributes {
                    verb: Some(right.verb.clone()),
                    group: Some(right.group.clone()),
                    resource: Some(right.plural.clone()),
                    subresource: right.subresource.clone(),
                    namespace,
                    name: right.name.clone(),
                    ..Default::default()
                };
                (attributes, right.verb.as_str())
            })
        })
    }
}

/// As in `leases.coordination.k8s.io in the namespace shop`.
fn describe(asked: &ResourceAttributes) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let mut described = text(&asked.resource);
    for (sign, part) in [('.', &asked.group), ('/', &asked.subresource), (' ', &asked.name)] {
        let part = text(part);
        if !part.is_empty() {
            described.push(sign);
            described.push_str(&part);
        }
    }
    if let Some(namespace) = &asked.namespace {
        described.push_str(" in the namespace ");
        described.push_str(namespace);
    }
    described
}
