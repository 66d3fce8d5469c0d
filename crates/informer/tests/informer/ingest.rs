//! What becomes of objects on their way into the cache: what lists leave out is filled in, what
//! nobody reads is cut.

use crate::support::by_hand::{self, refusal};
use crate::support::{Cluster, Running};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_informer::{InformerOptions, ManagedFields, SharedInformer, Transform};

/// The bytes that are held of the object `a`.
fn held(informer: &SharedInformer<ConfigMap>) -> Value {
    let object = informer.lister().reader().get("default/a").expect("it is there");
    serde_json::from_slice(object.bytes().expect("compact")).expect("JSON")
}

/// An object as it is within a list, without its type.
fn item() -> Value {
    let managed =
        json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {}}}]);
    json!({
        "metadata": {
            "name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1",
            "managedFields": managed,
        },
        "data": {"value": "1", "managedFields": "of another kind"},
    })
}

/// An informer that lists `item` in pages.
async fn listed(options: InformerOptions, item: Value) -> Running {
    let (informer, mut server) = by_hand::running(options);
    server.asked().await.fails(refusal(422, "Invalid"));
    server.asked().await.sends_list(&[item], "1");
    informer.wait_for_sync().await.expect("it lists");
    informer
}

#[tokio::test(start_paused = true)]
async fn items_of_a_list_get_the_type_that_they_lack() {
    let informer = listed(InformerOptions::new(), item()).await;
    let held = held(&informer);
    assert_eq!((&held["kind"], &held["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    let dynamic = informer.read_as::<DynamicObject>().expect("another face");
    let object = dynamic.lister().get("default/a").expect("it decodes").expect("it is there");
    let types = object.types.as_ref().expect("a type");
    assert_eq!((&*types.kind, &*types.api_version), ("ConfigMap", "v1"));
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn type_that_an_object_gives_itself_stays() {
    let mut partial = item();
    partial["kind"] = "PartialObjectMetadata".into();
    partial["apiVersion"] = "meta.k8s.io/v1".into();
    let informer = listed(InformerOptions::new(), partial).await;
    assert_eq!(held(&informer)["kind"], "PartialObjectMetadata");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_is_the_same_whether_it_was_listed_or_watched() {
    let cluster = Cluster::with(&["a"]).await;
    let streamed = cluster.running(InformerOptions::new());
    streamed.wait_for_sync().await.expect("it lists");
    let object = held(&streamed);
    let mut item = object.clone();
    let members = item.as_object_mut().expect("an object");
    members.remove("kind");
    members.remove("apiVersion");
    let paged = listed(InformerOptions::new(), item).await;
    assert_eq!(held(&paged), object);
    streamed.end().await;
    paged.end().await;
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_cut_at_their_place_unless_they_are_asked_for() {
    let informer = listed(InformerOptions::new(), item()).await;
    let cut = held(&informer);
    assert_eq!(cut["metadata"].get("managedFields"), None);
    assert_eq!(cut["data"]["managedFields"], "of another kind");
    informer.end().await;
    let keeps = InformerOptions::new().managed_fields(ManagedFields::Keep);
    let informer = listed(keeps, item()).await;
    assert_eq!(held(&informer)["metadata"]["managedFields"][0]["manager"], "kubectl");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn informers_with_and_without_managed_fields_are_two_of_a_factory() {
    let cluster = Cluster::with(&["a"]).await;
    let factory = cluster.factory();
    let keeps = factory
        .informer_with::<ConfigMap>(|options| options.managed_fields(ManagedFields::Keep))
        .expect("an informer");
    let cuts = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    factory.wait_for_sync().await.expect("they list");
    assert_eq!(cluster.asked("watch"), 2);
    assert!(held(&cuts)["metadata"].get("managedFields").is_none());
    assert_eq!(held(&keeps)["data"], held(&cuts)["data"]);
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn transform_sees_what_was_sent_without_managed_fields_and_its_work_is_held() {
    let transform = Transform::new("annotate", |object| {
        let had_managed_fields = object["metadata"].get("managedFields").is_some();
        object["metadata"]["annotations"] = json!({"had": had_managed_fields.to_string()});
    });
    let informer = listed(InformerOptions::new().transform(transform), item()).await;
    let held = held(&informer);
    assert_eq!(held["metadata"]["annotations"]["had"], "false");
    assert_eq!(held["kind"], "ConfigMap", "the type is filled in all the same");
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn transform_that_takes_the_name_away_leaves_the_object_out() {
    let transform = Transform::new("nameless", |object| *object = json!({"data": {}}));
    let informer = listed(InformerOptions::new().transform(transform), item()).await;
    assert!(informer.lister().reader().is_empty());
    assert_eq!(informer.status().quarantined_total, 1);
    informer.end().await;
}
