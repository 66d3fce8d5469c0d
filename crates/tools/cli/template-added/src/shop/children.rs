//! The objects that a Shop owns: one file for each kind.
//!
//! To own another kind: add a file, a line to [`watch`], a line to [`of`], and the kind to
//! `deploy/rbac.yaml`. To own one kind less: remove these, and declare it in [`watch`] by
//! `.retires::<Kind>()`, so that what an earlier version has made is deleted.

mod config_map;
mod service;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use windlass::prelude::*;
use windlass::reconciler::{Children, ControllerBuilder, children_selector};

use super::Shop;
use super::reconciler::CONTROLLER;
use crate::OPERATOR;

/// The annotation with the title, on every object that is made.
const TITLE: &str = "example.com/title";

/// Watches the kinds that a Shop owns: a change to one of its objects runs the reconciler.
pub(crate) fn watch(builder: ControllerBuilder<Shop>) -> ControllerBuilder<Shop> {
    // What others make is not cached.
    let ours = |options: InformerOptions| options.label_selector(children_selector(CONTROLLER));
    builder
        .owns(Watch::<ConfigMap>::new().options(ours))
        .owns(Watch::<Service>::new().options(ours))
}

/// The objects that a Shop should have, in the order in which they are made.
pub(crate) fn of<'a>(shop: &Shop, cx: &'a RunContext) -> Children<'a> {
    cx.children(shop).apply(config_map::of(shop)).apply(service::of(shop))
}

/// The metadata of an object of a Shop. All of them have its name. If another kind of this
/// operator owns objects of the same kinds, give its objects other names.
fn metadata(shop: &Shop) -> ObjectMeta {
    ObjectMeta {
        name: Some(shop.name_any()),
        labels: Some(labels(shop)),
        annotations: Some([(TITLE.to_owned(), shop.spec.title.clone())].into()),
        ..ObjectMeta::default()
    }
}

/// The labels of everything that is made for a Shop.
fn labels(shop: &Shop) -> BTreeMap<String, String> {
    let label = |name: &str, value: &str| (format!("app.kubernetes.io/{name}"), value.to_owned());
    let labels = [
        label("managed-by", OPERATOR),
        label("name", CONTROLLER),
        label("instance", &shop.name_any()),
    ];
    labels.into()
}
