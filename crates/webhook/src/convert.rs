//! Conversion between the versions of a kind, through a hub.
//!
//! One version is the hub, the others are spokes. Each spoke converts to the hub and back, so any
//! version becomes any other in at most two steps:
//!
//! ```text
//!   v1alpha1 ⇄ v2 (hub) ⇄ v1
//! ```
//!
//! Invariants: of `metadata`, only labels and annotations may change; everything else is copied
//! from the source, as the API server demands. No error message shows the content of an object.

pub(crate) mod keep;
mod metadata;
mod round_trip;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bounded::{self, DecodeError};
use crate::cut::cut;
use crate::serve::body::Shortage;
use crate::serve::memory::Memory;
use windlass_serve::LogLimit;

pub use round_trip::RoundTripError;

/// Why an object cannot be converted, in the words of a converter. The person who asked for the
/// object sees it, so it should not show what the object contains.
pub type ConvertError = Box<dyn std::error::Error + Send + Sync>;

/// Converts a spoke version to the hub, which implements this, and back.
///
/// Converters carry `metadata` over. They may change labels and annotations, and nothing else of
/// it.
///
/// The API server also converts parts of objects, for server-side apply. So every field of the
/// types should have a default (`#[serde(default)]`), or such a part does not decode; and a field
/// that is not there should not be written (`skip_serializing_if`), or its owner cannot remove it:
/// the part would have it again, with its default. `#[schemars(!default)]` keeps a field required
/// in the schema.
///
/// ```
/// # mod v1 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// #     #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
/// #     pub struct WebsiteSpec { #[serde(default)] pub host: String }
/// # }
/// # mod v2 {
/// #     use kube::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
/// #     #[kube(group = "example.com", version = "v2", kind = "Website", namespaced)]
/// #     pub struct WebsiteSpec { #[serde(default)] pub hosts: Vec<String> }
/// # }
/// use windlass_webhook::{Conversion, Convert, ConvertError};
///
/// impl Convert<v1::Website> for v2::Website {
///     fn from_spoke(spoke: v1::Website) -> Result<Self, ConvertError> {
///         let spec = v2::WebsiteSpec { hosts: vec![spoke.spec.host] };
///         Ok(Self { metadata: spoke.metadata, spec })
///     }
///
///     fn into_spoke(self) -> Result<v1::Website, ConvertError> {
///         let host = self.spec.hosts.into_iter().next().unwrap_or_default();
///         Ok(v1::Website { metadata: self.metadata, spec: v1::WebsiteSpec { host } })
///     }
/// }
///
/// let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
/// let spec = v2::WebsiteSpec { hosts: vec!["a".to_owned(), "b".to_owned()] };
/// let error = conversion.check_round_trip(&v2::Website::new("x", spec)).unwrap_err();
/// assert_eq!(error.to_string(), "v2 of Website loses spec.hosts[1] on its way through v1");
/// ```
pub trait Convert<Spoke>: Sized {
    /// The spoke as the hub.
    ///
    /// # Errors
    /// Returns an error if the spoke cannot be expressed in the hub.
    fn from_spoke(spoke: Spoke) -> Result<Self, ConvertError>;

    /// The hub as the spoke.
    ///
    /// # Errors
    /// Returns an error if the hub cannot be expressed in the spoke.
    fn into_spoke(self) -> Result<Spoke, ConvertError>;
}

/// The versions of one kind, and how they become each other.
#[must_use = "it is served when it is added to `Webhooks`"]
pub struct Conversion<Hub> {
    pub(crate) versions: Versions,
    hub: PhantomData<fn() -> Hub>,
}

/// The versions of one kind, without the type of the hub.
#[derive(Clone)]
pub(crate) struct Versions {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    hub: Version,
    spokes: Vec<Spoke>,
    keeps_unknown_fields: bool,
    log: Arc<LogLimit>,
}

