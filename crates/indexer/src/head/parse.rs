//! Heads from bytes: one pass, which ends as soon as the type and the metadata are read.
//!
//! A list of a built-in kind omits the type of its items, and then the pass goes on to the end, skipping. What
//! stands behind the metadata is not checked here: the one who cut the object out of a stream knows that it is
//! whole, and the one who decodes it learns the rest.
//!
//! A field of the wrong shape does not end the pass, because the name comes late in an object, and an error
//! that says which object it is about is worth more. No error carries anything of an object but its key.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use jiff::Timestamp;

use super::cursor::{Broken, Cursor, Raw};
use super::error::{HeadError, HeadProblem};
use super::packed::Packed;
use super::ties::{Owner, Ties};
use super::{Head, Kind, NONE, Seconds};
use crate::interner::{Interner, Interning, Symbol};
use crate::key::ObjectKey;
use crate::version::{ResourceVersion, Uid};

/// Makes heads. It keeps its buffers, so that a head costs no allocation but its own.
///
/// ```
/// use windlass_indexer::{HeadParser, Interner};
///
/// let mut parser = HeadParser::new(Interner::new());
/// let head = parser.parse(br#"{"metadata":{"name":"web","namespace":"default","labels":{"app":"web"}}}"#)?;
/// assert_eq!(head.key().to_string(), "default/web");
/// assert_eq!(head.labels().get("app"), Some("web"));
/// # Ok::<(), windlass_indexer::HeadError>(())
/// ```
#[derive(Debug)]
pub struct HeadParser {
    interner: Interner,
    scratch: Scratch,
}

/// What has been read of an object so far; its buffers outlive it.
#[derive(Debug, Default)]
struct Scratch {
    found: Found,
    /// Empty if there is none.
    name: String,
    /// What labels and finalizers are spans of.
    text: String,
    labels: Vec<Label>,
    owners: Vec<Owner>,
    finalizers: Vec<Span>,
    /// Where texts are joined.
    joined: String,
}

type Span = Range<usize>;

#[derive(Debug)]
struct Label {
    key: Span,
    value: Span,
}

#[derive(Debug, Default)]
struct Found {
    kind: Option<Kind>,
    has_metadata: bool,
    namespace: Option<Symbol>,
    uid: Option<Uid>,
    version: Option<ResourceVersion>,
    generation: Option<i64>,
    created: Option<Timestamp>,
    deleted: Option<Timestamp>,
    annotations_hash: u64,
    labels: Packed,
    ties: Option<Arc<Ties>>,
    /// The first one counts.
    problem: Option<HeadProblem>,
}

/// Why a field was not read.
enum Refused {
    Broken(Broken),
    Shape(&'static str),
    TooLarge,
}

/// One for the process, because hashes of different heads are compared. Seeded at random: tenants
/// choose annotations, and could choose ones that hash as those before, and so hide a change.
static ANNOTATIONS: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The texts of a head are counted in 32 bits.
const TEXT_MAX: usize = u32::MAX as usize;

const TEXT: &str = "a string";
const TEXTS: &str = "an object whose values are strings";
const TIME: &str = "an RFC 3339 time";

impl HeadParser {
    /// Shared texts go to `interner`.
    pub fn new(interner: Interner) -> Self {
        Self { interner, scratch: Scratch::default() }
    }

    /// The head of the object in `bytes`.
    ///
    /// # Errors
    /// If `bytes` is no JSON object, if a field of the metadata does not have its form, or if there is no
    /// name. Uid and version may be missing: objects that are computed when asked for have none.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Head, HeadError> {
        self.scratch.clear();
        // Locked once, not for every text; unlocked at the end of this statement.
        let read = Reading { scratch: &mut self.scratch, interner: self.interner.lock() }
            .object(&mut Cursor::new(bytes));
        let problem = match read {
            Ok(()) => self.scratch.problem(),
            Err(Broken { at }) => Some(HeadProblem::Syntax { offset: at }),
        };
        match (problem, self.scratch.key()) {
            (None, Some(key)) => Ok(self.scratch.head(key)),
            (problem, key) => {
                let missing = HeadProblem::Missing { field: "metadata.name" };
                Err(HeadError::new(key, problem.unwrap_or(missing)))
            }
        }
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.found = Found::default();
        self.name.clear();
        self.text.clear();
        self.labels.clear();
        self.owners.clear();
        self.finalizers.clear();
    }

