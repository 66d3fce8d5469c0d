//! Reads heads from JSON bytes.
//!
//! One pass over the bytes, which ends as soon as the type and the metadata are read. A list of a
//! built-in kind omits the type of its items; then the pass skips over the rest of the object. What
//! follows the metadata is not checked here: whoever cut the object out of a stream knows that it
//! is complete, and decoding it checks the rest.
//!
//! A field with the wrong shape does not end the pass. The name of an object comes late, and an
//! error that names the object is worth more. No error shows anything of an object but its key.

mod cursor;
mod error;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use jiff::Timestamp;

pub use error::{HeadError, HeadProblem};

use cursor::{Broken, Cursor, Raw};

use crate::head::Head;
use crate::interner::{Interner, Pools};
use crate::key::ObjectKey;
use crate::owner::{Owner, OwnersAndFinalizers};
use crate::version::{ResourceVersion, Uid};

/// Makes heads.
///
/// ```
/// use windlass_indexer::{HeadParser, Interner};
///
/// let parser = HeadParser::new(Interner::new());
/// let head = parser.parse(br#"{"metadata":{"name":"web","labels":{"app":"web"}}}"#)?;
/// assert_eq!(head.key().to_string(), "web");
/// assert_eq!(head.labels().get("app"), Some("web"));
/// # Ok::<(), windlass_indexer::HeadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeadParser {
    interner: Interner,
}

/// What was read of an object so far. `None` for what is missing or `null`.
#[derive(Default)]
struct Fields<'a> {
    has_metadata: bool,
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    uid: Option<Text<'a>>,
    resource_version: Option<Text<'a>>,
    generation: Option<i64>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    annotations_hash: u64,
    labels: BTreeMap<Text<'a>, Text<'a>>,
    owner_references: Vec<OwnerFields<'a>>,
    finalizers: Vec<Text<'a>>,
    /// The first problem of a field.
    problem: Option<HeadProblem>,
}

/// One owner reference, all of whose texts are required.
struct OwnerFields<'a> {
    api_version: Text<'a>,
    kind: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
    controller: bool,
    block_owner_deletion: bool,
}

/// A part of the object's bytes, or a copy of it if it has escapes.
type Text<'a> = Cow<'a, str>;

/// Why a field was not read.
enum Refused {
    Broken(Broken),
    Shape(&'static str),
}

/// Hashes annotations. One for the process, because hashes of different heads are compared.
/// Randomly seeded, because tenants choose annotations: they could choose ones with the same hash
/// as the ones before, and so hide a change.
static ANNOTATIONS: LazyLock<RandomState> = LazyLock::new(RandomState::default);

const STRING: &str = "a string";
const STRINGS: &str = "an array of strings";
const STRING_MAP: &str = "an object whose values are strings";
const OWNERS: &str = "an array of objects with apiVersion, kind, name and uid";

impl HeadParser {
    /// Creates a parser that puts shared texts into `interner`.
    pub fn new(interner: Interner) -> Self {
        Self { interner }
    }

