//! The claims of a service account token.

use serde_json::{Map, Value, json};

use crate::user::User;

/// The issuer of tokens, and their default audience: this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// The claims of a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) audiences: Vec<String>,
    /// In seconds since 1970, as all times here.
    pub(crate) issued: i64,
    pub(crate) not_before: i64,
    pub(crate) expires: i64,
    /// When the server should begin to warn clients that still use the token.
    pub(crate) warn_after: Option<i64>,
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) account: Reference,
    pub(crate) pod: Option<Reference>,
    pub(crate) secret: Option<Reference>,
    /// The node that the token is bound to, or that its pod runs on.
    pub(crate) node: Option<Reference>,
}

/// An object, by name and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Claims {
    /// Returns the payload of the token, with its fields sorted by name.
    pub(crate) fn payload(&self) -> Value {
        let mut kubernetes = Map::new();
        kubernetes.insert("namespace".into(), self.namespace.as_str().into());
        let references =
            [("node", &self.node), ("pod", &self.pod), ("secret", &self.secret)].into_iter();
        for (name, reference) in references {
            if let Some(reference) = reference {
                kubernetes.insert(name.into(), reference.value());
            }
        }
        kubernetes.insert("serviceaccount".into(), self.account.value());
        if let Some(warn_after) = self.warn_after {
            kubernetes.insert("warnafter".into(), warn_after.into());
        }
        json!({
            "aud": self.audiences,
            "exp": self.expires,
            "iat": self.issued,
            "iss": ISSUER,
            "jti": self.id,
            "kubernetes.io": kubernetes,
            "nbf": self.not_before,
            "sub": User::service_account_name(&self.namespace, &self.account.name),
        })
    }

    /// Reads the claims from a payload that this server signed.
    pub(crate) fn read(payload: &Value) -> Self {
        let number = |field: &str| payload[field].as_i64().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kubernetes = &payload["kubernetes.io"];
        let reference = |field: &str| kubernetes.get(field).map(Reference::read);
        Self {
            audiences: texts(&payload["aud"]),
            issued: number("iat"),
            not_before: number("nbf"),
            expires: number("exp"),
            warn_after: kubernetes["warnafter"].as_i64(),
            id: text(&payload["jti"]),
            namespace: text(&kubernetes["namespace"]),
            account: reference("serviceaccount").unwrap_or_default(),
            pod: reference("pod"),
            secret: reference("secret"),
            node: reference("node"),
        }
    }

    /// Returns the objects that the token is bound to: the kind as messages name it, the plural,
    /// and the object. The token is not valid without them.
    pub(super) fn bound(&self) -> impl Iterator<Item = (&'static str, &'static str, &Reference)> {
        // The node of a pod is only informative.
        let node = self.node.as_ref().filter(|_| self.pod.is_none());
        [
            ("secret", "secrets", self.secret.as_ref()),
            ("pod", "pods", self.pod.as_ref()),
            ("node", "nodes", node),
        ]
        .into_iter()
        .filter_map(|(kind, plural, reference)| Some((kind, plural, reference?)))
    }

    /// Returns the user of the token.
    pub(crate) fn user(&self) -> User {
        let mut user = User::service_account(&self.namespace, &self.account.name);
        user.uid.clone_from(&self.account.uid);
        let mut add = |field: &str, value: &str| {
            if !value.is_empty() {
                let name = format!("authentication.kubernetes.io/{field}");
                user.extra.insert(name, vec![value.to_owned()]);
            }
        };
        add("credential-id", &format!("JTI={}", self.id));
        for (kind, reference) in [("pod", &self.pod), ("node", &self.node)] {
            if let Some(Reference { name, uid }) = reference {
                add(&format!("{kind}-name"), name);
                add(&format!("{kind}-uid"), uid);
            }
        }
        user
    }
}

impl Reference {
    fn value(&self) -> Value {
        if self.uid.is_empty() {
            return json!({"name": self.name});
        }
        json!({"name": self.name, "uid": self.uid})
    }

    fn read(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self { name: text("name"), uid: text("uid") }
    }
}

/// Returns the strings of a list.
pub(super) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
