//! Writes a webhook configuration.
//!
//! It is read and replaced, with its resourceVersion. Server-side apply would not remove a webhook
//! that the operator no longer has: another field manager owns its `caBundle`, so a part of the
//! entry would remain.

use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use windlass_informer::client::safe_message;
use windlass_webhook::WebhookEntry;

use crate::error::ManagerError;

/// How many times to try again after a conflict.
const ATTEMPTS_MAX: usize = 10;

/// What the managed fields say about who wrote it.
const FIELD_MANAGER: &str = "windlass-webhooks";

/// A webhook configuration as it should be.
pub(super) struct Installation<'a> {
    pub(super) client: &'a Client,
    /// `MutatingWebhookConfiguration` or `ValidatingWebhookConfiguration`.
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Empty if the operator has no webhooks of this kind. A configuration that an earlier version
    /// of the operator left is then emptied.
    pub(super) webhooks: Vec<WebhookEntry>,
    /// The `caBundle` for webhooks that have none yet. Existing ones are kept: `Certificates`
    /// updates them.
    pub(super) bundle: Option<String>,
}

impl Installation<'_> {
    pub(super) async fn run(&self) -> Result<(), ManagerError> {
        let resource = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", self.kind);
        let resource = ApiResource::from_gvk(&resource);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(&api, &resource).await {
                Ok(()) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                // The right to a kind that is not used is not needed.
                Err(kube::Error::Api(status)) if status.code == 403 && self.webhooks.is_empty() => {
                    return Ok(());
                }
                Err(error) => {
                    return Err(ManagerError::Setup(format!(
                        "the {} {:?} cannot be written: {}; the account of the operator needs the \
                         verbs get, create, update and patch on {}",
                        self.kind,
                        self.name,
                        safe_message(&error),
                        resource.plural
                    )));
                }
            }
        }
        let Self { kind, name, .. } = self;
        Err(ManagerError::Setup(format!(
            "the {kind} {name:?} was changed by others {ATTEMPTS_MAX} times: give the webhooks of \
             this operator another name"
        )))
    }

    async fn attempt(
        &self,
        api: &Api<DynamicObject>,
        resource: &ApiResource,
    ) -> Result<(), kube::Error> {
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let Some(mut present) = api.get_opt(&self.name).await? else {
            if self.webhooks.is_empty() {
                return Ok(());
            }
            let mut new = DynamicObject::new(&self.name, resource);
            new.data["webhooks"] = self.entries(&Value::Null);
            return api.create(&params, &new).await.map(drop);
        };
        present.data["webhooks"] = self.entries(&present.data["webhooks"]);
        api.replace(&self.name, &params, &present).await.map(drop)
    }

    /// The webhooks, each with its existing `caBundle` if it has one.
    fn entries(&self, present: &Value) -> Value {
        let mut wanted = self.webhooks.clone();
        for webhook in &mut wanted {
            let mut known = present.as_array().into_iter().flatten();
            let known = known.find(|known| known["name"] == *webhook.name);
            let known = known.and_then(|known| known["clientConfig"]["caBundle"].as_str());
            let known = known.filter(|bundle| !bundle.is_empty()).map(str::to_owned);
            webhook.client_config.ca_bundle = known.or_else(|| self.bundle.clone());
        }
        serde_json::to_value(wanted).expect("a webhook must be JSON")
    }
}
