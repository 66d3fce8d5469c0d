//! The columns of nodes, namespaces, leases and classes, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, Column, NAME, boolean, integer, text};

pub(super) const LEASES: &[Column] = &[
    NAME,
    text(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated \
         Leader Election is used, the holder identity must be equal to the elected \
         LeaseCandidate.metadata.name field.",
    ),
    AGE,
];

pub(super) const NAMESPACES: &[Column] =
    &[NAME, text("Status", "The status of the namespace"), AGE];

pub(super) const NODES: &[Column] = &[
    NAME,
    text("Status", "The status of the node"),
    text("Roles", "The roles of the node"),
    AGE,
    text("Version", "Kubelet Version reported by the node."),
    text(
        "Internal-IP",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More \
         info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field \
         is declared as mergeable, but the merge key is not sufficiently unique, which can cause \
         data corruption when it is merged. Callers should instead use a full-replacement patch. \
         See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can \
         change during the lifetime of a Node. However, there are some exceptions where this may \
         not be possible, such as Pods that inherit a Node's address in its own status or \
         consumers of the downward API (status.hostIP).",
    )
    .wide(),
    text(
        "External-IP",
        "List of addresses reachable to the node. Queried from cloud provider, if available. More \
         info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field \
         is declared as mergeable, but the merge key is not sufficiently unique, which can cause \
         data corruption when it is merged. Callers should instead use a full-replacement patch. \
         See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can \
         change during the lifetime of a Node. However, there are some exceptions where this may \
         not be possible, such as Pods that inherit a Node's address in its own status or \
         consumers of the downward API (status.hostIP).",
    )
    .wide(),
    text(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    )
    .wide(),
    text(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    )
    .wide(),
    text(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. \
         containerd://1.4.2).",
    )
    .wide(),
];

pub(super) const PRIORITYCLASSES: &[Column] = &[
    NAME,
    integer(
        "Value",
        "value represents the integer value of this priority class. This is the actual priority \
         that pods receive when they have the name of this class in their pod spec.",
    ),
    boolean(
        "Global-Default",
        "globalDefault specifies whether this PriorityClass should be considered as the default \
         priority for pods that do not have any priority class. Only one PriorityClass can be \
         marked as `globalDefault`. However, if more than one PriorityClasses exists with their \
         `globalDefault` field set to true, the smallest value of such global default \
         PriorityClasses will be used as the default priority.",
    ),
    AGE,
    text(
        "PreemptionPolicy",
        "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, \
         PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
    ),
];

pub(super) const RUNTIMECLASSES: &[Column] = &[NAME, text("Handler", ""), AGE];