type Step = fn(&Value, &mut Memory) -> Result<Value, Problem>;

#[derive(Clone)]
struct Version {
    name: String,
    /// Decodes the object into the type and encodes it again: unknown fields are gone, and defaults
    /// are filled in.
    through_type: Step,
}

#[derive(Clone)]
struct Spoke {
    version: Version,
    to_hub: Step,
    from_hub: Step,
}

/// Why an object was not converted. The messages show no content of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("it is not a {0}")]
    OtherKind(String),
    #[error("there is no version {0} of {1}")]
    UnknownVersion(String, String),
    #[error("it does not decode: {0}")]
    Decode(String),
    #[error("it cannot be written as JSON")]
    Encode,
    #[error(transparent)]
    Memory(#[from] Shortage),
    #[error("{0}")]
    Convert(ConvertError),
    #[error("the converter changes metadata.{0}, which must stay as it is")]
    Metadata(&'static str),
}

impl Conversion<()> {
    /// The conversion of a kind whose hub is this type. Choose the version that can express the
    /// most; it need not be the one that is stored.
    pub fn hub<Hub>() -> Conversion<Hub>
    where
        Hub: Resource<DynamicType = ()> + DeserializeOwned + Serialize + 'static,
    {
        let ApiResource { group, kind, version, plural, .. } = ApiResource::erase::<Hub>(&());
        let hub = Version { name: version, through_type: through_type::<Hub> };
        let (spokes, keeps_unknown_fields) = (Vec::new(), false);
        let log = Arc::default();
        let versions = Versions { group, kind, plural, hub, spokes, keeps_unknown_fields, log };
        Conversion { versions, hub: PhantomData }
    }
}

impl<Hub> Conversion<Hub>
where
    Hub: Resource<DynamicType = ()> + DeserializeOwned + Serialize + 'static,
{
    /// Adds a version.
    ///
    /// # Panics
    /// Panics if the type has another group or kind than the hub, or a version that is there
    /// already: that is a mistake in the code.
    pub fn spoke<Spoked>(mut self) -> Self
    where
        Spoked: Resource<DynamicType = ()> + DeserializeOwned + Serialize + 'static,
        Hub: Convert<Spoked>,
    {
        let ApiResource { group, kind, version, .. } = ApiResource::erase::<Spoked>(&());
        let versions = &mut self.versions;
        assert!(
            group == versions.group && kind == versions.kind,
            "{kind}.{group} must be a version of {}.{}",
            versions.kind,
            versions.group
        );
        assert!(!versions.names().any(|name| name == version), "there must be one {version}");
        versions.spokes.push(Spoke {
            version: Version { name: version, through_type: through_type::<Spoked> },
            to_hub: to_hub::<Hub, Spoked>,
            from_hub: from_hub::<Hub, Spoked>,
        });
        self
    }

    /// Keeps what a version cannot express in an annotation, and restores it. Default: off.
    ///
    /// If an object loses fields on its way to another version and back, because that version or
    /// the types here do not know them, then its top-level fields that lose something (such as all
    /// of `spec`) are added to the converted object, as the annotation
    /// `kept-fields.windlass.dev/VERSION`. On the way back, changes that were made in the meantime
    /// are applied to them, at any depth and inside list elements, and the annotation is removed.
    ///
    /// Annotations are bounded: if more than 128 KiB would have to be kept, nothing is, and a
    /// warning is logged. A client that replaces all annotations loses what is kept.
    ///
    /// `status` is not kept. Whoever may write an object may also write the annotation, but not its
    /// status, and could forge it that way. So a write in a version that cannot express a field of
    /// the status removes this field until a controller writes the status again. Give all versions
    /// the same status, or convert it without a loss.
    ///
    /// The API server does not validate restored fields by a schema, because it validates an object
    /// in the version in which it was sent. A validating webhook for the hub does see them.
    pub fn keep_unknown_fields(mut self) -> Self {
        self.versions.keeps_unknown_fields = true;
        self
    }

    /// Converts an object, as the webhook does.
    ///
    /// # Errors
    /// Returns an error if the object is not one of this kind and its versions, does not decode, or
    /// cannot be converted.
    pub fn convert(&self, object: &Value, version: &str) -> Result<Value, ConvertError> {
        Ok(self.versions.convert(object, version, &mut Memory::unbounded())?)
    }

    /// Checks that an object of any version comes back unchanged from every other version:
    /// spoke → hub → spoke, hub → spoke → hub, and from one spoke to another and back.
    ///
    /// In a test, give it many: `check_round_trips`, or a `proptest` of your types.
    ///
    /// # Errors
    /// Returns an error that names the versions and the first field that differs. `null` and no
    /// field are the same.
    pub fn check_round_trip<K>(&self, object: &K) -> Result<(), RoundTripError>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let mut object = serde_json::to_value(object)
            .map_err(|_| RoundTripError::failed(&K::version(&()), "", &Problem::Encode))?;
        let api_version = K::api_version(&());
        set_type(&mut object, &api_version, &K::kind(&()));
        self.versions.check_round_trip(&object)
    }

    /// Checks raw objects as [`check_round_trip`](Self::check_round_trip) does, and that there is
    /// at least one of every version. Fields that no type knows must come back as well, which needs
    /// [`keep_unknown_fields`](Self::keep_unknown_fields).
    ///
    /// # Errors
    /// Returns an error that names the versions and the first field that differs, or the version of
    /// which there was no object.
    pub fn check_round_trips(
        &self,
        objects: impl IntoIterator<Item = Value>,
    ) -> Result<(), RoundTripError> {
        self.versions.check_round_trips(objects)
    }
}