    fn problem(&mut self) -> Option<HeadProblem> {
        let missing = HeadProblem::Missing { field: "metadata" };
        self.found.problem.take().or((!self.found.has_metadata).then_some(missing))
    }

    fn key(&self) -> Option<ObjectKey> {
        let namespace = &self.found.namespace;
        (!self.name.is_empty()).then(|| ObjectKey::new(namespace.clone(), &self.name))
    }

    fn head(&mut self, key: ObjectKey) -> Head {
        let found = std::mem::take(&mut self.found);
        Head {
            key,
            uid: found.uid.unwrap_or_else(|| Uid::new("")),
            version: found.version.unwrap_or_else(|| ResourceVersion::new("")),
            kind: found.kind,
            generation: found.generation.unwrap_or(NONE),
            created: found.created.into(),
            deleted: found.deleted.into(),
            annotations_hash: found.annotations_hash,
            labels: found.labels,
            ties: found.ties,
        }
    }

    fn keep(&mut self, text: &str) -> Result<Span, Refused> {
        let start = self.text.len();
        if start + text.len() > TEXT_MAX {
            return Err(Refused::TooLarge);
        }
        self.text.push_str(text);
        Ok(start..self.text.len())
    }

    /// Puts labels into their order.
    fn sort_labels(&mut self) {
        let Self { labels, text, .. } = self;
        let key = |label: &Label| &text[label.key.clone()];
        // The server sends them in order; whoever else made the bytes may not have.
        if !labels.is_sorted_by(|one, two| key(one) < key(two)) {
            labels.sort_by(|one, two| key(one).cmp(key(two)));
            // Of two with the same key the later counts, as in every JSON reader.
            labels.reverse();
            labels.dedup_by(|one, two| key(one) == key(two));
            labels.reverse();
        }
    }
}

/// The pass over one object.
struct Reading<'s> {
    scratch: &'s mut Scratch,
    interner: Interning<'s>,
}

