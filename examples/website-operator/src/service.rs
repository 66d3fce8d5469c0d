//! The Service of a Website: one address for its pods.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::Website;
use crate::deployment::PORT;
use crate::labels;

/// The Service that a Website should have.
pub fn service(site: &Website) -> Service {
    let port = ServicePort {
        name: Some(PORT.to_owned()),
        port: 80,
        target_port: Some(IntOrString::String(PORT.to_owned())),
        ..ServicePort::default()
    };
    Service {
        metadata: labels::metadata(site),
        spec: Some(ServiceSpec {
            selector: Some(labels::pods_of(site)),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
