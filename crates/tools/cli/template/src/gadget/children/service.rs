//! The Service of a Gadget: one address for its pods.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::gadget::Gadget;

/// The Service that a Gadget should have.
pub(super) fn of(gadget: &Gadget) -> Service {
    let port = ServicePort {
        name: Some("http".to_owned()),
        port: 80,
        target_port: Some(IntOrString::Int(8080)),
        ..ServicePort::default()
    };
    Service {
        metadata: super::metadata(gadget),
        spec: Some(ServiceSpec {
            // if statefulsets
            // Headless, so that each pod of the StatefulSet has a DNS name.
            cluster_ip: Some("None".to_owned()),
            // end
            selector: Some(super::labels(gadget)),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
