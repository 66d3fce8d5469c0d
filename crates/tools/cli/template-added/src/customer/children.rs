//! The objects that a Customer owns: one file for each kind.
//!
//! To own another kind: add a file, a line to [`watch`], a line to [`of`], and the kind to
//! `deploy/rbac.yaml`. To own one kind less: remove these, and declare it in [`watch`] by
//! `.retires::<Kind>()`, so that what an earlier version has made is deleted.

mod service_account;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use windlass::prelude::*;
use windlass::reconciler::{Children, ControllerBuilder, children_selector};

use super::Customer;
use super::reconciler::CONTROLLER;
use crate::OPERATOR;

/// The annotation with the title, on every object that is made.
const TITLE: &str = "example.com/title";

/// Watches the kinds that a Customer owns: a change to one of its objects runs the reconciler.
pub(crate) fn watch(builder: ControllerBuilder<Customer>) -> ControllerBuilder<Customer> {
    // What others make is not cached.
    let ours = |options: InformerOptions| options.label_selector(children_selector(CONTROLLER));
    builder.owns(Watch::<ServiceAccount>::new().options(ours))
}

/// The objects that a Customer should have, in the order in which they are made.
pub(crate) fn of<'a>(customer: &Customer, cx: &'a RunContext) -> Children<'a> {
    cx.children(customer).apply(service_account::of(customer))
}

/// The metadata of an object of a Customer. All of them have its name. If another kind of this
/// operator owns objects of the same kinds, give its objects other names.
fn metadata(customer: &Customer) -> ObjectMeta {
    ObjectMeta {
        name: Some(customer.name_any()),
        labels: Some(labels(customer)),
        annotations: Some([(TITLE.to_owned(), customer.spec.title.clone())].into()),
        ..ObjectMeta::default()
    }
}

/// The labels of everything that is made for a Customer.
fn labels(customer: &Customer) -> BTreeMap<String, String> {
    let label = |name: &str, value: &str| (format!("app.kubernetes.io/{name}"), value.to_owned());
    let labels = [
        label("managed-by", OPERATOR),
        label("name", CONTROLLER),
        label("instance", &customer.name_any()),
    ];
    labels.into()
}
