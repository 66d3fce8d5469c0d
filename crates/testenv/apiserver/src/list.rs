//! List: a page of objects, current or as of a revision.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::fields::text;
use crate::filter::Filter;
use crate::kinds::Registered;
use crate::object::{Encoding, Form, Key, Stored};
use crate::query::{Query, VersionMatch, version_number};
use crate::state::State;
use crate::store::Range;
use crate::table::TableWriter;
use crate::target::Target;
use crate::webhook::caller::Caller;
use crate::webhook::convert;

/// A page of a list, an iterator over its encoded chunks.
#[derive(Debug)]
pub(crate) struct Page {
    /// `{"kind":"PodList",…,"items":[`, or the beginning of a table.
    head: Bytes,
    items: std::vec::IntoIter<Arc<Stored>>,
    encoding: Encoding,
    /// The end of the body, usually `]}`.
    tail: &'static [u8],
    written: Progress,
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Nothing,
    Some,
    Everything,
}

/// The minimum size of a chunk of the body, in bytes.
const CHUNK: usize = 64 * 1024;

/// The content of a continue token. `start` is relative to the namespace, with a zero byte after
/// the last key.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

/// The version of continue tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl State {
    /// Reads a page. `stale` is the number of revisions by which the server pretends to lag behind.
    pub(crate) fn list(
        &self,
        target: &Target,
        query: &Query,
        filter: &Filter,
        encoding: Encoding,
        stale: u64,
    ) -> Result<Page, Failure> {
        query.check_list()?;
        let start_at = self.start(target, query, stale)?;
        let unlimited = query.limit == 0 || query.resource_version.as_deref() == Some("0");
        let limit = if unlimited { usize::MAX } else { query.limit };
        let range = Range {
            kind: target.kind.storage,
            namespace: filter.namespace(),
            start: start_at.path.as_deref(),
            revision: start_at.revision,
        };
        let page = self.store.page(&range, limit, |key, object| filter.matches(key, object));
        // Later pages show the revision of the first page.
        let token = page.last.map(|last| {
            let start = format!("{}\0", relative(last.path(), filter.namespace()));
            encode_token(i64::try_from(start_at.revision).unwrap_or(i64::MAX), &start)
        });
        let remaining = filter.selects_all().then_some(page.remaining).filter(|_| token.is_some());
        let mut head = head(target, &encoding, start_at.revision, token.as_deref(), remaining);
        // Some empty tables have `null` instead of a list of rows.
        let null = encoding.table().is_some_and(TableWriter::has_null_for_no_rows);
        let null = null && page.items.is_empty();
        let (start, tail): (&[u8], &[u8]) = if null { (b"null", b"}\n") } else { (b"[", b"]}\n") };
        head.extend_from_slice(start);
        let (head, items) = (head.into(), page.items.into_iter());
        Ok(Page { head, items, encoding, tail, written: Progress::Nothing })
    }

    /// Returns the first key and the revision of the page.
    fn start(&self, target: &Target, query: &Query, stale: u64) -> Result<Start, Failure> {
        let now = match stale {
            0 => self.store.revision(),
            stale => {
                let oldest = self.store.oldest(target.kind.storage);
                self.store.revision().saturating_sub(stale).max(oldest)
            }
        };
        if query.continue_token.is_empty() {
            return Ok(Start { revision: self.list_revision(target, query, now)?, path: None });
        }
        if query.resource_version.as_deref().is_some_and(|version| version != "0") {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = decode_token(&query.continue_token)?;
        let path = Some(absolute(&token.start, &target.namespace));
        match u64::try_from(token.rv) {
            // A token with the revision -1 continues with the current objects.
            Err(_) => Ok(Start { revision: now, path }),
            Ok(revision) if revision < self.store.oldest(target.kind.storage) => Err(
                Failure::continue_too_old(encode_token(-1, token.start.trim_start_matches('/'))),
            ),
            Ok(revision) if revision > now => Err(Failure::version_too_large(revision, now)),
            Ok(revision) => Ok(Start { revision, path }),
        }
    }

    fn list_revision(&self, target: &Target, query: &Query, now: u64) -> Result<u64, Failure> {
        let Some(text) = query.resource_version.as_deref() else { return Ok(now) };
        let asked = version_number(text)
            .map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))?;
        if asked > now {
            return Err(Failure::version_too_large(asked, now));
        }
        let exact = match &query.version_match {
            Some(version_match) => *version_match == VersionMatch::Exact,
            // A rule for old clients: with a limit and without `resourceVersionMatch`, the version
            // is exact.
            None => asked > 0 && query.limit > 0,
        };
        if !exact {
            return Ok(now);
        }
        if asked < self.store.oldest(target.kind.storage) {
            return Err(Failure::list_too_old());
        }
        Ok(asked)
    }
}