impl Reading<'_> {
    fn object(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        cursor.expect(b'{')?;
        let mut is_first = true;
        let (mut api_version, mut kind) = (None, None);
        while let Some(key) = cursor.next_key(&mut is_first)? {
            match &*key.name() {
                b"apiVersion" => {
                    self.field("apiVersion", cursor, |_, cursor| {
                        api_version = text(cursor)?;
                        Ok(())
                    })?;
                }
                b"kind" => self.field("kind", cursor, |_, cursor| {
                    kind = text(cursor)?;
                    Ok(())
                })?,
                b"metadata" => {
                    self.scratch.found.has_metadata = true;
                    self.field("metadata", cursor, Self::metadata)?;
                }
                _ => cursor.skip()?,
            }
            if self.scratch.found.has_metadata && kind.is_some() && api_version.is_some() {
                break;
            }
        }
        if kind.is_some() || api_version.is_some() {
            let kind = self.kind(&api_version.unwrap_or_default(), &kind.unwrap_or_default());
            self.scratch.found.kind = Some(kind);
        }
        self.share();
        Ok(())
    }

    /// Makes what the object may have in common with others, or finds it.
    fn share(&mut self) {
        self.scratch.sort_labels();
        let Scratch { found, text, labels, owners, finalizers, joined, .. } = &mut *self.scratch;
        let finalizers = finalizers.iter().map(|finalizer| &text[finalizer.clone()]);
        let has_ties = !owners.is_empty() || finalizers.len() > 0;
        let finalizers = Packed::new(finalizers, joined, &mut self.interner);
        found.ties = has_ties.then(|| self.interner.share(owners, finalizers));
        let part = |at: usize| {
            let Label { key, value } = &labels[at / 2];
            &text[if at.is_multiple_of(2) { key } else { value }.clone()]
        };
        let parts = (0..2 * labels.len()).map(part);
        found.labels = Packed::new(parts, joined, &mut self.interner);
    }

    /// Reads a field. If it does not have its form, that is noted, and it is skipped.
    fn field<'a>(
        &mut self,
        field: &'static str,
        cursor: &mut Cursor<'a>,
        read: impl FnOnce(&mut Self, &mut Cursor<'a>) -> Result<(), Refused>,
    ) -> Result<(), Broken> {
        let start = *cursor;
        let problem = match read(self, cursor) {
            Ok(()) => return Ok(()),
            Err(Refused::Broken(broken)) => return Err(broken),
            Err(Refused::Shape(expected)) => HeadProblem::Shape { field, expected },
            Err(Refused::TooLarge) => HeadProblem::TooLarge,
        };
        self.scratch.found.problem.get_or_insert(problem);
        *cursor = start;
        cursor.skip()
    }

    fn metadata(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        if !cursor.take(b'{')? {
            return Err(Refused::Shape("an object"));
        }
        let mut is_first = true;
        while let Some(key) = cursor.next_key(&mut is_first)? {
            match &*key.name() {
                b"name" => self.field("metadata.name", cursor, Self::name),
                b"namespace" => self.field("metadata.namespace", cursor, Self::namespace),
                b"uid" => self.field("metadata.uid", cursor, Self::uid),
                b"resourceVersion" => self.field("metadata.resourceVersion", cursor, Self::version),
                b"generation" => self.field("metadata.generation", cursor, Self::generation),
                b"creationTimestamp" => {
                    self.field("metadata.creationTimestamp", cursor, Self::created)
                }
                b"deletionTimestamp" => {
                    self.field("metadata.deletionTimestamp", cursor, Self::deleted)
                }
                b"labels" => self.field("metadata.labels", cursor, Self::labels),
                b"annotations" => self.field("metadata.annotations", cursor, Self::annotations),
                b"ownerReferences" => self.field("metadata.ownerReferences", cursor, Self::owners),
                b"finalizers" => self.field("metadata.finalizers", cursor, Self::finalizers),
                _ => cursor.skip(),
            }?;
        }
        Ok(())
    }

    fn name(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        if let Some(text) = text(cursor)? {
            self.scratch.name.clear();
            self.scratch.name.push_str(&text);
        }
        Ok(())
    }

    fn namespace(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        // An empty one means none, as everywhere in Kubernetes.
        let namespace = text(cursor)?.filter(|text| !text.is_empty());
        self.scratch.found.namespace = namespace.map(|text| self.interner.intern(&text));
        Ok(())
    }

    fn uid(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        self.scratch.found.uid = text(cursor)?.map(|text| Uid::new(&text));
        Ok(())
    }

    fn version(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        self.scratch.found.version = text(cursor)?.map(|text| ResourceVersion::new(&text));
        Ok(())
    }

    fn generation(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        if is_null(cursor)? {
            return Ok(());
        }
        let number = std::str::from_utf8(cursor.word()?).ok().and_then(|word| word.parse().ok());
        self.scratch.found.generation = Some(number.ok_or(Refused::Shape("a whole number"))?);
        Ok(())
    }

    fn created(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        self.scratch.found.created = time(cursor)?;
        Ok(())
    }

    fn deleted(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        self.scratch.found.deleted = time(cursor)?;
        Ok(())
    }

    fn labels(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        pairs(cursor, |key, value| {
            let key = self.scratch.keep(&key.text().ok_or(Refused::Shape(TEXTS))?)?;
            let value = self.scratch.keep(&value.text().ok_or(Refused::Shape(TEXTS))?)?;
            self.scratch.labels.push(Label { key, value });
            Ok(())
        })
    }

    fn annotations(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        let mut sum = 0_u64;
        pairs(cursor, |key, value| {
            sum = sum.wrapping_add(ANNOTATIONS.hash_one((key.bytes, value.bytes)));
            Ok(())
        })?;
        self.scratch.found.annotations_hash = sum;
        Ok(())
    }

    fn finalizers(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        items(cursor, "an array of strings", |cursor| {
            let text = text(cursor)?.ok_or(Refused::Shape("an array of strings"))?;
            let span = self.scratch.keep(&text)?;
            self.scratch.finalizers.push(span);
            Ok(())
        })
    }

    fn owners(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        items(cursor, "an array of owner references", |cursor| self.owner(cursor))
    }

    fn owner(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Refused> {
        const OWNER: &str = "an array of objects with apiVersion, kind, name and uid";
        if !cursor.take(b'{')? {
            return Err(Refused::Shape(OWNER));
        }
        let (mut api_version, mut kind, mut name, mut uid) = (None, None, None, None);
        let (mut controller, mut block_deletion) = (false, false);
        let mut is_first = true;
        while let Some(key) = cursor.next_key(&mut is_first)? {
            match &*key.name() {
                b"apiVersion" => api_version = text(cursor)?,
                b"kind" => kind = text(cursor)?,
                b"name" => name = text(cursor)?,
                b"uid" => uid = text(cursor)?.map(|text| Uid::new(&text)),
                b"controller" => controller = flag(cursor)?,
                b"blockOwnerDeletion" => block_deletion = flag(cursor)?,
                _ => cursor.skip()?,
            }
        }
        let (Some(api_version), Some(kind), Some(name), Some(uid)) = (api_version, kind, name, uid)
        else {
            return Err(Refused::Shape(OWNER));
        };
        let kind = self.kind(&api_version, &kind);
        let name = self.interner.intern(&name);
        let owner = Owner { kind, name, uid, controller, block_deletion };
        self.scratch.owners.push(owner);
        Ok(())
    }

    fn kind(&mut self, api_version: &str, kind: &str) -> Kind {
        let joined = &mut self.scratch.joined;
        joined.clear();
        joined.push_str(api_version);
        joined.push(Kind::SEPARATOR);
        joined.push_str(kind);
        Kind(self.interner.intern(joined))
    }
}

