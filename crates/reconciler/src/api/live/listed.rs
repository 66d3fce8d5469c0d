//! Checks what a list brings: a server may ignore the parameters with which it was asked.
//!
//! - One that ignores a selector sends all objects. A reconciler may delete what it has selected,
//!   so objects that are surely not selected are dropped here.
//! - One that ignores `continue` sends objects again that it has sent before, or empty pages
//!   without end. It is asked for everything at once.
//! - One that ignores `limit` sends everything at once, which is as good.

use std::collections::BTreeSet;

use kube::api::ListParams;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_indexer::{HeadParser, Selector};
use windlass_informer::Resource;
use windlass_nesting::read_object;

/// How many pages may be empty. A server that filters what it has read may send a few.
const EMPTY_PAGES_MAX: u32 = 100;

/// What was asked for, and what has come.
pub(super) struct Listed {
    /// `None` if there is none, or if it is invalid, which the server says.
    labels: Option<Selector>,
    fields: Vec<FieldRequirement>,
    seen: BTreeSet<Identity>,
    empty_pages: u32,
    is_selector_ignored: bool,
}

/// What tells an object from others.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Identity {
    uid: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// `field=value` or `field!=value`.
#[derive(Debug, PartialEq, Eq)]
struct FieldRequirement {
    pointer: String,
    value: String,
    is_equal: bool,
}

impl Listed {
    pub(super) fn new(parameters: &ListParams) -> Self {
        let labels = parameters.label_selector.as_deref().map(str::parse::<Selector>);
        let fields = parameters.field_selector.as_deref().unwrap_or_default();
        Self {
            labels: labels.and_then(Result::ok).filter(|labels| !labels.is_everything()),
            fields: parts(fields).iter().filter_map(|part| FieldRequirement::of(part)).collect(),
            seen: BTreeSet::new(),
            empty_pages: 0,
            is_selector_ignored: false,
        }
    }

    /// Whether a part of a page has come before, or too many have been empty: that may go on for
    /// ever.
    pub(super) fn is_repeated(&mut self, items: &[&RawValue]) -> bool {
        if items.is_empty() {
            self.empty_pages += 1;
            return self.empty_pages > EMPTY_PAGES_MAX;
        }
        let mut page: BTreeSet<_> = items.iter().filter_map(|item| Identity::of(item)).collect();
        if !page.is_disjoint(&self.seen) {
            return true;
        }
        self.seen.append(&mut page);
        false
    }

    /// The objects of a page that were asked for.
    pub(super) fn select<'a>(
        &mut self,
        resource: &Resource,
        mut items: Vec<&'a RawValue>,
    ) -> Vec<&'a RawValue> {
        let count = items.len();
        items.retain(|item| self.may_be_selected(item.get()));
        if items.len() < count && !std::mem::replace(&mut self.is_selector_ignored, true) {
            tracing::warn!(
                %resource,
                "the server ignores the selector of a list; objects that it does not select are \
                 dropped here"
            );
        }
        items
    }

    /// Whether the selectors select an object, as far as it shows that itself: some fields that can
    /// be selected by are no fields of the object, or are left out if they have their default.
    fn may_be_selected(&self, item: &str) -> bool {
        let is_labeled = self.labels.as_ref().is_none_or(|labels| {
            // One that cannot be read is an error for the caller.
            let head = HeadParser::default().parse(item.as_bytes());
            head.map_or(true, |head| labels.matches(head.labels()))
        });
        let may_hold = |item: &Value| self.fields.iter().all(|field| field.may_hold(item));
        let has_fields =
            || self.fields.is_empty() || read_object(item.as_bytes(), may_hold).unwrap_or(true);
        is_labeled && has_fields()
    }
}

impl Identity {
    fn of(item: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Item {
            metadata: Identity,
        }
        serde_json::from_str::<Item>(item.get()).ok().map(|item| item.metadata)
    }
}

impl FieldRequirement {
    fn of(part: &str) -> Option<Self> {
        let (field, value) = part.split_once('=')?;
        let (field, is_equal) = match field.strip_suffix('!') {
            Some(field) => (field, false),
            None => (field, true),
        };
        let mut is_escaped = false;
        let mut text = String::new();
        for char in value.strip_prefix('=').unwrap_or(value).chars() {
            is_escaped = char == '\\' && !is_escaped;
            if !is_escaped {
                text.push(char);
            }
        }
        Some(Self { pointer: format!("/{}", field.replace('.', "/")), value: text, is_equal })
    }

    fn may_hold(&self, item: &Value) -> bool {
        let value = match item.pointer(&self.pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            _ => return true,
        };
        (value == self.value) == self.is_equal
    }
}

/// The requirements of a field selector. A comma behind a backslash belongs to a value.
fn parts(selector: &str) -> Vec<&str> {
    let mut is_escaped = false;
    let parts = selector.split(move |char| {
        let is_comma = char == ',' && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        is_comma
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_dropped_only_if_it_shows_another_value() {
        let pod = json!({
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"nodeName": "a,b=c", "hostNetwork": true},
        });
        for (labels, fields, wanted) in [
            ("", "", true),
            ("app=web", "metadata.name=web", true),
            ("app=web,!canary", "metadata.name==web,metadata.name!=other", true),
            ("app=db", "", false),
            ("", "metadata.name=other", false),
            ("", "metadata.name!=web", false),
            ("", r"spec.nodeName=a\,b\=c", true),
            ("", "spec.nodeName=a", false),
            ("", "spec.hostNetwork=true", true),
            ("", "spec.hostNetwork=false", false),
            // The object does not show these.
            ("", "status.phase=Running", true),
            ("", "spec=anything", true),
        ] {
            let parameters = ListParams::default().labels(labels).fields(fields);
            let listed = Listed::new(&parameters);
            assert_eq!(listed.may_be_selected(&pod.to_string()), wanted, "{labels} {fields}");
        }
    }
}
