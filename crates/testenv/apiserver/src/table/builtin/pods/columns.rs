//! The columns of pods and their templates, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, CONTAINERS, Column, IMAGES, NAME, text};

pub(super) const PODS: &[Column] = &[
    NAME,
    text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    text("Status", "The aggregate status of the containers in this pod."),
    text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last \
         container in this pod has restarted.",
    ),
    AGE,
    text(
        "IP",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not \
         yet allocated.",
    )
    .wide(),
    text(
        "Node",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a \
         candidate for scheduling by the scheduler defined in schedulerName. Once this field is \
         set, the kubelet for this node becomes responsible for the lifecycle of this pod. This \
         field should not be used to express a desire for the pod to be scheduled on a specific \
         node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
    )
    .wide(),
    text(
        "Nominated Node",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it \
         cannot be scheduled right away as preemption victims receive their graceful termination \
         periods. This field does not guarantee that the pod will be scheduled on this node. \
         Scheduler may decide to place the pod elsewhere if other nodes become available sooner. \
         Scheduler may also decide to give the resources on this node to a higher priority pod \
         that is created after preemption. As a result, this field may be different than \
         PodSpec.nodeName when the pod is scheduled.",
    )
    .wide(),
    text(
        "Readiness Gates",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready \
         when all its containers are ready AND all conditions specified in the readiness gates \
         have status equal to \"True\" More info: \
         https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
    )
    .wide(),
];

pub(super) const PODTEMPLATES: &[Column] =
    &[NAME, CONTAINERS, IMAGES, text("Pod Labels", "The labels for the pod template.")];
