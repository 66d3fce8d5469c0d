//! The columns of workloads, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, CONTAINERS, Column, IMAGES, NAME, integer, text};

pub(super) const CONTROLLERREVISIONS: &[Column] = &[
    NAME,
    text("Controller", "Controller of the object"),
    text("Revision", "Revision indicates the revision of the state represented by Data."),
    AGE,
];

pub(super) const DAEMONSETS: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "The total number of nodes that should be running the daemon pod (including nodes \
         correctly running the daemon pod). More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    integer(
        "Current",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the \
         daemon pod. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    integer(
        "Ready",
        "numberReady is the number of nodes that should be running the daemon pod and have one or \
         more of the daemon pod running with a Ready Condition.",
    ),
    integer("Up-to-date", "The total number of nodes that are running updated daemon pod"),
    integer(
        "Available",
        "The number of nodes that should be running the daemon pod and have one or more of the \
         daemon pod running and available (ready for at least spec.minReadySeconds)",
    ),
    text(
        "Node Selector",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector \
         which must match a node's labels for the pod to be scheduled on that node. More info: \
         https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
    ),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text(
        "Selector",
        "A label query over pods that are managed by the daemon set. Must match in order to be \
         controlled. It must match the pod template's labels. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .wide(),
];

pub(super) const DEPLOYMENTS: &[Column] = &[
    NAME,
    text("Ready", "Number of the pod with ready state"),
    text(
        "Up-to-date",
        "Total number of non-terminating pods targeted by this deployment that have the desired \
         template spec.",
    ),
    text(
        "Available",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) \
         targeted by this deployment.",
    ),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text(
        "Selector",
        "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be \
         the ones affected by this deployment. It must match the pod template's labels.",
    )
    .wide(),
];

pub(super) const REPLICASETS: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "Replicas is the number of desired pods. This is a pointer to distinguish between \
         explicit zero and unspecified. Defaults to 1. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    integer(
        "Current",
        "Replicas is the most recently observed number of non-terminating pods. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    integer(
        "Ready",
        "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
    ),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text(
        "Selector",
        "Selector is a label query over pods that should match the replica count. Label keys and \
         values that must match in order to be controlled by this replica set. It must match the \
         pod template's labels. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .wide(),
];

pub(super) const REPLICATIONCONTROLLERS: &[Column] = &[
    NAME,
    integer(
        "Desired",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between \
         explicit zero and unspecified. Defaults to 1. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    integer(
        "Current",
        "Replicas is the most recently observed number of replicas. More info: \
         https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    integer("Ready", "The number of ready replicas for this replication controller."),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
    text(
        "Selector",
        "Selector is a label query over pods that should match the Replicas count. If Selector is \
         empty, it is defaulted to the labels present on the Pod template. Label keys and values \
         that must match in order to be controlled by this replication controller, if empty \
         defaulted to labels on Pod template. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .wide(),
];

pub(super) const STATEFULSETS: &[Column] = &[
    NAME,
    text("Ready", "Number of the pod with ready state"),
    AGE,
    CONTAINERS.wide(),
    IMAGES.wide(),
];