/// Whether the next value is `null`, which means that the field is not there; it is taken then.
fn is_null(cursor: &mut Cursor<'_>) -> Result<bool, Refused> {
    if cursor.peek()? != b'n' {
        return Ok(false);
    }
    if cursor.word()? == b"null" { Ok(true) } else { Err(Refused::Shape("JSON")) }
}

fn text<'a>(cursor: &mut Cursor<'a>) -> Result<Option<std::borrow::Cow<'a, str>>, Refused> {
    if is_null(cursor)? {
        return Ok(None);
    }
    if cursor.peek()? != b'"' {
        return Err(Refused::Shape(TEXT));
    }
    cursor.string()?.text().map(Some).ok_or(Refused::Shape(TEXT))
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool, Refused> {
    match cursor.word()? {
        b"true" => Ok(true),
        b"false" | b"null" => Ok(false),
        _ => Err(Refused::Shape("owner references whose flags are true or false")),
    }
}

fn time(cursor: &mut Cursor<'_>) -> Result<Option<Timestamp>, Refused> {
    let Some(text) = text(cursor)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Refused::Shape(TIME))
}

/// Reads an object whose values are strings.
fn pairs<'a>(
    cursor: &mut Cursor<'a>,
    mut read: impl FnMut(Raw<'a>, Raw<'a>) -> Result<(), Refused>,
) -> Result<(), Refused> {
    if is_null(cursor)? {
        return Ok(());
    }
    if !cursor.take(b'{')? {
        return Err(Refused::Shape(TEXTS));
    }
    let mut is_first = true;
    while let Some(key) = cursor.next_key(&mut is_first)? {
        if cursor.peek()? != b'"' {
            return Err(Refused::Shape(TEXTS));
        }
        read(key, cursor.string()?)?;
    }
    Ok(())
}

/// Reads an array.
fn items<'a>(
    cursor: &mut Cursor<'a>,
    expected: &'static str,
    mut read: impl FnMut(&mut Cursor<'a>) -> Result<(), Refused>,
) -> Result<(), Refused> {
    if is_null(cursor)? {
        return Ok(());
    }
    if !cursor.take(b'[')? {
        return Err(Refused::Shape(expected));
    }
    let mut is_first = true;
    while cursor.next_item(&mut is_first)? {
        read(cursor)?;
    }
    Ok(())
}

impl From<Option<Timestamp>> for Seconds {
    fn from(time: Option<Timestamp>) -> Self {
        Self(time.map_or(NONE, Timestamp::as_second))
    }
}

impl From<Broken> for Refused {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}
