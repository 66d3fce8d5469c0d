//! The pods of a Gadget.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, HTTPGetAction,
    PodSecurityContext, PodSpec, PodTemplateSpec, Probe, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
// if serviceaccounts
use kube::ResourceExt as _;
// end
use kube::api::ObjectMeta;

use crate::gadget::Gadget;

/// Selects the pods that are made by one object of a Gadget, and no others.
pub(super) fn selector(gadget: &Gadget, component: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(labels(gadget, component)), ..LabelSelector::default() }
}

/// What these pods are made from.
pub(super) fn template(gadget: &Gadget, component: &str) -> PodTemplateSpec {
    let labels = Some(labels(gadget, component));
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
        spec: Some(spec(gadget)),
    }
}

fn labels(gadget: &Gadget, component: &str) -> BTreeMap<String, String> {
    let mut labels = super::labels(gadget);
    labels.insert("app.kubernetes.io/component".to_owned(), component.to_owned());
    labels
}

fn spec(gadget: &Gadget) -> PodSpec {
    PodSpec {
        containers: vec![server(gadget)],
        // The rest of the file system is read-only.
        volumes: Some(vec![Volume {
            name: "tmp".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        }]),
        // if serviceaccounts
        service_account_name: Some(gadget.name_any()),
        // end
        // The pods ask the API server nothing.
        automount_service_account_token: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

fn server(gadget: &Gadget) -> Container {
    Container {
        name: "server".to_owned(),
        image: Some(gadget.spec.image.clone()),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: 8080,
            ..ContainerPort::default()
        }]),
        volume_mounts: Some(vec![VolumeMount {
            name: "tmp".to_owned(),
            mount_path: "/tmp".to_owned(),
            ..VolumeMount::default()
        }]),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/".to_owned()),
                port: IntOrString::String("http".to_owned()),
                ..HTTPGetAction::default()
            }),
            ..Probe::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}
