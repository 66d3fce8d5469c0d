//! How the versions of a Website are converted.
//!
//! `v1` has no field for the port, so the conversion to `v1` puts it into an annotation, and a `v1`
//! client that reads and writes a Website does not lose it. `Conversion::keep_unknown_fields` would
//! do this for all fields, but it saves the whole spec, and at most 128 KiB: the files may be
//! larger.

use kube::api::ObjectMeta;
use windlass::webhook::{Conversion, Convert, ConvertError};

use super::{v1, v2};

/// The port of a Website that is read as `v1`.
pub(crate) const PORT_ANNOTATION: &str = "example.com/server-port";

/// The conversion between all versions. The hub is the version that all others are converted to
/// and from.
pub(crate) fn conversion() -> Conversion<v2::Website> {
    Conversion::hub::<v2::Website>().spoke::<v1::Website>()
}

impl Convert<v1::Website> for v2::Website {
    fn from_spoke(spoke: v1::Website) -> Result<Self, ConvertError> {
        let v1::Website { mut metadata, spec, status } = spoke;
        let v1::WebsiteSpec { host, files, replicas, image } = spec;
        let server = v2::Server { image, port: take_port(&mut metadata) };
        Ok(Self { metadata, spec: v2::WebsiteSpec { host, files, replicas, server }, status })
    }

    fn into_spoke(self) -> Result<v1::Website, ConvertError> {
        let Self { mut metadata, spec, status } = self;
        let v2::WebsiteSpec { host, files, replicas, server: v2::Server { image, port } } = spec;
        // `v2` has a field for it. The annotation may be there because somebody made a manifest of
        // `v2` out of one that was read as `v1`.
        take_port(&mut metadata);
        if let Some(port) = port {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(PORT_ANNOTATION.to_owned(), port.to_string());
        }
        let spec = v1::WebsiteSpec { host, files, replicas, image };
        Ok(v1::Website { metadata, spec, status })
    }
}

/// Removes the annotation, and returns the port in it. A value that is not a port stays in
/// the annotation: a conversion that fails would make the Website unreadable.
fn take_port(metadata: &mut ObjectMeta) -> Option<u16> {
    let annotations = metadata.annotations.as_mut()?;
    let text = annotations.get(PORT_ANNOTATION)?;
    let port = text.parse().ok().filter(|port: &u16| *port > 0 && port.to_string() == *text)?;
    annotations.remove(PORT_ANNOTATION);
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    Some(port)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn website(version: &str, annotations: &Value, spec: &Value) -> Value {
        json!({
            "apiVersion": format!("example.com/{version}"),
            "kind": "Website",
            "metadata": {"name": "blog", "uid": "1", "annotations": annotations},
            "spec": spec,
            "status": {"observedGeneration": 3, "availableReplicas": 2, "conditions": []},
        })
    }

    #[test]
    fn nothing_is_lost_on_the_way_to_another_version_and_back() {
        let files = json!({"index.html": "<h1>Hello</h1>"});
        let small = json!({"host": "a.example.com", "files": files});
        let old = json!({"host": "a", "files": files, "replicas": 3, "image": "nginx:1"});
        let server = json!({"image": "nginx:1", "port": 9090});
        let new = json!({"host": "a", "files": files, "replicas": 3, "server": server});
        let port_only = json!({"host": "a", "files": files, "server": {"port": 8080}});
        let mut objects = Vec::new();
        for annotations in [json!(null), json!({"note": "mine"})] {
            objects.extend([&small, &old].map(|spec| website("v1", &annotations, spec)));
            objects.extend([&small, &new, &port_only].map(|it| website("v2", &annotations, it)));
        }
        // Anybody may write the annotation: what is no port is kept, and nothing fails.
        for text in ["9090", "0", "08080", "65536", "much", ""] {
            objects.push(website("v1", &json!({PORT_ANNOTATION: text}), &old));
        }
        conversion().check_round_trips(objects).expect("nothing is lost");
    }

    #[test]
    fn port_is_in_an_annotation_of_the_first_version() {
        let spec = json!({"server": {"image": "nginx:1", "port": 9090}});
        let old = conversion().convert(&website("v2", &json!(null), &spec), "v1").expect("v1");
        assert_eq!(old["spec"], json!({"image": "nginx:1"}));
        assert_eq!(old["metadata"]["annotations"], json!({PORT_ANNOTATION: "9090"}));
        let new = conversion().convert(&old, "v2").expect("v2");
        assert_eq!(new["spec"], spec);
        assert_eq!(new["metadata"].get("annotations"), None);
    }

    #[test]
    fn annotation_of_the_second_version_is_no_port() {
        let copied = website("v2", &json!({PORT_ANNOTATION: "9090"}), &json!({"host": "a"}));
        let old = conversion().convert(&copied, "v1").expect("v1");
        assert_eq!(old["metadata"].get("annotations"), None);
        let new = conversion().convert(&old, "v2").expect("v2");
        assert_eq!(new["spec"], json!({"host": "a"}));
    }

    #[test]
    fn parts_of_an_object_gain_nothing() {
        // Server-side apply converts partial objects. A field that a conversion adds could never be
        // removed by its owner.
        for (part, there) in [
            (json!({"replicas": 3}), json!({"replicas": 3})),
            (json!({"image": "nginx:1"}), json!({"server": {"image": "nginx:1"}})),
            (json!({}), json!({})),
        ] {
            let converted = conversion().convert(&website("v1", &json!(null), &part), "v2");
            let converted = converted.expect("v2");
            assert_eq!(converted["spec"], there);
            let back = conversion().convert(&converted, "v1").expect("v1");
            assert_eq!(back["spec"], part);
        }
    }
}
