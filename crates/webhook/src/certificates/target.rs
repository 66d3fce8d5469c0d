//! The objects whose `caBundle` is kept right.
//!
//! An object is read in full only if its version is another one than last time: a definition of a
//! custom resource may have a megabyte, and it is looked at every few seconds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::api::{Address, Refusal, Requests};
use super::authority::Certificate;

const ADMISSION: &str = "admissionregistration.k8s.io";

/// An object with a `caBundle`, and what is known of it.
pub(super) struct Target {
    pub(super) address: Address,
    seen: Option<Seen>,
}

/// An object as it was read or written last.
struct Seen {
    resource_version: String,
    /// The places of a `caBundle`, and what is there.
    bundles: Vec<(String, Option<String>)>,
}

impl Target {
    pub(super) fn mutating(name: String) -> Self {
        Self::new(ADMISSION, "mutatingwebhookconfigurations", name)
    }

    pub(super) fn validating(name: String) -> Self {
        Self::new(ADMISSION, "validatingwebhookconfigurations", name)
    }

    pub(super) fn definition(name: String) -> Self {
        Self::new("apiextensions.k8s.io", "customresourcedefinitions", name)
    }

    fn new(group: &'static str, plural: &'static str, name: String) -> Self {
        Self { address: Address { group, plural, namespace: None, name }, seen: None }
    }

    /// Reads the object. One that does not exist is no error: it calls nobody.
    pub(super) async fn read(&mut self, requests: &Requests) -> Result<(), Refusal> {
        if let Some(seen) = &self.seen {
            match requests.get_metadata(&self.address).await {
                Ok(object) if version(&object) == seen.resource_version => return Ok(()),
                Ok(_) | Err(Refusal::NotFound) => self.seen = None,
                Err(refusal) => return Err(refusal),
            }
        }
        match requests.get(&self.address).await {
            Ok(object) => self.seen = Some(Seen::new(&object)),
            Err(Refusal::NotFound) => self.seen = None,
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Whether each `caBundle` contains a certificate, as far as it was read.
    pub(super) fn contains(&self, pem: &str) -> bool {
        self.texts().all(|bundle| bundle.contains(pem))
    }

    /// The certificates of ours that are in a `caBundle`.
    pub(super) fn trusted(&self) -> Vec<Certificate> {
        self.texts().flat_map(|bundle| Certificate::parse_all(&bundle)).collect()
    }

    /// Sets each `caBundle`, if nobody else has changed the object since it was read. Returns
    /// whether anything was written.
    pub(super) async fn write(
        &mut self,
        bundle: &str,
        requests: &Requests,
    ) -> Result<bool, Refusal> {
        let bundle = STANDARD.encode(bundle);
        let wrong: Vec<_> = self
            .bundles()
            .iter()
            .filter(|(_, found)| found.as_deref() != Some(bundle.as_str()))
            .map(|(path, _)| json!({"op": "add", "path": path, "value": bundle}))
            .collect();
        if wrong.is_empty() {
            return Ok(false);
        }
        let Some(seen) = self.seen.take() else {
            return Ok(false);
        };
        // The version in a patch is a precondition: 409 if the object has another one. It also
        // guards the positions in the list of webhooks.
        let version = json!({
            "op": "replace", "path": "/metadata/resourceVersion", "value": seen.resource_version,
        });
        let patch = [version].into_iter().chain(wrong).collect();
        match requests.patch(&self.address, &patch).await {
            Ok(object) => {
                self.seen = Some(Seen::new(&object));
                Ok(true)
            }
            // It was deleted meanwhile.
            Err(Refusal::NotFound) => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    /// What is in each `caBundle`.
    fn texts(&self) -> impl Iterator<Item = String> {
        let decode = |bundle: &Option<String>| STANDARD.decode(bundle.as_deref()?).ok();
        self.bundles().iter().map(move |(_, bundle)| {
            String::from_utf8_lossy(&decode(bundle).unwrap_or_default()).into_owned()
        })
    }

    fn bundles(&self) -> &[(String, Option<String>)] {
        self.seen.as_ref().map_or(&[], |seen| &seen.bundles)
    }
}

impl Seen {
    fn new(object: &Value) -> Self {
        let webhooks = object["webhooks"].as_array().map_or(0, Vec::len);
        let places = (0..webhooks)
            .map(|index| format!("/webhooks/{index}/clientConfig"))
            .chain(["/spec/conversion/webhook/clientConfig".to_owned()]);
        let bundles = places.filter_map(|place| {
            // A definition whose conversion needs no webhook has no such place.
            let config = object.pointer(&place)?.as_object()?;
            let bundle = config.get("caBundle").and_then(Value::as_str).map(str::to_owned);
            Some((format!("{place}/caBundle"), bundle))
        });
        Self { resource_version: version(object), bundles: bundles.collect() }
    }
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
