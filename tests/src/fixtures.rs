//! The objects and definitions that cases share.
//!
//! `widgets` is a namespaced custom resource that uses nearly every feature of definitions;
//! `gadgets` is a minimal cluster-scoped one. Both are installed once per server and never changed;
//! a case about definitions installs its own.

use serde_json::{Value, json};

use crate::script::Script;

/// The collection of definitions.
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The group of the shared custom resources.
pub(crate) const GROUP: &str = "conformance.windlass.dev";

/// The collection of gadgets.
pub(crate) const GADGETS: &str = "/apis/conformance.windlass.dev/v1/gadgets";

/// The path of widgets of all namespaces, in their storage version.
pub(crate) const WIDGETS_EVERYWHERE: &str = "/apis/conformance.windlass.dev/v1/widgets";

/// The same path in the other version.
const WIDGETS_V2_EVERYWHERE: &str = "/apis/conformance.windlass.dev/v2/widgets";

/// A version that no server will reach during a test.
pub(crate) const FUTURE_VERSION: &str = "999999999999";

/// A uid that no object has.
pub(crate) const OTHER_UID: &str = "00000000-0000-0000-0000-000000000001";

/// A namespace.
pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A config map with one entry.
pub(crate) fn configmap(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A config map with one label.
pub(crate) fn labelled_configmap(name: &str, label: &str, value: &str) -> Value {
    with(configmap(name), "/metadata/labels", json!({label: value}))
}

/// A lease.
pub(crate) fn lease(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
    })
}

/// A minimal deployment.
pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    })
}

/// A minimal pod.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "main:1"}]},
    })
}

/// A minimal valid widget.
pub(crate) fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "conformance.windlass.dev/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1},
    })
}

/// A gadget with some content.
pub(crate) fn gadget(name: &str) -> Value {
    json!({
        "apiVersion": "conformance.windlass.dev/v1",
        "kind": "Gadget",
        "metadata": {"name": name},
        "any": {"x": [1]},
    })
}

/// Returns the object with `value` set at a JSON pointer; missing objects on the way are created.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let mut place = &mut object;
    for key in pointer.split('/').skip(1) {
        place = &mut place[key.replace("~1", "/")];
    }
    *place = value;
    object
}

/// An owner reference, as in `metadata.ownerReferences`.
pub(crate) fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

/// A definition of a namespaced resource with an open schema: `things.group`, of kind `Thing`.
pub(crate) fn definition(plural: &str, kind: &str, group: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}},
            ],
        },
    })
}

impl Script {
    /// The path of config maps in the namespace of the case.
    pub(crate) fn configmaps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.ns())
    }

    /// The path of one config map.
    pub(crate) fn configmap(&self, name: &str) -> String {
        format!("{}/{name}", self.configmaps())
    }

    /// The path of leases in the namespace of the case.
    pub(crate) fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.ns())
    }

    /// The path of deployments in the namespace of the case.
    pub(crate) fn deployments(&self) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments", self.ns())
    }

    /// The path of pods in the namespace of the case.
    pub(crate) fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.ns())
    }

    /// The path of widgets in the namespace of the case.
    pub(crate) fn widgets(&self) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/widgets", self.ns())
    }

    /// The path of one widget.
    pub(crate) fn widget(&self, name: &str) -> String {
        format!("{}/{name}", self.widgets())
    }

    /// The path of widgets in the other version.
    pub(crate) fn widgets_v2(&self) -> String {
        format!("/apis/{GROUP}/v2/namespaces/{}/widgets", self.ns())
    }

    /// The name of a cluster-scoped object of this case, which no other case uses.
    pub(crate) fn own_name(&self, name: &str) -> String {
        format!("{}-{name}", self.ns())
    }

    /// Makes sure that widgets are installed and served.
    pub(crate) async fn install_widgets(&mut self) {
        self.install(widgets_definition(), &[WIDGETS_EVERYWHERE, WIDGETS_V2_EVERYWHERE]).await;
    }

    /// Makes sure that gadgets are installed and served.
    pub(crate) async fn install_gadgets(&mut self) {
        self.install(gadgets_definition(), &[GADGETS]).await;
    }

    /// Creates config maps of these names, with the label `n` set to the name.
    pub(crate) async fn given_configmaps(&mut self, names: &[&str]) {
        for name in names {
            self.given(self.configmaps(), labelled_configmap(name, "n", name)).await;
        }
    }
}

fn widgets_definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": {"openAPIV3Schema": widget_schema()},
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["wd"],
                "categories": ["all", "conformance"],
            },
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn widget_schema() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                    "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
                    "replicas": {"type": "integer", "minimum": 0, "default": 1},
                    "label": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 8},
                    "tags": {
                        "type": "array",
                        "maxItems": 3,
                        "items": {"type": "string", "minLength": 1},
                    },
                    "parts": {"type": "array", "items": part_schema()},
                    "endpoint": endpoint_schema(),
                    "options": {"type": "object", "additionalProperties": {"type": "string"}},
                    "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "port": {"x-kubernetes-int-or-string": true},
                    "since": {"type": "string", "format": "date-time"},
                    "note": {"type": "string", "nullable": true},
                    "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "replicas": {"type": "integer"},
                    "selector": {"type": "string"},
                    "phase": {"type": "string", "enum": ["Pending", "Ready"]},
                },
            },
        },
    })
}

fn part_schema() -> Value {
    json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "weight": {"type": "number", "minimum": 0},
            "unit": {"type": "string", "default": "kg"},
        },
    })
}

fn endpoint_schema() -> Value {
    json!({
        "type": "object",
        "required": ["host"],
        "properties": {
            "host": {"type": "string"},
            "port": {"type": "integer", "default": 80},
            "tls": {
                "type": "object",
                "default": {},
                "properties": {"enabled": {"type": "boolean", "default": false}},
            },
        },
    })
}

fn gadgets_definition() -> Value {
    let mut definition = definition("gadgets", "Gadget", GROUP);
    definition["spec"]["scope"] = json!("Cluster");
    definition
}
