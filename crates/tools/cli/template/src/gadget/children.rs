//! The objects that a Gadget owns: one file for each kind.
//!
//! To own another kind: add a file, a line to [`watch`], a line to [`of`], and the kind to
//! `deploy/rbac.yaml`. To own one kind less: remove these, and declare it in [`watch`] by
//! `.retires::<Kind>()`, so that what an earlier version has made is deleted.

// if configmaps
mod config_map;
// end
// if deployments
mod deployment;
// end
// if deployments statefulsets
mod pod;
// end
// if services
mod service;
// end
// if serviceaccounts
mod service_account;
// end
// if statefulsets
mod stateful_set;
// end

use std::collections::BTreeMap;

// if deployments
use k8s_openapi::api::apps::v1::Deployment;
// end
// if statefulsets
use k8s_openapi::api::apps::v1::StatefulSet;
// end
// if configmaps
use k8s_openapi::api::core::v1::ConfigMap;
// end
// if services
use k8s_openapi::api::core::v1::Service;
// end
// if serviceaccounts
use k8s_openapi::api::core::v1::ServiceAccount;
// end
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use windlass::prelude::*;
// if deployments statefulsets
use windlass::reconciler::ChildrenReport;
// end
use windlass::reconciler::{Children, ControllerBuilder, children_selector};

use super::Gadget;
use super::reconciler::CONTROLLER;
use crate::OPERATOR;

/// The annotation with the title, on every object that is made.
const TITLE: &str = "group.example/title";

/// Watches the kinds that a Gadget owns: a change to one of its objects runs the reconciler.
pub(crate) fn watch(builder: ControllerBuilder<Gadget>) -> ControllerBuilder<Gadget> {
    // What others make is not cached.
    let ours = |options: InformerOptions| options.label_selector(children_selector(CONTROLLER));
    builder
        // if configmaps
        .owns(Watch::<ConfigMap>::new().options(ours))
        // end
        // if deployments
        .owns(Watch::<Deployment>::new().options(ours))
        // end
        // if services
        .owns(Watch::<Service>::new().options(ours))
        // end
        // if serviceaccounts
        .owns(Watch::<ServiceAccount>::new().options(ours))
        // end
        // if statefulsets
        .owns(Watch::<StatefulSet>::new().options(ours))
    // end
}

/// The objects that a Gadget should have, in the order in which they are made.
pub(crate) fn of<'a>(gadget: &Gadget, cx: &'a RunContext) -> Children<'a> {
    cx.children(gadget)
        // if configmaps
        .apply(config_map::of(gadget))
        // end
        // if services
        .apply(service::of(gadget))
        // end
        // if serviceaccounts
        .apply(service_account::of(gadget))
        // end
        // if deployments
        .apply(deployment::of(gadget))
        // end
        // if statefulsets
        .apply(stateful_set::of(gadget))
    // end
}

// if deployments statefulsets
/// What is not ready yet, in words.
pub(crate) fn pending(gadget: &Gadget, made: &ChildrenReport) -> Result<Vec<String>, Error> {
    let name = gadget.name_any();
    let parts = [
        // if deployments
        made.get::<Deployment>(&name)?.and_then(|made| deployment::pending(&made)),
        // end
        // if statefulsets
        made.get::<StatefulSet>(&name)?.and_then(|made| stateful_set::pending(&made)),
        // end
    ];
    Ok(parts.into_iter().flatten().collect())
}
// end

/// The metadata of an object of a Gadget. All of them have its name. If another kind of this
/// operator owns objects of the same kinds, give its objects other names.
fn metadata(gadget: &Gadget) -> ObjectMeta {
    ObjectMeta {
        name: Some(gadget.name_any()),
        labels: Some(labels(gadget)),
        annotations: Some([(TITLE.to_owned(), gadget.spec.title.clone())].into()),
        ..ObjectMeta::default()
    }
}

/// The labels of everything that is made for a Gadget.
fn labels(gadget: &Gadget) -> BTreeMap<String, String> {
    let label = |name: &str, value: &str| (format!("app.kubernetes.io/{name}"), value.to_owned());
    let labels = [
        label("managed-by", OPERATOR),
        label("name", CONTROLLER),
        label("instance", &gadget.name_any()),
    ];
    labels.into()
}
