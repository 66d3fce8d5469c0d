//! A namespace for one test, on a server that tests share.

use kube::Client;
use kube::api::PostParams;
use kube::core::request::Request;
use serde_json::{Value, json};

use crate::report::causes;

/// Creates a namespace with a unique name.
///
/// # Panics
/// If the server refuses it.
pub(crate) async fn new_namespace(client: &Client, prefix: &str) -> String {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"generateName": format!("{prefix}-")},
    });
    let sent = async {
        let request = Request::new("/api/v1/namespaces");
        let request = request.create(&PostParams::default(), namespace.to_string().into_bytes());
        client.request::<Value>(request.map_err(kube::Error::BuildRequest)?).await
    };
    match sent.await {
        Ok(made) => made["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        Err(error) => panic!("the namespace cannot be created: {}", causes(&error)),
    }
}
