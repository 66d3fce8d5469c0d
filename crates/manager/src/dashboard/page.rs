//! The files of the page. They are part of the binary, and hold no data: the page asks the API.

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

/// A file of the page.
#[derive(Clone, Copy)]
struct File {
    path: &'static str,
    media_type: &'static str,
    content: &'static str,
}

const FILES: [File; 23] = [
    File {
        path: "/",
        media_type: "text/html; charset=utf-8",
        content: include_str!("page/index.html"),
    },
    File {
        path: "/style.css",
        media_type: "text/css; charset=utf-8",
        content: include_str!("page/style.css"),
    },
    script("/api.js", include_str!("page/api.js")),
    script("/app.js", include_str!("page/app.js")),
    script("/dom.js", include_str!("page/dom.js")),
    script("/drawing.js", include_str!("page/drawing.js")),
    script("/errors.js", include_str!("page/errors.js")),
    script("/format.js", include_str!("page/format.js")),
    script("/graph.js", include_str!("page/graph.js")),
    script("/informers.js", include_str!("page/informers.js")),
    script("/key.js", include_str!("page/key.js")),
    script("/leadership.js", include_str!("page/leadership.js")),
    script("/list.js", include_str!("page/list.js")),
    script("/overview.js", include_str!("page/overview.js")),
    script("/parts.js", include_str!("page/parts.js")),
    script("/plots.js", include_str!("page/plots.js")),
    script("/queue.js", include_str!("page/queue.js")),
    script("/route.js", include_str!("page/route.js")),
    script("/runs.js", include_str!("page/runs.js")),
    script("/search.js", include_str!("page/search.js")),
    script("/story.js", include_str!("page/story.js")),
    script("/stream.js", include_str!("page/stream.js")),
    script("/troubles.js", include_str!("page/troubles.js")),
];

const fn script(path: &'static str, content: &'static str) -> File {
    File { path, media_type: "text/javascript; charset=utf-8", content }
}

/// Only files of this page run and are loaded, and no other site can show it in a frame. So a name
/// or a message that contains HTML does nothing, even if the page had a mistake.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The files.
pub(super) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, File { path, media_type, content }| {
        // A browser asks again each time: the operator may have been updated.
        let headers = [(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-cache")];
        router.route(path, get(async move || (headers, content)))
    })
}

/// Adds the headers that restrict what a browser does with an answer, to all of them.
pub(super) fn with_headers(router: Router) -> Router {
    router.layer(map_response(async |mut answer: Response| {
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        answer
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_files_of_the_page_are_served_and_they_are_small() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard/page");
        let files = std::fs::read_dir(folder).expect("the folder of the page");
        let files =
            files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
        let served = FILES.map(|file| match file.path.trim_start_matches('/') {
            "" => "index.html".to_owned(),
            name => name.to_owned(),
        });
        assert_eq!(BTreeSet::from(served), files.collect());
        let bytes: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(bytes < 200_000, "the page has {bytes} bytes");
    }
}
