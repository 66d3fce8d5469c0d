//! The manifests of `deploy/`, applied as kubectl does it.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::Value;

/// The files that kustomization.yaml names, in its order.
const FILES: [&str; 4] = [
    include_str!("../../deploy/namespace.yaml"),
    include_str!("../../deploy/crd.yaml"),
    include_str!("../../deploy/rbac.yaml"),
    include_str!("../../deploy/operator.yaml"),
];

/// Every object of the manifests.
pub(crate) fn manifests() -> Vec<DynamicObject> {
    let parse = |text: &&str| serde_saphyr::from_multiple::<DynamicObject>(text).expect("YAML");
    FILES.iter().flat_map(parse).collect()
}

/// Applies everything. The server refuses fields that it does not know.
pub(crate) async fn apply(client: &Client) {
    for object in manifests() {
        let types = object.types.clone().expect("a kind");
        let kind = GroupVersionKind::try_from(&types).expect("a kind");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = object.metadata.name.clone().expect("a name");
        let params = PatchParams::apply("test").force().validation_strict();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind));
    }
}

/// The arguments of the operator in its Deployment.
pub(crate) fn arguments() -> Vec<String> {
    let made = manifests()
        .into_iter()
        .find(|object| object.types.as_ref().is_some_and(|types| types.kind == "Deployment"));
    let made = made.expect("a Deployment");
    let arguments = made.data.pointer("/spec/template/spec/containers/0/args").cloned();
    let arguments = arguments.as_ref().and_then(Value::as_array).expect("arguments").iter();
    arguments.map(|one| one.as_str().expect("text").to_owned()).collect()
}
