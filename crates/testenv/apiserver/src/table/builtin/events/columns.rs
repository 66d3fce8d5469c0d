//! The columns of events, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{Column, NAME, text};

pub(super) const EVENTS: &[Column] = &[
    text("Last Seen", "The time at which the most recent occurrence of this event was recorded."),
    text("Type", "Type of this event (Normal, Warning), new types could be added in the future"),
    text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the \
         transition into the object's current status.",
    ),
    text("Object", "The object that this event is about."),
    text(
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should \
         contain a valid JSON/Go field access statement, such as \
         desiredState.manifest.containers[2]. For example, if the object reference is to a \
         container within a pod, this would take on a value like: \"spec.containers{name}\" \
         (where \"name\" refers to the name of the container that triggered the event) or if no \
         container name is specified \"spec.containers[2]\" (container with index 2 in this pod). \
         This syntax is chosen only to have some well-defined way of referencing a part of an \
         object.",
    )
    .wide(),
    text(
        "Source",
        "The component reporting this event. Should be a short machine understandable string.",
    )
    .wide(),
    text("Message", "A human-readable description of the status of this operation."),
    text(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    )
    .wide(),
    text("Count", "The number of times this event has occurred.").wide(),
    NAME.wide(),
];
