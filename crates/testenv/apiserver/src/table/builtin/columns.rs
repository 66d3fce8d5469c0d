//! The columns of the built-in kinds, as kube-apiserver v1.36.3 defines them, grouped by topic.

use crate::table::column::{AGE, CONTAINERS, Column, IMAGES, NAME, boolean, integer, text};

// Bindings.

pub(super) const CLUSTERROLEBINDINGS: &[Column] = &[
    NAME,
    text("Role"),
    AGE,
    text("Users").wide(),
    text("Groups").wide(),
    text("ServiceAccounts").wide(),
];

pub(super) const ROLEBINDINGS: &[Column] = &[
    NAME,
    text("Role"),
    AGE,
    text("Users").wide(),
    text("Groups").wide(),
    text("ServiceAccounts").wide(),
];

// Jobs.

pub(super) const CRONJOBS: &[Column] = &[
    NAME,
    text("Schedule"),
    text("Timezone"),
    boolean("Suspend"),
    integer("Active"),
    text("Last Schedule"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text("Selector").wide(),
];

pub(super) const JOBS: &[Column] = &[
    NAME,
    text("Status"),
    text("Completions"),
    text("Duration"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text("Selector").wide(),
];

// Nodes, namespaces, leases and classes.

pub(super) const LEASES: &[Column] = &[NAME, text("Holder"), AGE];

pub(super) const NAMESPACES: &[Column] = &[NAME, text("Status"), AGE];

pub(super) const NODES: &[Column] = &[
    NAME,
    text("Status"),
    text("Roles"),
    AGE,
    text("Version"),
    text("Internal-IP").wide(),
    text("External-IP").wide(),
    text("OS-Image").wide(),
    text("Kernel-Version").wide(),
    text("Container-Runtime").wide(),
];

pub(super) const PRIORITYCLASSES: &[Column] =
    &[NAME, integer("Value"), boolean("Global-Default"), AGE, text("PreemptionPolicy")];

pub(super) const RUNTIMECLASSES: &[Column] = &[NAME, text("Handler"), AGE];

// Config maps and similar kinds.

pub(super) const CONFIGMAPS: &[Column] = &[NAME, text("Data"), AGE];

pub(super) const RESOURCEQUOTAS: &[Column] = &[NAME, text("Request"), text("Limit"), AGE];

pub(super) const SECRETS: &[Column] = &[NAME, text("Type"), text("Data"), AGE];

pub(super) const SERVICEACCOUNTS: &[Column] = &[NAME, AGE];

pub(super) const WEBHOOK_CONFIGURATIONS: &[Column] = &[NAME, integer("Webhooks"), AGE];

// Events.

pub(super) const EVENTS: &[Column] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    text("Subobject").wide(),
    text("Source").wide(),
    text("Message"),
    text("First Seen").wide(),
    text("Count").wide(),
    NAME.wide(),
];

// Services and other network kinds.

pub(super) const ENDPOINTS: &[Column] = &[NAME, text("Endpoints"), AGE];

pub(super) const ENDPOINTSLICES: &[Column] =
    &[NAME, text("AddressType"), text("Ports"), text("Endpoints"), AGE];

pub(super) const INGRESSCLASSES: &[Column] = &[NAME, text("Controller"), text("Parameters"), AGE];

pub(super) const INGRESSES: &[Column] =
    &[NAME, text("Class"), text("Hosts"), text("Address"), text("Ports"), AGE];

pub(super) const NETWORKPOLICIES: &[Column] = &[NAME, text("Pod-Selector"), AGE];

pub(super) const SERVICES: &[Column] = &[
    NAME,
    text("Type"),
    text("Cluster-IP"),
    text("External-IP"),
    text("Port(s)"),
    AGE,
    text("Selector").wide(),
];

// Pods and their templates.

pub(super) const PODS: &[Column] = &[
    NAME,
    text("Ready"),
    text("Status"),
    text("Restarts"),
    AGE,
    text("IP").wide(),
    text("Node").wide(),
    text("Nominated Node").wide(),
    text("Readiness Gates").wide(),
];

pub(super) const PODTEMPLATES: &[Column] = &[NAME, CONTAINERS, IMAGES, text("Pod Labels")];

// Disruption budgets and autoscalers.

pub(super) const HORIZONTALPODAUTOSCALERS: &[Column] = &[
    NAME,
    text("Reference"),
    text("Targets"),
    text("MinPods"),
    text("MaxPods"),
    text("Replicas"),
    AGE,
];

pub(super) const PODDISRUPTIONBUDGETS: &[Column] =
    &[NAME, text("Min Available"), text("Max Unavailable"), integer("Allowed Disruptions"), AGE];

// Volumes.

pub(super) const PERSISTENTVOLUMECLAIMS: &[Column] = &[
    NAME,
    text("Status"),
    text("Volume"),
    text("Capacity"),
    text("Access Modes"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    AGE,
    text("VolumeMode").wide(),
];

pub(super) const PERSISTENTVOLUMES: &[Column] = &[
    NAME,
    text("Capacity"),
    text("Access Modes"),
    text("Reclaim Policy"),
    text("Status"),
    text("Claim"),
    text("StorageClass"),
    text("VolumeAttributesClass"),
    text("Reason"),
    AGE,
    text("VolumeMode").wide(),
];

pub(super) const STORAGECLASSES: &[Column] = &[
    NAME,
    text("Provisioner"),
    text("ReclaimPolicy"),
    text("VolumeBindingMode"),
    text("AllowVolumeExpansion"),
    AGE,
];

// Workloads.

pub(super) const CONTROLLERREVISIONS: &[Column] =
    &[NAME, text("Controller"), text("Revision"), AGE];

pub(super) const DAEMONSETS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    integer("Up-to-date"),
    integer("Available"),
    text("Node Selector"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text("Selector").wide(),
];

pub(super) const DEPLOYMENTS: &[Column] = &[
    NAME,
    text("Ready"),
    text("Up-to-date"),
    text("Available"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text("Selector").wide(),
];

pub(super) const REPLICASETS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text("Selector").wide(),
];

pub(super) const REPLICATIONCONTROLLERS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text("Selector").wide(),
];

pub(super) const STATEFULSETS: &[Column] =
    &[NAME, text("Ready"), AGE, CONTAINERS.wide(), IMAGES.wide()];
