//! The Secret that all replicas share.
//!
//! Its type says that it is ours. Its content is read leniently, because anything may be in it: an
//! operator's chart may even create it empty, so that no right to create Secrets is needed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::api::{Address, Refusal, Requests};
use super::authority::{Authority, Certificate};
use super::error::CertificatesError;
use super::plan::{Authorities, Found};

/// The type of the Secret. Kubernetes lets nobody change the type of an existing Secret.
pub const SECRET_TYPE: &str = "windlass.dev/webhook-certificates";

const CURRENT: (&str, &str) = ("ca.crt", "ca.key");
const NEXT: (&str, &str) = ("next.crt", "next.key");
const PREVIOUS: &str = "previous.crt";

/// The Secret as it was read.
pub(super) struct Stored {
    /// `None` if there is no such Secret.
    object: Option<Value>,
}

/// The address of a Secret.
pub(super) fn address(namespace: String, name: String) -> Address {
    Address { group: "", plural: "secrets", namespace: Some(namespace), name }
}

impl Stored {
    pub(super) async fn read(requests: &Requests, address: &Address) -> Result<Self, Refusal> {
        let object = match requests.get(address).await {
            Ok(object) => object,
            Err(Refusal::NotFound) => return Ok(Self { object: None }),
            Err(refusal) => return Err(refusal),
        };
        let found = object["type"].as_str().unwrap_or_default();
        if found != SECRET_TYPE {
            return Err(Refusal::Failed(CertificatesError::ForeignSecret {
                namespace: address.namespace.clone().unwrap_or_default(),
                secret: address.name.clone(),
                found: found.to_owned(),
                expected: SECRET_TYPE,
            }));
        }
        Ok(Self { object: Some(object) })
    }

    /// What is usable of its content.
    pub(super) fn found(&self) -> Found {
        let mut found = Found::default();
        for (slot, (certificate, key)) in [(&mut found.current, CURRENT), (&mut found.next, NEXT)] {
            match Authority::parse(&self.text(certificate), &self.text(key)) {
                Ok(authority) => *slot = Some(authority),
                // Without its key it signs nothing any more, but there are leaves of it.
                Err(certificate) => found.previous.extend(certificate),
            }
        }
        found.previous.extend(Certificate::parse_all(&self.text(PREVIOUS)));
        found
    }

    /// Makes the Secret contain exactly this, if nobody else has changed it since it was read.
    /// Returns whether anything was written.
    pub(super) async fn write(
        self,
        authorities: &Authorities,
        requests: &Requests,
        address: &Address,
    ) -> Result<bool, Refusal> {
        let data = data(authorities);
        let Some(mut object) = self.object else {
            let object = json!({
                "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
                "metadata": {"name": address.name, "namespace": address.namespace},
                "data": data,
            });
            return requests.create(address, &object).await.map(|_| true);
        };
        if object["data"].as_object() == Some(&data) {
            return Ok(false);
        }
        object["data"] = data.into();
        match requests.update(address, &object).await {
            Ok(_) => Ok(true),
            // It was deleted meanwhile.
            Err(Refusal::NotFound) => Err(Refusal::Conflict),
            Err(refusal) => Err(refusal),
        }
    }

    /// An entry, or nothing if it is missing or no text.
    fn text(&self, key: &str) -> String {
        let encoded = self.object.as_ref().and_then(|object| object["data"][key].as_str());
        let decoded = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
        decoded.and_then(|decoded| String::from_utf8(decoded).ok()).unwrap_or_default()
    }
}

fn data(authorities: &Authorities) -> Map<String, Value> {
    let Authorities { current, next, previous } = authorities;
    let mut data = Map::new();
    let mut put = |key: &str, text: &str| data.insert(key.to_owned(), STANDARD.encode(text).into());
    for (authority, (certificate, key)) in [(Some(current), CURRENT), (next.as_ref(), NEXT)] {
        if let Some(authority) = authority {
            put(certificate, &authority.certificate.pem);
            put(key, authority.key.pem());
        }
    }
    if !previous.is_empty() {
        put(PREVIOUS, &previous.iter().map(|previous| previous.pem.as_str()).collect::<String>());
    }
    data
}
