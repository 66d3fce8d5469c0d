//! Reads heads from JSON bytes.
//!
//! The first pass splits the object and its metadata into members with undecoded values. Then each
//! field of the head is decoded from its member. A field with the wrong shape does not end this,
//! and the members before a syntax error are used too: an error that names the object is worth more
//! than one that does not. A syntax error after the metadata is ignored here: whoever decodes the
//! object gets it. No error shows anything of an object but its key.

mod error;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use error::{HeadError, HeadProblem};

use crate::head::Head;
use crate::interner::{Interner, Pools};
use crate::key::ObjectKey;
use crate::owner::{Owner, OwnersAndFinalizers};
use crate::version::{ResourceVersion, Uid};

/// Makes heads. Those of one parser and its clones share texts.
///
/// ```
/// use windlass_indexer::HeadParser;
///
/// let parser = HeadParser::default();
/// let head = parser.parse(br#"{"metadata":{"name":"web","labels":{"app":"web"}}}"#)?;
/// assert_eq!(head.key().to_string(), "web");
/// assert_eq!(head.labels().get("app"), Some("web"));
/// # Ok::<(), windlass_indexer::HeadError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeadParser {
    interner: Interner,
}

/// The members of an object and of its metadata.
#[derive(Default)]
struct Fields<'a> {
    object: Members<'a>,
    metadata: Option<Members<'a>>,
    /// Whether the metadata was read to its end.
    is_metadata_complete: bool,
    /// The first problem.
    problem: Option<HeadProblem>,
}

/// Undecoded values by key. Of two members with the same key, the last one counts.
type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Collects the members of an object. If `metadata` is given, those of the member `metadata` go
/// there, and whether they are complete.
struct Collect<'m, 'a> {
    members: &'m mut Members<'a>,
    metadata: Option<(&'m mut Option<Members<'a>>, &'m mut bool)>,
}

/// A string. It is a part of the object's bytes, unless it has escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// One owner reference.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerFields<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    kind: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

/// Hashes annotations. One for the process, because hashes of different heads are compared.
/// Randomly seeded, because tenants choose annotations: they could choose ones with the same hash
/// as the ones before, and so hide a change.
static ANNOTATIONS: LazyLock<RandomState> = LazyLock::new(RandomState::default);

const TIME: &str = "an RFC 3339 time";
const STRING_MAP: &str = "an object whose values are strings";
const OWNERS: &str = "an array of objects with apiVersion, kind, name and uid";

impl HeadParser {
    /// A parser whose heads share texts with those of `interner`.
    pub(crate) fn new(interner: Interner) -> Self {
        Self { interner }
    }

    /// Reads the head of the object in `bytes`.
    ///
    /// # Errors
    /// If `bytes` is not a JSON object, if a field of the metadata has the wrong shape, or if there
    /// is no name. Uid and resource version may be missing: objects that the server computes on
    /// request have none.
    pub fn parse(&self, bytes: &[u8]) -> Result<Head, HeadError> {
        let mut fields = Fields::collect(bytes);
        let name = fields.text("metadata.name");
        let namespace = fields.text("metadata.namespace");
        let uid = fields.text("metadata.uid");
        let resource_version = fields.text("metadata.resourceVersion");
        let api_version = fields.text("apiVersion");
        let kind = fields.text("kind");
        let generation = fields.read("metadata.generation", "a whole number");
        let creation_timestamp: Option<Timestamp> = fields.read("metadata.creationTimestamp", TIME);
        let deletion_timestamp: Option<Timestamp> = fields.read("metadata.deletionTimestamp", TIME);
        let annotations = fields.string_map("metadata.annotations");
        let labels = fields.string_map("metadata.labels");
        let owners: Option<Vec<OwnerFields<'_>>> = fields.read("metadata.ownerReferences", OWNERS);
        let finalizers: Option<Vec<Text<'_>>> =
            fields.read("metadata.finalizers", "an array of strings");

        let pools = &mut *self.interner.lock();
        let namespace = namespace.map(|text| pools.text(&text));
        let key = name.map(|name| ObjectKey::new(namespace, &name));
        let key = match (fields.problem, key) {
            (None, Some(key)) => key,
            (problem, key) => {
                let missing = HeadProblem::Missing { field: "metadata.name" };
                return Err(HeadError::new(key, problem.unwrap_or(missing)));
            }
        };
        let labels = labels.iter().map(|(key, value)| (pools.text(&key.0), pools.text(&value.0)));
        let labels = labels.collect();
        let owners = owners.iter().flatten().map(|owner| owner.intern(pools)).collect();
        let finalizers = finalizers.iter().flatten().map(|text| pools.text(&text.0)).collect();
        Ok(Head {
            key,
            uid: Uid::new(&uid.unwrap_or_default()),
            resource_version: ResourceVersion::new(&resource_version.unwrap_or_default()),
            api_version: api_version.map(|text| pools.text(&text)),
            kind: kind.map(|text| pools.text(&text)),
            generation,
            creation_timestamp: creation_timestamp.map(Timestamp::as_second),
            deletion_timestamp: deletion_timestamp.map(Timestamp::as_second),
            annotations_hash: ANNOTATIONS.hash_one(annotations),
            labels: pools.labels(labels),
            owners_and_finalizers: pools.owners(OwnersAndFinalizers { owners, finalizers }),
        })
    }

