//! The columns of config maps and similar kinds, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, Column, NAME, integer, text};

pub(super) const CONFIGMAPS: &[Column] = &[
    NAME,
    text(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, \
         '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The \
         keys stored in Data must not overlap with the keys in the BinaryData field, this is \
         enforced during validation process.",
    ),
    AGE,
];

pub(super) const RESOURCEQUOTAS: &[Column] = &[
    NAME,
    text(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of \
         contention on the node.",
    ),
    AGE,
];

pub(super) const SECRETS: &[Column] = &[
    NAME,
    text(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: \
         https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    text(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', \
         '_' or '.'. The serialized form of the secret data is a base64 encoded string, \
         representing the arbitrary (possibly non-string) data value here. Described in \
         https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE,
];

pub(super) const SERVICEACCOUNTS: &[Column] = &[NAME, AGE];

pub(super) const WEBHOOK_CONFIGURATIONS: &[Column] = &[
    NAME,
    integer(
        "Webhooks",
        "Webhooks indicates the number of webhooks registered in this configuration",
    ),
    AGE,
];