impl<Hub> Clone for Conversion<Hub> {
    fn clone(&self) -> Self {
        Self { versions: self.versions.clone(), hub: PhantomData }
    }
}

impl<Hub> fmt::Debug for Conversion<Hub> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Conversion").field(&self.versions).finish()
    }
}

impl Versions {
    /// The names of all versions, the hub first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let spokes = self.spokes.iter().map(|spoke| spoke.version.name.as_str());
        std::iter::once(self.hub.name.as_str()).chain(spokes)
    }

    /// The object in another version. `memory` is what its types take.
    pub(crate) fn convert(
        &self,
        object: &Value,
        to: &str,
        memory: &mut Memory,
    ) -> Result<Value, Problem> {
        let from = self.version_of(object)?;
        if from == to {
            return Ok(object.clone());
        }
        let mut source = object.clone();
        // For server-side apply, the API server also converts objects without these; the types
        // need both.
        if let Some(source) = source.as_object_mut() {
            for field in ["metadata", "spec"] {
                source.entry(field).or_insert_with(|| Value::Object(Map::new()));
            }
        }
        let mut converted = if self.keeps_unknown_fields {
            keep::convert(self, source, from, to, memory)?
        } else {
            self.step(&source, from, to, memory)?
        };
        // A `spec` that the source did not have is not returned.
        let has_empty_spec = object.get("spec").is_none() && is_empty(&converted["spec"]);
        if has_empty_spec && let Some(converted) = converted.as_object_mut() {
            converted.remove("spec");
        }
        Ok(converted)
    }

    /// Converts by the types, and carries the metadata over.
    fn step(
        &self,
        source: &Value,
        from: &str,
        to: &str,
        memory: &mut Memory,
    ) -> Result<Value, Problem> {
        let unknown = |version: &str| {
            Problem::UnknownVersion(cut(version).to_owned(), qualified(&self.kind, &self.group))
        };
        let spoke = |version: &str| self.spokes.iter().find(|spoke| spoke.version.name == version);
        let at_hub = if from == self.hub.name {
            source.clone()
        } else {
            let to_hub = spoke(from).ok_or_else(|| unknown(from))?.to_hub;
            self.finish(to_hub(source, memory)?, &self.hub.name)
        };
        let mut converted = if to == self.hub.name {
            at_hub
        } else {
            let from_hub = spoke(to).ok_or_else(|| unknown(to))?.from_hub;
            self.finish(from_hub(&at_hub, memory)?, to)
        };
        metadata::carry_over(source, &mut converted)?;
        Ok(converted)
    }

    /// The object, decoded into the type of its version and encoded again.
    fn through_type(&self, object: &Value, version: &str) -> Result<Value, Problem> {
        let spokes = self.spokes.iter().map(|spoke| &spoke.version);
        let mut versions = std::iter::once(&self.hub).chain(spokes);
        let version = versions.find(|known| known.name == version);
        let version = version.expect("a version that was converted from must be known");
        (version.through_type)(object, &mut Memory::unbounded())
    }

    /// The version of an object of this kind.
    fn version_of<'a>(&self, object: &'a Value) -> Result<&'a str, Problem> {
        let field = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = group_version(field("apiVersion"));
        if group != self.group || field("kind") != self.kind {
            return Err(Problem::OtherKind(qualified(&self.kind, &self.group)));
        }
        if !self.names().any(|name| name == version) {
            let kind = qualified(&self.kind, &self.group);
            return Err(Problem::UnknownVersion(cut(version).to_owned(), kind));
        }
        Ok(version)
    }

    /// Types need not write `apiVersion` and `kind`, and could write others.
    fn finish(&self, mut object: Value, version: &str) -> Value {
        let api_version = if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        };
        set_type(&mut object, &api_version, &self.kind);
        object
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions")
            .field("kind", &qualified(&self.kind, &self.group))
            .field("versions", &self.names().collect::<Vec<_>>())
            .field("keeps_unknown_fields", &self.keeps_unknown_fields)
            .finish_non_exhaustive()
    }
}