    /// Reads the head of the object in `bytes`.
    ///
    /// # Errors
    /// If `bytes` is not a JSON object, if a field of the metadata has the wrong shape, or if there
    /// is no name. Uid and resource version may be missing: objects that the server computes on
    /// request have none.
    pub fn parse(&self, bytes: &[u8]) -> Result<Head, HeadError> {
        let mut fields = Fields::default();
        let read = fields.object(&mut Cursor::new(bytes));
        let pools = &mut *self.interner.lock();
        let key = fields.key(pools);
        let problem = match read {
            Err(Broken { at }) => Some(HeadProblem::Syntax { offset: at }),
            Ok(()) => fields.problem.take().or_else(|| {
                let missing = HeadProblem::Missing { field: "metadata" };
                (!fields.has_metadata).then_some(missing)
            }),
        };
        match (problem, key) {
            (None, Some(key)) => Ok(fields.into_head(key, pools)),
            (problem, key) => {
                let missing = HeadProblem::Missing { field: "metadata.name" };
                Err(HeadError::new(key, problem.unwrap_or(missing)))
            }
        }
    }
}

impl<'a> Fields<'a> {
    fn object(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Broken> {
        cursor.expect(b'{')?;
        let mut is_first = true;
        while let Some(key) = cursor.next_key(&mut is_first)? {
            match &*key.text().unwrap_or_default() {
                "apiVersion" => self.api_version = self.field("apiVersion", cursor, text)?,
                "kind" => self.kind = self.field("kind", cursor, text)?,
                "metadata" => self.metadata(cursor)?,
                _ => cursor.skip()?,
            }
            if self.has_metadata && self.kind.is_some() && self.api_version.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn metadata(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Broken> {
        self.has_metadata = true;
        if !cursor.take(b'{')? {
            let problem = HeadProblem::Shape { field: "metadata", expected: "an object" };
            self.problem.get_or_insert(problem);
            return cursor.skip();
        }
        let mut is_first = true;
        while let Some(key) = cursor.next_key(&mut is_first)? {
            match &*key.text().unwrap_or_default() {
                "name" => self.name = self.field("metadata.name", cursor, text)?,
                "namespace" => self.namespace = self.field("metadata.namespace", cursor, text)?,
                "uid" => self.uid = self.field("metadata.uid", cursor, text)?,
                "resourceVersion" => {
                    self.resource_version = self.field("metadata.resourceVersion", cursor, text)?;
                }
                "generation" => {
                    self.generation = self.field("metadata.generation", cursor, number)?;
                }
                "creationTimestamp" => {
                    self.creation_timestamp =
                        self.field("metadata.creationTimestamp", cursor, time)?;
                }
                "deletionTimestamp" => {
                    self.deletion_timestamp =
                        self.field("metadata.deletionTimestamp", cursor, time)?;
                }
                "labels" => self.labels = self.field("metadata.labels", cursor, labels)?,
                "annotations" => {
                    self.annotations_hash =
                        self.field("metadata.annotations", cursor, annotations_hash)?;
                }
                "ownerReferences" => {
                    self.owner_references =
                        self.field("metadata.ownerReferences", cursor, owner_references)?;
                }
                "finalizers" => {
                    self.finalizers = self.field("metadata.finalizers", cursor, finalizers)?;
                }
                _ => cursor.skip()?,
            }
        }
        Ok(())
    }

    /// Reads a field; `null` means that it is missing. If it has the wrong shape, notes the problem
    /// and skips it.
    fn field<T: Default>(
        &mut self,
        field: &'static str,
        cursor: &mut Cursor<'a>,
        read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Refused>,
    ) -> Result<T, Broken> {
        let start = *cursor;
        if cursor.peek()? == b'n' && cursor.word()? == b"null" {
            return Ok(T::default());
        }
        *cursor = start;
        match read(cursor) {
            Ok(value) => Ok(value),
            Err(Refused::Broken(broken)) => Err(broken),
            Err(Refused::Shape(expected)) => {
                self.problem.get_or_insert(HeadProblem::Shape { field, expected });
                *cursor = start;
                cursor.skip()?;
                Ok(T::default())
            }
        }
    }

    /// The object's key, if it has a name.
    fn key(&self, pools: &mut Pools) -> Option<ObjectKey> {
        let name = non_empty(self.name.as_ref())?;
        let namespace = non_empty(self.namespace.as_ref()).map(|text| pools.text(text));
        Some(ObjectKey::new(namespace, name))
    }

    fn into_head(self, key: ObjectKey, pools: &mut Pools) -> Head {
        let labels = self.labels.iter().map(|(key, value)| (pools.text(key), pools.text(value)));
        let labels = labels.collect();
        let owners = self.owner_references.iter().map(|owner| owner.intern(pools)).collect();
        let finalizers = self.finalizers.iter().map(|text| pools.text(text)).collect();
        let owners_and_finalizers = OwnersAndFinalizers { owners, finalizers };
        Head {
            key,
            uid: Uid::new(self.uid.as_deref().unwrap_or_default()),
            resource_version: ResourceVersion::new(
                self.resource_version.as_deref().unwrap_or_default(),
            ),
            api_version: non_empty(self.api_version.as_ref()).map(|text| pools.text(text)),
            kind: non_empty(self.kind.as_ref()).map(|text| pools.text(text)),
            generation: self.generation,
            creation_timestamp: self.creation_timestamp.into(),
            deletion_timestamp: self.deletion_timestamp.into(),
            annotations_hash: self.annotations_hash,
            labels: pools.labels(labels),
            owners_and_finalizers: (!owners_and_finalizers.is_empty())
                .then(|| pools.owners(owners_and_finalizers)),
        }
    }
}

impl OwnerFields<'_> {
    fn intern(&self, pools: &mut Pools) -> Owner {
        Owner {
            api_version: pools.text(&self.api_version),
            kind: pools.text(&self.kind),
            name: pools.text(&self.name),
            uid: Uid::new(&self.uid),
            controller: self.controller,
            block_owner_deletion: self.block_owner_deletion,
        }
    }
}

/// An empty text means none, as everywhere in Kubernetes.
fn non_empty<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(|text| &**text).filter(|text| !text.is_empty())
}

fn text<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Text<'a>>, Refused> {
    required_text(cursor, STRING).map(Some)
}

fn required_text<'a>(cursor: &mut Cursor<'a>, expected: &'static str) -> Result<Text<'a>, Refused> {
    string(cursor, expected)?.text().ok_or(Refused::Shape(expected))
}

fn number(cursor: &mut Cursor<'_>) -> Result<Option<i64>, Refused> {
    let number = std::str::from_utf8(cursor.word()?).ok().and_then(|word| word.parse().ok());
    number.map(Some).ok_or(Refused::Shape("a whole number"))
}

fn time(cursor: &mut Cursor<'_>) -> Result<Option<Timestamp>, Refused> {
    let time = text(cursor)?.and_then(|text| text.parse().ok());
    time.map(Some).ok_or(Refused::Shape("an RFC 3339 time"))
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool, Refused> {
    match cursor.word()? {
        b"true" => Ok(true),
        b"false" | b"null" => Ok(false),
        _ => Err(Refused::Shape("owner references whose flags are true or false")),
    }
}

fn labels<'a>(cursor: &mut Cursor<'a>) -> Result<BTreeMap<Text<'a>, Text<'a>>, Refused> {
    let mut labels = BTreeMap::new();
    string_map(cursor, |key, value| {
        let text = |raw: Raw<'a>| raw.text().ok_or(Refused::Shape(STRING_MAP));
        labels.insert(text(key)?, text(value)?);
        Ok(())
    })?;
    Ok(labels)
}

fn annotations_hash(cursor: &mut Cursor<'_>) -> Result<u64, Refused> {
    // A sum does not depend on the order.
    let mut sum = 0_u64;
    string_map(cursor, |key, value| {
        sum = sum.wrapping_add(ANNOTATIONS.hash_one((key.bytes, value.bytes)));
        Ok(())
    })?;
    Ok(sum)
}

fn finalizers<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Text<'a>>, Refused> {
    array(cursor, STRINGS, |cursor| required_text(cursor, STRINGS))
}

fn owner_references<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<OwnerFields<'a>>, Refused> {
    array(cursor, OWNERS, owner_reference)
}