    /// Gives a head its type. The items of a list do not contain it.
    pub fn set_type(&self, head: &mut Head, api_version: &str, kind: &str) {
        let pools = &mut *self.interner.lock();
        head.api_version = Some(pools.text(api_version));
        head.kind = Some(pools.text(kind));
    }
}

impl<'a> Fields<'a> {
    fn collect(bytes: &'a [u8]) -> Self {
        let mut fields = Self::default();
        let Self { object, metadata, is_metadata_complete, .. } = &mut fields;
        let collect = Collect { members: object, metadata: Some((metadata, is_metadata_complete)) };
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let read = collect.deserialize(&mut json).and_then(|()| json.end());
        fields.problem = match read {
            Ok(()) if fields.metadata.is_none() => Some(HeadProblem::Missing { field: "metadata" }),
            Ok(()) => None,
            Err(error) if error.is_data() && fields.metadata.is_some() => {
                Some(HeadProblem::Shape { field: "metadata", expected: "an object" })
            }
            Err(_) if fields.is_metadata_complete => None,
            Err(error) => Some(HeadProblem::Syntax { line: error.line(), column: error.column() }),
        };
        fields
    }

    /// Decodes a field; `null` means that it is missing. If it has the wrong shape, notes the
    /// problem.
    fn read<T: Deserialize<'a>>(
        &mut self,
        field: &'static str,
        expected: &'static str,
    ) -> Option<T> {
        let value = match field.strip_prefix("metadata.") {
            Some(name) => self.metadata.as_ref()?.get(name)?,
            None => self.object.get(field)?,
        };
        serde_json::from_str(value.get()).unwrap_or_else(|_| {
            self.problem.get_or_insert(HeadProblem::Shape { field, expected });
            None
        })
    }

    /// Decodes a string. An empty one means none, as everywhere in Kubernetes.
    fn text(&mut self, field: &'static str) -> Option<Cow<'a, str>> {
        let Text(text) = self.read(field, "a string")?;
        (!text.is_empty()).then_some(text)
    }

    fn string_map(&mut self, field: &'static str) -> BTreeMap<Text<'a>, Text<'a>> {
        self.read(field, STRING_MAP).unwrap_or_default()
    }
}

impl OwnerFields<'_> {
    fn intern(&self, pools: &mut Pools) -> Owner {
        Owner {
            api_version: pools.text(&self.api_version.0),
            kind: pools.text(&self.kind.0),
            name: pools.text(&self.name.0),
            uid: Uid::new(&self.uid.0),
            controller: self.controller == Some(true),
            block_owner_deletion: self.block_owner_deletion == Some(true),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Collect<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Collect<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            match &mut self.metadata {
                Some((metadata, is_complete)) if key == "metadata" => {
                    let members = metadata.insert(Members::new());
                    map.next_value_seed(Collect { members, metadata: None })?;
                    **is_complete = true;
                }
                _ => drop(self.members.insert(key, map.next_value()?)),
            }
        }
        Ok(())
    }
}
