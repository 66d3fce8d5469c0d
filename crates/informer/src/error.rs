//! The errors of informers and their factories.

use windlass_indexer::{IndexError, LayoutError};

use crate::resource::Resource;
use crate::transport::discovery::DiscoveryError;
use crate::transport::source::SelectionError;

/// Why there is no informer with these options.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InformerError {
    /// Two users of one informer want it in different layouts.
    #[error(
        "the informer of {resource} is {held}, and is now asked for as {wanted}: choose one of \
         them for all users of it, or give this one a transform or a selector of its own, which \
         makes it another informer"
    )]
    Layout {
        /// The resource.
        resource: Resource,
        /// The layout that it has.
        held: String,
        /// The layout that was asked for.
        wanted: String,
    },
    /// It is read as a type that its layout does not hold.
    #[error("the informer of {resource}: {error}")]
    Type {
        /// The resource.
        resource: Resource,
        /// The reason.
        error: LayoutError,
    },
    /// Something reads the bytes of objects, and the layout does not keep them.
    #[error(
        "the informer of {resource} is {held} and keeps no annotations, but {reader} reads them: \
         make the informer compact, or do without it"
    )]
    NoBytes {
        /// The resource.
        resource: Resource,
        /// The layout that it has.
        held: String,
        /// What reads them.
        reader: &'static str,
    },
    /// An index cannot be added.
    #[error("the informer of {resource}: {error}")]
    Index {
        /// The resource.
        resource: Resource,
        /// The reason.
        error: IndexError,
    },
    /// A namespace or a selector is invalid.
    #[error("the informer of {resource}: {error}")]
    Selection {
        /// The resource.
        resource: Resource,
        /// The reason.
        error: SelectionError,
    },
    /// The list of namespaces is empty.
    #[error(
        "the informer of {resource} was asked for with an empty list of namespaces: name some, or \
         do not call `namespaces` to have all"
    )]
    NoNamespaces {
        /// The resource.
        resource: Resource,
    },
    /// The server has no such kind, or does not answer.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The informer, or the factory, has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The informer has stopped, and does not start again: ask the factory for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped: ask the factory for it again")]
pub struct Stopped;

/// An informer that broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer of {resource} broke: {message}")]
pub struct InformerFailure {
    /// Its resource.
    pub resource: Resource,
    /// What happened.
    pub message: String,
}

/// Why a cache will not be complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSynced {
    /// It has stopped or broken.
    #[error("the informer of {resource} has stopped before its cache was complete")]
    Stopped {
        /// Its resource.
        resource: Resource,
    },
    /// It was not started.
    #[error(
        "the informer of {resource} was not started: call `start` again after asking for more \
         informers"
    )]
    NotStarted {
        /// Its resource.
        resource: Resource,
    },
}

impl NotSynced {
    /// The resource of the informer.
    pub fn resource(&self) -> &Resource {
        match self {
            Self::Stopped { resource } | Self::NotStarted { resource } => resource,
        }
    }
}
