//! The columns of volumes, as kube-apiserver v1.36.3 defines them.

use crate::table::column::{AGE, Column, NAME, text};

pub(super) const PERSISTENTVOLUMECLAIMS: &[Column] = &[
    NAME,
    text("Status", "phase represents the current phase of PersistentVolumeClaim."),
    text(
        "Volume",
        "volumeName is the binding reference to the PersistentVolume backing this claim.",
    ),
    text("Capacity", "capacity represents the actual resources of the underlying volume."),
    text(
        "Access Modes",
        "accessModes contains the actual access modes the volume backing the PVC has. More info: \
         https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes-1",
    ),
    text("StorageClass", "StorageClass of the pvc"),
    text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    text(
        "VolumeMode",
        "volumeMode defines what type of volume is required by the claim. Value of Filesystem is \
         implied when not included in claim spec.",
    )
    .wide(),
];

pub(super) const PERSISTENTVOLUMES: &[Column] = &[
    NAME,
    text(
        "Capacity",
        "capacity is the description of the persistent volume's resources and capacity. More \
         info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#capacity",
    ),
    text(
        "Access Modes",
        "accessModes contains all ways the volume can be mounted. More info: \
         https://kubernetes.io/docs/concepts/storage/persistent-volumes#access-modes",
    ),
    text(
        "Reclaim Policy",
        "persistentVolumeReclaimPolicy defines what happens to a persistent volume when released \
         from its claim. Valid options are Retain (default for manually created \
         PersistentVolumes), Delete (default for dynamically provisioned PersistentVolumes), and \
         Recycle (deprecated). Recycle must be supported by the volume plugin underlying this \
         PersistentVolume. More info: \
         https://kubernetes.io/docs/concepts/storage/persistent-volumes#reclaiming",
    ),
    text(
        "Status",
        "phase indicates if a volume is available, bound to a claim, or released by a claim. More \
         info: https://kubernetes.io/docs/concepts/storage/persistent-volumes#phase",
    ),
    text(
        "Claim",
        "claimRef is part of a bi-directional binding between PersistentVolume and \
         PersistentVolumeClaim. Expected to be non-nil when bound. claim.VolumeName is the \
         authoritative bind between PV and PVC. More info: \
         https://kubernetes.io/docs/concepts/storage/persistent-volumes#binding",
    ),
    text("StorageClass", "StorageClass of the pv"),
    text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    text(
        "Reason",
        "reason is a brief CamelCase string that describes any failure and is meant for machine \
         parsing and tidy display in the CLI.",
    ),
    AGE,
    text(
        "VolumeMode",
        "volumeMode defines if a volume is intended to be used with a formatted filesystem or to \
         remain in raw block state. Value of Filesystem is implied when not included in spec.",
    )
    .wide(),
];

pub(super) const STORAGECLASSES: &[Column] = &[
    NAME,
    text("Provisioner", "provisioner indicates the type of the provisioner."),
    text(
        "ReclaimPolicy",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes \
         of this storage class. Defaults to Delete.",
    ),
    text(
        "VolumeBindingMode",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  \
         When unset, VolumeBindingImmediate is used. This field is only honored by servers that \
         enable the VolumeScheduling feature.",
    ),
    text(
        "AllowVolumeExpansion",
        "allowVolumeExpansion shows whether the storage class allow volume expand.",
    ),
    AGE,
];
