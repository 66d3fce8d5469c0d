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
    /// The part of the object that has each `clientConfig`.
    part: Value,
    /// Where in it.
    places: Vec<String>,
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
        let bundle = Value::from(STANDARD.encode(bundle));
        let Some(seen) = self.seen.take_if(|seen| seen.bundles().any(|found| *found != bundle))
        else {
            return Ok(false);
        };
        let patch = seen.into_patch(&bundle);
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
        let decode = |bundle: &Value| STANDARD.decode(bundle.as_str()?).ok();
        self.seen.iter().flat_map(Seen::bundles).map(move |bundle| {
            String::from_utf8_lossy(&decode(bundle).unwrap_or_default()).into_owned()
        })
    }
}

impl Seen {
    fn new(object: &Value) -> Self {
        let resource_version = version(object);
        if let Some(webhooks) = object["webhooks"].as_array() {
            let places = (0..webhooks.len()).map(|index| format!("/webhooks/{index}/clientConfig"));
            let places = places.filter(|place| is_object(object, place)).collect();
            return Self { resource_version, part: json!({ "webhooks": webhooks }), places };
        }
        // A definition whose conversion needs no webhook has no such place.
        let place = "/spec/conversion/webhook/clientConfig";
        let places = is_object(object, place).then(|| place.to_owned()).into_iter().collect();
        let config = object.pointer(place);
        let part = json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}});
        Self { resource_version, part, places }
    }

    /// Each `caBundle`, or null.
    fn bundles(&self) -> impl Iterator<Item = &Value> {
        self.places.iter().filter_map(|place| Some(&self.part.pointer(place)?["caBundle"]))
    }

    /// A merge patch that sets each `caBundle`. The version in it is a precondition: 409 if the
    /// object has another one. A JSON patch would be refused otherwise, as an invalid one, if the
    /// list of webhooks has become shorter.
    fn into_patch(self, bundle: &Value) -> Value {
        let Self { resource_version, mut part, places } = self;
        for place in places {
            if let Some(config) = part.pointer_mut(&place) {
                config["caBundle"] = bundle.clone();
            }
        }
        part["metadata"] = json!({ "resourceVersion": resource_version });
        part
    }
}

fn is_object(object: &Value, place: &str) -> bool {
    object.pointer(place).is_some_and(Value::is_object)
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
