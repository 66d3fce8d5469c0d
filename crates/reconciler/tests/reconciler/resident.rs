//! What reads annotations needs the bytes of objects, which a resident cache does not keep.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::sync::mpsc;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{InformerOptions, SharedInformerFactory};
use windlass_reconciler::{BuildError, Controller, ControllerBuilder, OwnedBy, Predicate, Watch};

use crate::stage::cluster;
use crate::stage::runs::reporter;

/// Returns the message of the error if the controller cannot be built.
fn build(
    builder: ControllerBuilder<ConfigMap>,
    factory: &SharedInformerFactory,
) -> Result<(), String> {
    let built = builder.build(factory, reporter(mpsc::channel(1).0)).map(drop);
    built.map_err(|error| {
        assert!(matches!(error, BuildError::Informer { .. }), "{error:?}");
        error.to_string()
    })
}

fn resident_secrets() -> Watch<Secret> {
    Watch::<Secret>::new().options(windlass_informer::InformerOptions::resident::<Secret>)
}

fn to_nothing(_: &Cached<Secret>) -> Option<ObjectKey> {
    None
}

#[tokio::test(start_paused = true)]
async fn controller_of_resident_objects_that_can_be_paused_is_not_built() {
    let (_cluster, client) = cluster().await;
    let builder = || {
        let watch = Watch::<ConfigMap>::new();
        Controller::named("configmap", watch.options(InformerOptions::resident::<ConfigMap>))
    };
    let factory = SharedInformerFactory::new(client);
    let error = build(builder().pausable(), &factory).expect_err("an object could not be paused");
    assert!(error.contains("is resident as ConfigMap and keeps no annotations"), "{error}");
    assert!(error.contains("pausing (`.pausable()`"), "{error}");
    build(builder(), &factory).expect("it is built");
}

#[tokio::test(start_paused = true)]
async fn predicate_of_annotations_on_a_resident_cache_is_refused() {
    let (_cluster, client) = cluster().await;
    let factory = SharedInformerFactory::new(client);
    let used = || Predicate::annotated("example.com/use", "yes");
    let plain = Predicate::version_changed;
    for predicate in [used(), used().not(), plain().and(used()), plain().or(used())] {
        let watch = resident_secrets().when(predicate);
        let builder =
            Controller::named("configmap", Watch::<ConfigMap>::new()).watches(watch, to_nothing);
        let error = build(builder, &factory).expect_err("nothing would pass");
        assert!(error.contains("`Predicate::annotated` reads them"), "{error}");
    }
    let watch = resident_secrets().when(plain());
    let builder =
        Controller::named("configmap", Watch::<ConfigMap>::new()).watches(watch, to_nothing);
    build(builder, &factory).expect("it reads no annotation");
}

#[tokio::test(start_paused = true)]
async fn owner_by_annotation_on_a_resident_cache_is_refused() {
    let (_cluster, client) = cluster().await;
    let factory = SharedInformerFactory::new(client);
    let by_annotation = OwnedBy::Annotation("example.com/owner".to_owned());
    for (owned_by, is_built) in [(by_annotation, false), (OwnedBy::Controller, true)] {
        let watch = resident_secrets().owned_by(owned_by);
        let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).owns(watch);
        let built = build(builder, &factory);
        assert_eq!(built.is_ok(), is_built, "{built:?}");
    }
}
