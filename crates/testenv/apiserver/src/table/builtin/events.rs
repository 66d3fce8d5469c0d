//! Events of both groups: they are stored with the field names of the core group.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::age::Now;
use crate::table::cells::{name, number, text, text_or};

pub(super) static EVENTS: BuiltIn = BuiltIn::new(columns::EVENTS, |object, now| {
    let (first, last) = seen(object, now);
    let involved = &object["involvedObject"];
    json!([
        last,
        text(&object["type"]),
        text(&object["reason"]),
        involved_object(involved),
        text(&involved["fieldPath"]),
        source(object),
        text(&object["message"]).trim(),
        first,
        count(object),
        name(object),
    ])
});

/// Returns when the event happened first and last: a new event has one time, and a series has its
/// own last time.
fn seen(event: &Value, now: Now) -> (String, String) {
    let since = |time: &Value| (!time.is_null()).then(|| now.since(time));
    let first = since(&event["firstTimestamp"]).unwrap_or_else(|| now.since(&event["eventTime"]));
    let last = if event["series"].is_object() {
        now.since(&event["series"]["lastObservedTime"])
    } else {
        since(&event["lastTimestamp"]).unwrap_or_else(|| first.clone())
    };
    (first, last)
}

fn count(event: &Value) -> i64 {
    match number(&event["count"]) {
        _ if event["series"].is_object() => number(&event["series"]["count"]),
        // A new event that happened once has no count.
        0 => 1,
        count => count,
    }
}

fn involved_object(involved: &Value) -> String {
    let kind = text(&involved["kind"]).to_lowercase();
    match text(&involved["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Returns the reporter: from the old fields if they are set, or else from the new ones.
fn source(event: &Value) -> String {
    let source = &event["source"];
    let component = text_or(&source["component"], text(&event["reportingComponent"]));
    match text_or(&source["host"], text(&event["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_event_has_two_times_a_new_one_has_one_and_a_series_has_its_own() {
        let now = Now("2026-01-01T01:00:00Z".parse().expect("a time"));
        let shown = |event: Value| seen(&event, now);
        let pair = |first: &str, last: &str| (first.to_owned(), last.to_owned());
        let old = json!({
            "firstTimestamp": "2026-01-01T00:50:00Z",
            "lastTimestamp": "2026-01-01T00:59:00Z",
            "eventTime": null,
        });
        assert_eq!(shown(old), pair("10m", "60s"));
        let new = json!({"eventTime": "2026-01-01T00:59:50.000001Z", "firstTimestamp": null});
        assert_eq!(shown(new), pair("9s", "9s"));
        let series = json!({
            "eventTime": "2026-01-01T00:50:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "2026-01-01T00:59:00.000000Z"},
        });
        assert_eq!(shown(series), pair("10m", "60s"));
        assert_eq!(shown(json!({})), pair("<unknown>", "<unknown>"));
    }
}
