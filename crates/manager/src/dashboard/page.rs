//! The files of the page. They are part of the binary, and hold no data: the page asks the API.

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

/// Path, media type and content of each file.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
];

/// Only files of this page run and are loaded, and no other site can show it in a frame. So a name
/// or a message that contains HTML does nothing, even if the page had a mistake.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The files.
pub(super) fn router() -> Router {
    FILES.into_iter().fold(Router::new(), |router, (path, media_type, content)| {
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