struct Start {
    revision: u64,
    /// The path of the first key that may be on the page.
    path: Option<String>,
}

impl Page {
    /// Returns the page with all objects converted to the requested version.
    ///
    /// # Errors
    /// A 500 if a webhook does not convert them.
    pub(crate) async fn converted(
        self,
        of: &Registered,
        caller: &mut Caller<'_>,
    ) -> Result<Self, Failure> {
        let version = self.encoding.version();
        let items = convert::stored(of, version, self.items.collect(), caller).await;
        let items = items.map_err(Failure::internal)?.into_iter();
        Ok(Self { items, ..self })
    }

    /// Returns the keys of the objects on the page.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let objects = self.items.as_slice().iter().map(|object| object.value());
        objects.map(|object| Key::new(text(&object, "namespace"), text(&object, "name"))).collect()
    }
}

/// Yields the body in chunks, each encoded on demand.
impl Iterator for Page {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.written == Progress::Everything {
            return None;
        }
        let mut chunk = Vec::with_capacity(CHUNK / 8);
        let mut first = false;
        if self.written == Progress::Nothing {
            chunk.extend_from_slice(&self.head);
            self.written = Progress::Some;
            first = true;
        }
        while chunk.len() < CHUNK {
            let Some(item) = self.items.next() else {
                chunk.extend_from_slice(self.tail);
                self.written = Progress::Everything;
                break;
            };
            if !first {
                chunk.push(b',');
            }
            first = false;
            self.encoding.write_item(&item, &mut chunk);
        }
        Some(chunk.into())
    }
}

fn head(
    target: &Target,
    encoding: &Encoding,
    revision: u64,
    token: Option<&str>,
    remaining: Option<usize>,
) -> Vec<u8> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), revision.to_string().into());
    if let Some(token) = token {
        metadata.insert("continue".into(), token.into());
    } else if !target.kind.is_builtin() && encoding.form == Form::Full {
        // Lists of custom resources have this field even if it is empty.
        metadata.insert("continue".into(), "".into());
    }
    if let Some(remaining) = remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    let metadata = Value::Object(metadata);
    if let Some(table) = encoding.table() {
        let mut head = Vec::new();
        table.write_head(&metadata, &mut head);
        return head;
    }
    let (kind, api_version) = if encoding.form == Form::Metadata {
        ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned())
    } else {
        let api_version = target.kind.api_version(&target.version().name);
        (target.kind.list_kind.as_str(), api_version)
    };
    format!(
        "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":"
    )
    .into()
}

fn encode_token(revision: i64, start: &str) -> String {
    let token = Token { v: TOKEN_VERSION.to_owned(), rv: revision, start: start.to_owned() };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token must serialise"))
}

fn decode_token(text: &str) -> Result<Token, Failure> {
    let invalid = |why: &str| {
        Failure::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&error.to_string()))?;
    let token: Token = serde_json::from_slice(&bytes)
        .map_err(|error| invalid(&crate::go_decoder::go_syntax(&error, &bytes)))?;
    if token.v != TOKEN_VERSION {
        let why = format!("server does not recognize this encoded version {}", token.v);
        return Err(invalid(&why));
    }
    if token.rv == 0 {
        return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    if token.start.is_empty() {
        return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
    }
    // A client must not use a forged key to read outside of the list.
    let key = token.start.strip_prefix('/').unwrap_or(&token.start);
    if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid(&token.start));
    }
    Ok(token)
}

fn relative(path: &str, namespace: &str) -> String {
    let rest = if namespace.is_empty() { path } else { &path[namespace.len() + 1..] };
    format!("/{rest}")
}

fn absolute(start: &str, namespace: &str) -> String {
    let rest = start.trim_start_matches('/');
    if namespace.is_empty() { rest.to_owned() } else { format!("{namespace}/{rest}") }
}
