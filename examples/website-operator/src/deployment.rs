//! The web servers of a Website, as a Deployment.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource,
    HTTPGetAction, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use crate::Website;
use crate::labels;

/// The name of the port of the web servers.
pub(crate) const PORT: &str = "http";

/// The Deployment that a Website should have.
///
/// A change of the files changes nothing here: the kubelet updates the mounted files within a
/// minute, and the web server reads them for each request. So no pod is replaced for it.
pub fn deployment(site: &Website) -> Deployment {
    let labels = labels::pods_of(site);
    Deployment {
        metadata: labels::metadata(site),
        spec: DeploymentSpec {
            replicas: Some(site.spec.replicas()),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod(site)),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

fn pod(site: &Website) -> PodSpec {
    let files = ConfigMapVolumeSource { name: site.name_any(), ..ConfigMapVolumeSource::default() };
    PodSpec {
        containers: vec![web_server(site)],
        volumes: Some(vec![
            Volume { name: "files".to_owned(), config_map: Some(files), ..Volume::default() },
            // The server writes its process id and buffers here; the rest is read-only.
            Volume {
                name: "tmp".to_owned(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            },
        ]),
        // It asks the API server nothing.
        automount_service_account_token: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

fn web_server(site: &Website) -> Container {
    let mount = |name: &str, path: &str, is_read_only| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(is_read_only),
        ..VolumeMount::default()
    };
    Container {
        name: "web".to_owned(),
        image: Some(site.spec.server.image().to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some(PORT.to_owned()),
            container_port: site.spec.server.port().into(),
            ..ContainerPort::default()
        }]),
        volume_mounts: Some(vec![
            mount("files", "/usr/share/nginx/html", true),
            mount("tmp", "/tmp", false),
        ]),
        readiness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/".to_owned()),
                port: IntOrString::String(PORT.to_owned()),
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
