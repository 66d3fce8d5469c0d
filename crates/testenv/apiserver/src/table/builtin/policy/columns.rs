//! The columns of disruption budgets and autoscalers, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, Column, NAME, integer, text};

pub(super) const HORIZONTALPODAUTOSCALERS: &[Column] = &[
    NAME,
    text(
        "Reference",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which \
         metrics should be collected, as well as to actually change the replica count.",
    ),
    text(
        "Targets",
        "metrics contains the specifications for which to use to calculate the desired replica \
         count (the maximum replica count across all metrics will be used).  The desired replica \
         count is calculated multiplying the ratio between the target value and the current value \
         by the current number of pods.  Ergo, metrics used must decrease as the pod count is \
         increased, and vice-versa.  See the individual metric source types for more information \
         about how each type of metric must respond. If not set, the default metric will be set \
         to 80% average CPU utilization.",
    ),
    text(
        "MinPods",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can \
         scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature \
         gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  \
         Scaling is active as long as at least one metric value is available.",
    ),
    text(
        "MaxPods",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can \
         scale up. It cannot be less that minReplicas.",
    ),
    text(
        "Replicas",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as \
         last seen by the autoscaler.",
    ),
    AGE,
];

pub(super) const PODDISRUPTIONBUDGETS: &[Column] = &[
    NAME,
    text("Min Available", "The minimum number of pods that must be available."),
    text("Max Unavailable", "The maximum number of pods that may be unavailable."),
    integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
    AGE,
];
