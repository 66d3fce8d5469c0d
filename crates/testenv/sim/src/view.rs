//! The cluster, for those who look at it from outside: invariants, and people who write.

use std::any::TypeId;

use bytes::Bytes;
use http::{Method, Request};
use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::operator::NAMESPACE;
use crate::server::{Refused, Server};
use crate::simulation::{LIMIT, QUIET};
use crate::world::World;

/// The cluster at one moment. Reading it takes no time.
pub struct ClusterView<'s> {
    server: &'s Server,
}

impl<'s> ClusterView<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        Self { server }
    }

    /// All objects of a kind, in all namespaces.
    ///
    /// # Panics
    /// If an object does not decode.
    pub fn list<K: Resource<DynamicType = ()> + DeserializeOwned>(&self) -> Vec<K> {
        let list = self.server.ask_json(Method::GET, &K::url_path(&(), None), "", &Value::Null);
        let items = list.map_or_else(|_| json!([]), |mut list| list["items"].take());
        serde_json::from_value(items).expect("the objects of the cluster must decode")
    }

    /// The object of this name, in the namespace `default` if it is in one.
    ///
    /// # Panics
    /// If it does not decode.
    pub fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned,
    {
        let uri = uri::<K>(None, Some(name));
        let object = self.server.ask_json(Method::GET, &uri, "", &Value::Null).ok()?;
        Some(serde_json::from_value(object).expect("the object must decode"))
    }
}

/// Somebody who changes the cluster: a person, or another program. What is refused fails the
/// simulated run.
pub struct User<'w> {
    world: &'w mut World,
}

impl<'w> User<'w> {
    pub(crate) fn new(world: &'w mut World) -> Self {
        Self { world }
    }

    /// Creates an object, in the namespace `default` unless it names another one.
    ///
    /// # Panics
    /// If the object does not encode.
    pub fn create<K>(&mut self, object: K)
    where
        K: Resource<DynamicType = (), Scope: 'static> + Serialize,
    {
        let namespace = object.meta().namespace.clone();
        let mut object = serde_json::to_value(object).expect("an object must encode");
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        let uri = uri::<K>(namespace.as_deref(), None);
        self.expect(&Method::POST, &uri, "application/json", &object);
    }

    /// Changes an object by a merge patch.
    #[expect(clippy::needless_pass_by_value, reason = "so that a `json!` can be written in place")]
    pub fn patch<K: Resource<DynamicType = (), Scope: 'static>>(
        &mut self,
        name: &str,
        patch: Value,
    ) {
        let uri = uri::<K>(None, Some(name));
        self.expect(&Method::PATCH, &uri, "application/merge-patch+json", &patch);
    }

    /// Changes the status of an object by a merge patch.
    #[expect(clippy::needless_pass_by_value, reason = "so that a `json!` can be written in place")]
    pub fn patch_status<K>(&mut self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope: 'static>,
    {
        let uri = format!("{}/status", uri::<K>(None, Some(name)));
        self.expect(&Method::PATCH, &uri, "application/merge-patch+json", &patch);
    }

    /// Deletes an object.
    pub fn delete<K: Resource<DynamicType = (), Scope: 'static>>(&mut self, name: &str) {
        let uri = uri::<K>(None, Some(name));
        self.expect(&Method::DELETE, &uri, "application/json", &Value::Null);
    }

    /// Reads what is there now.
    pub fn cluster(&self) -> ClusterView<'_> {
        ClusterView::new(&self.world.server)
    }

    fn expect(&mut self, method: &Method, uri: &str, content_type: &str, body: &Value) {
        let mut sent = self.send(method.clone(), uri, content_type, body);
        if sent.is_err() && self.world.has_active_faults() {
            // As people do: what is refused while something is wrong is tried again later.
            self.world.end_step(true);
            let _ = self.world.settle(QUIET, LIMIT);
            sent = self.send(method.clone(), uri, content_type, body);
        }
        if let Err(refused) = sent {
            let now = self.world.now();
            let what = format!("the user's {method} {uri} is refused with {refused}");
            self.world.record.note_violation(now, what);
        }
    }

    pub(crate) fn send(
        &mut self,
        method: Method,
        uri: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, Refused> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(http::header::CONTENT_TYPE, content_type).body(body);
        let answer = self.world.ask("the user", request.expect("a request must be valid"));
        let value: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        if answer.status().is_success() {
            return Ok(value);
        }
        let message = value["message"].as_str().unwrap_or("no message").to_owned();
        Err(Refused { code: answer.status(), message })
    }
}

/// The path of an object, or of the objects of a namespace.
fn uri<K>(namespace: Option<&str>, name: Option<&str>) -> String
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    let is_in_cluster = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
    let namespace = (!is_in_cluster).then(|| namespace.unwrap_or(NAMESPACE));
    let path = K::url_path(&(), namespace);
    name.map_or_else(|| path.clone(), |name| format!("{path}/{name}"))
}
