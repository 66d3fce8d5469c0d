//! Warnings of the server: a deprecated version, an unknown field, what an admission webhook says.
//!
//! The server sends them as headers of its answers, and repeats them for each request. Each is
//! logged once.

use hashlink::LruCache;
use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;
use windlass_informer::client::RequestInfo;

/// How many warnings are remembered. One that was forgotten is logged again.
const REMEMBERED_MAX: usize = 256;

/// A longer text is cut. The server cuts them at this length if there are many.
const TEXT_MAX: usize = 256;

/// The warnings that were logged.
pub(crate) struct ServerWarnings {
    logged: Mutex<LruCache<String, ()>>,
}

impl ServerWarnings {
    pub(crate) fn new() -> Self {
        Self { logged: Mutex::new(LruCache::new(REMEMBERED_MAX)) }
    }

    /// Logs the warnings of an answer that were not logged before.
    pub(crate) fn note(&self, controller: &str, request: &RequestInfo, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let Some(text) = header.to_str().ok().and_then(text_of) else { continue };
            let mut logged = self.logged.lock();
            if logged.insert(text.clone(), ()).is_none() {
                drop(logged);
                tracing::warn!(controller, %request, "the server warns: {text}");
            }
        }
    }
}

/// The text of a header such as `299 - "v1 ComponentStatus is deprecated"`.
fn text_of(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once('"')?.1;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
    text.truncate(text.floor_char_boundary(TEXT_MAX));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_between_the_quotes() {
        assert_eq!(text_of(r#"299 - "gone soon""#).as_deref(), Some("gone soon"));
        assert_eq!(text_of(r#"299 - "a \"b\" \\ c" "date""#).as_deref(), Some(r#"a "b" \ c"#));
        for other in [r#"199 - "not ours""#, "299 - bare", r#"299 - "never closed"#, ""] {
            assert_eq!(text_of(other), None, "{other}");
        }
        let long = format!("299 - \"{}\"", "é".repeat(200));
        assert_eq!(text_of(&long).map(|text| text.len()), Some(256));
    }

    #[test]
    fn flood_of_warnings_is_bounded_and_a_new_one_is_remembered() {
        let warnings = ServerWarnings::new();
        let request = http::Request::get("/api/v1/namespaces/default/secrets/a").body(());
        let request = RequestInfo::of(&request.expect("a request"));
        for number in 0..1_000 {
            let mut headers = HeaderMap::new();
            let warning = format!("299 - \"warning {number}\"");
            headers.insert(WARNING, warning.parse().expect("a header"));
            warnings.note("tester", &request, &headers);
        }
        let logged = warnings.logged.lock();
        assert_eq!(logged.len(), REMEMBERED_MAX);
        assert!(logged.peek("warning 999").is_some() && logged.peek("warning 0").is_none());
    }
}