fn owner_reference<'a>(cursor: &mut Cursor<'a>) -> Result<OwnerFields<'a>, Refused> {
    if !cursor.take(b'{')? {
        return Err(Refused::Shape(OWNERS));
    }
    let (mut api_version, mut kind, mut name, mut uid) = (None, None, None, None);
    let (mut controller, mut block_owner_deletion) = (false, false);
    let mut is_first = true;
    while let Some(key) = cursor.next_key(&mut is_first)? {
        match &*key.text().unwrap_or_default() {
            "apiVersion" => api_version = Some(required_text(cursor, OWNERS)?),
            "kind" => kind = Some(required_text(cursor, OWNERS)?),
            "name" => name = Some(required_text(cursor, OWNERS)?),
            "uid" => uid = Some(required_text(cursor, OWNERS)?),
            "controller" => controller = flag(cursor)?,
            "blockOwnerDeletion" => block_owner_deletion = flag(cursor)?,
            _ => cursor.skip()?,
        }
    }
    let (Some(api_version), Some(kind), Some(name), Some(uid)) = (api_version, kind, name, uid)
    else {
        return Err(Refused::Shape(OWNERS));
    };
    Ok(OwnerFields { api_version, kind, name, uid, controller, block_owner_deletion })
}

fn string<'a>(cursor: &mut Cursor<'a>, expected: &'static str) -> Result<Raw<'a>, Refused> {
    if cursor.peek()? == b'"' { Ok(cursor.string()?) } else { Err(Refused::Shape(expected)) }
}

/// Reads an object whose values are strings.
fn string_map<'a>(
    cursor: &mut Cursor<'a>,
    mut read: impl FnMut(Raw<'a>, Raw<'a>) -> Result<(), Refused>,
) -> Result<(), Refused> {
    if !cursor.take(b'{')? {
        return Err(Refused::Shape(STRING_MAP));
    }
    let mut is_first = true;
    while let Some(key) = cursor.next_key(&mut is_first)? {
        read(key, string(cursor, STRING_MAP)?)?;
    }
    Ok(())
}

/// Reads an array.
fn array<'a, T>(
    cursor: &mut Cursor<'a>,
    expected: &'static str,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, Refused>,
) -> Result<Vec<T>, Refused> {
    if !cursor.take(b'[')? {
        return Err(Refused::Shape(expected));
    }
    let (mut items, mut is_first) = (Vec::new(), true);
    while cursor.next_item(&mut is_first)? {
        items.push(read(cursor)?);
    }
    Ok(items)
}

impl From<Broken> for Refused {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}