/// `example.com/v1` as group and version.
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// `Website.example.com`.
pub(crate) fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), Value::from(api_version));
        object.insert("kind".to_owned(), Value::from(kind));
    }
}

fn decoded<K: DeserializeOwned>(object: &Value, memory: &mut Memory) -> Result<K, Problem> {
    bounded::decode(object, memory).map_err(|error| match error {
        DecodeError::Memory(shortage) => Problem::Memory(shortage),
        DecodeError::Invalid(problem) => Problem::Decode(problem),
    })
}

/// The object as JSON. It may be larger than it came, if the type writes its defaults.
fn encoded<K: Serialize>(object: &K, memory: &mut Memory) -> Result<Value, Problem> {
    let measured = windlass_nesting::measure_written(object).map_err(|_| Problem::Encode)?;
    memory.take_copy(measured.memory)?;
    serde_json::to_value(object).map_err(|_| Problem::Encode)
}

fn through_type<K: DeserializeOwned + Serialize>(
    object: &Value,
    memory: &mut Memory,
) -> Result<Value, Problem> {
    let mut typed = memory.part()?;
    encoded(&decoded::<K>(object, &mut typed)?, memory)
}

fn to_hub<Hub, Spoked>(object: &Value, memory: &mut Memory) -> Result<Value, Problem>
where
    Hub: Convert<Spoked> + Serialize,
    Spoked: DeserializeOwned,
{
    let mut typed = memory.part()?;
    let hub = Hub::from_spoke(decoded(object, &mut typed)?).map_err(Problem::Convert)?;
    encoded(&hub, memory)
}

fn from_hub<Hub, Spoked>(object: &Value, memory: &mut Memory) -> Result<Value, Problem>
where
    Hub: Convert<Spoked> + DeserializeOwned,
    Spoked: Serialize,
{
    let mut typed = memory.part()?;
    let spoke = decoded::<Hub>(object, &mut typed)?.into_spoke().map_err(Problem::Convert)?;
    encoded(&spoke, memory)
}
