//! Owner references: set only where the garbage collector understands them.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node};
use kube::Resource;
use windlass_reconciler::{OwnershipError, is_controlled_by, owner_reference, set_owner};

fn object<K: Resource<DynamicType = ()> + Default>(namespace: &str, name: &str, uid: &str) -> K {
    let present = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut object = K::default();
    let meta = object.meta_mut();
    meta.namespace = present(namespace);
    meta.name = present(name);
    meta.uid = present(uid);
    object
}

#[test]
fn reference_makes_a_controller_whose_deletion_waits() {
    let owner: Deployment = object("shop", "web", "u1");
    let reference = owner_reference(&owner).expect("a reference");
    assert_eq!((&*reference.api_version, &*reference.kind), ("apps/v1", "Deployment"));
    assert_eq!((&*reference.name, &*reference.uid), ("web", "u1"));
    assert_eq!((reference.controller, reference.block_owner_deletion), (Some(true), Some(true)));
}

#[test]
fn owner_that_no_server_knows_is_refused() {
    let mut child: ConfigMap = object("shop", "settings", "");
    let owner: Deployment = object("shop", "web", "");
    let error = set_owner(&mut child, &owner).expect_err("no uid");
    assert!(matches!(error, OwnershipError::NotRead { missing: "uid", .. }));
    assert_eq!(
        error.to_string(),
        "Deployment shop/web cannot own anything, because it has no uid: use the object that the \
         server returned"
    );
    assert_eq!(child.metadata.owner_references, None);
    let nameless: Deployment = object("shop", "", "u1");
    let error = owner_reference(&nameless).expect_err("no name");
    assert!(matches!(error, OwnershipError::NotRead { missing: "name", .. }));
}

#[test]
fn owner_is_set_once_and_kept_up_to_date() {
    let mut child: ConfigMap = object("shop", "settings", "");
    let owner: Deployment = object("shop", "web", "u1");
    let other = owner_reference(&object::<ReplicaSet>("shop", "other", "u2")).expect("a reference");
    let mut plain = owner_reference(&owner).expect("a reference");
    (plain.controller, plain.api_version) = (None, "apps/v1beta1".to_owned());
    let bystander = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
        controller: None,
        ..other
    };
    child.metadata.owner_references = Some(vec![bystander.clone(), plain]);
    for _ in 0..2 {
        set_owner(&mut child, &owner).expect("set");
        let expected = vec![bystander.clone(), owner_reference(&owner).expect("a reference")];
        assert_eq!(child.metadata.owner_references, Some(expected));
    }
}

#[test]
fn child_of_another_controller_is_left_alone() {
    let mut child: ConfigMap = object("shop", "settings", "");
    let (first, second): (Deployment, ReplicaSet) =
        (object("shop", "web", "u1"), object("shop", "web", "u2"));
    set_owner(&mut child, &first).expect("set");
    let before = child.clone();
    let error = set_owner(&mut child, &second).expect_err("it has a controller");
    assert!(matches!(error, OwnershipError::OtherController { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("ConfigMap shop/settings is controlled by Deployment web (uid u1), "),
        "{text}"
    );
    assert_eq!(child, before);
    // An owner that was made again is another, though it has the name of the first.
    let again: Deployment = object("shop", "web", "u3");
    assert!(set_owner(&mut child, &again).is_err());
}

#[test]
fn namespaces_have_to_fit() {
    let owner: Deployment = object("shop", "web", "u1");
    let mut elsewhere: ConfigMap = object("bank", "settings", "");
    let error = set_owner(&mut elsewhere, &owner).expect_err("another namespace");
    assert!(matches!(error, OwnershipError::OtherNamespace { .. }));
    assert_eq!(
        error.to_string(),
        "ConfigMap bank/settings cannot be owned by Deployment shop/web: both have to be in the \
         same namespace"
    );
    let mut node: Node = object("", "n1", "");
    let error = set_owner(&mut node, &owner).expect_err("no namespace");
    assert!(matches!(error, OwnershipError::NoNamespace { .. }));
    assert!(error.to_string().contains("Node n1 has no namespace"), "{error}");

    let cluster_wide: Namespace = object("", "tenant", "u2");
    set_owner(&mut elsewhere, &cluster_wide).expect("an owner may be in no namespace");
    set_owner(&mut node, &cluster_wide).expect("neither is in one");
}

#[test]
fn controller_is_known_by_group_kind_name_and_uid() {
    let mut child: ConfigMap = object("shop", "settings", "");
    let owner: Deployment = object("shop", "web", "u1");
    assert!(!is_controlled_by(&child.metadata, &owner));
    set_owner(&mut child, &owner).expect("set");
    assert!(is_controlled_by(&child.metadata, &owner));
    for (field, value) in
        [("apiVersion", "extensions/v1"), ("kind", "ReplicaSet"), ("name", "x"), ("uid", "u2")]
    {
        let mut other = child.clone();
        let mut reference =
            serde_json::to_value(owner_reference(&owner).expect("a reference")).expect("json");
        reference[field] = value.into();
        other.metadata.owner_references =
            Some(vec![serde_json::from_value(reference).expect("a reference")]);
        assert!(!is_controlled_by(&other.metadata, &owner), "{field}");
    }
    let references = child.metadata.owner_references.as_mut().expect("references");
    references[0].api_version = "apps/v1beta1".to_owned();
    assert!(is_controlled_by(&child.metadata, &owner), "another version is the same kind");
    child.metadata.owner_references.as_mut().expect("references")[0].controller = None;
    assert!(!is_controlled_by(&child.metadata, &owner), "an owner is not yet a controller");
}
