//! The Service of a Shop: one address for its pods.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::shop::Shop;

/// The Service that a Shop should have.
pub(super) fn of(shop: &Shop) -> Service {
    let port = ServicePort {
        name: Some("http".to_owned()),
        port: 80,
        target_port: Some(IntOrString::Int(8080)),
        ..ServicePort::default()
    };
    Service {
        metadata: super::metadata(shop),
        spec: Some(ServiceSpec {
            selector: Some(super::labels(shop)),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
