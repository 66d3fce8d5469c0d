//! Who may use the dashboard.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use windlass_manager::dashboard::Access;
use windlass_manager::http::Authorizer;
use windlass_testserver::apiserver::ApiServer;

use crate::dashboard::stage::{CONTROLLER, Running, answer, create};

const READS: [&str; 6] = [
    "/api/summary",
    "/api/stream",
    "/api/keys?controller=maps",
    "/api/runs",
    "/api/key?controller=maps&key=default/a",
    "/api/story?key=default/a",
];

const WRITES: [&str; 2] = ["/api/run", "/api/pause"];

fn request(method: Method, path: &str, headers: &[(http::HeaderName, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let body = json!({"controller": CONTROLLER, "key": "default/a", "paused": false});
    request.body(Body::from(body.to_string())).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn page_is_served_without_a_token_and_restricts_the_browser() {
    let running = Running::start(&["default/a"]).await;
    for (path, media_type) in
        [("/", "text/html"), ("/app.js", "text/javascript"), ("/style.css", "text/css")]
    {
        let asked = request(Method::GET, path, &[(HOST, "127.0.0.1:9090")]);
        let (status, headers, text) = answer(&running.page, asked).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(!text.is_empty());
        let shown = headers[CONTENT_TYPE].to_str().expect("a text");
        assert_eq!(shown, format!("{media_type}; charset=utf-8"));
        assert_eq!(headers[CACHE_CONTROL], "no-cache");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[REFERRER_POLICY], "no-referrer");
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().expect("a text");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.split("; ").any(|of| of == part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let (status, _) = running.refusal("/elsewhere").await;
    assert_eq!(status, 404);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn api_needs_the_token() {
    let mut running = Running::start(&["default/a"]).await;
    running.wait_for_runs(&["a"]).await;
    let other = format!("Bearer {}x", running.token);
    let basic = format!("Basic {}", running.token);
    for (method, path) in READS
        .map(|path| (Method::GET, path))
        .into_iter()
        .chain(WRITES.map(|path| (Method::POST, path)))
    {
        for authorization in ["", "Bearer ", "Bearer no", &other, &basic] {
            let headers = [
                (HOST, "localhost"),
                (CONTENT_TYPE, "application/json"),
                (AUTHORIZATION, authorization),
            ];
            let asked = request(method.clone(), path, &headers);
            let (status, headers, text) = answer(&running.page, asked).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} {authorization}: {text}");
            assert!(text.contains("the URL that the operator logged"), "{text}");
            assert_eq!(headers[CACHE_CONTROL], "no-store");
        }
    }
    assert!(!format!("{:?}", Access::local()).contains("token"), "it must not show it");
    let tokens = [(), ()].map(|()| crate::dashboard::stage::token_of(&Access::local()));
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(tokens[0].len(), 43, "32 random bytes");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn request_for_another_host_is_refused() {
    let running = Running::start(&["default/a"]).await;
    let bearer = format!("Bearer {}", running.token);
    for (host, code) in [
        ("localhost:9090", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1234", 200),
        ("127.9.9.9", 200),
        ("[::1]:9090", 200),
        ("evil.example:9090", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1:9090", 421),
        ("", 421),
    ] {
        for path in ["/", "/api/summary"] {
            let headers = [(HOST, host), (AUTHORIZATION, bearer.as_str())];
            let (status, _, text) =
                answer(&running.page, request(Method::GET, path, &headers)).await;
            assert_eq!(status.as_u16(), code, "{host} {path}: {text}");
        }
    }
    let asked = request(Method::GET, "/", &[]);
    assert_eq!(answer(&running.page, asked).await.0, StatusCode::MISDIRECTED_REQUEST);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn post_of_another_site_or_without_json_is_refused() {
    let mut running = Running::start(&["default/a"]).await;
    running.wait_for_runs(&["a"]).await;
    let bearer = format!("Bearer {}", running.token);
    let json = "application/json";
    for (origin, media_type, code) in [
        (Some("http://localhost:9090"), json, 202),
        (None, json, 202),
        (Some("http://evil.example"), json, 403),
        (Some("http://localhost:3000"), json, 403),
        (Some("http://localhost"), json, 403),
        (Some("null"), json, 403),
        (Some("http://localhost:9090"), "text/plain", 415),
        (Some("http://localhost:9090"), "application/x-www-form-urlencoded", 415),
    ] {
        let mut headers = vec![
            (HOST, "localhost:9090"),
            (AUTHORIZATION, bearer.as_str()),
            (CONTENT_TYPE, media_type),
        ];
        headers.extend(origin.map(|origin| (ORIGIN, origin)));
        let (status, _, text) =
            answer(&running.page, request(Method::POST, "/api/run", &headers)).await;
        assert_eq!(status.as_u16(), code, "{origin:?} {media_type}: {text}");
    }
    let (code, _, _) = running.send(Method::GET, "/api/run", None).await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
    running.stop().await;
}

/// An API server that lets `reader` get and `admin` get and post what is below `/dashboard`, and
/// everybody get what is below `/api`, as every cluster does it.
fn reviewer(asked: &Arc<Mutex<Vec<String>>>) -> kube::Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let asked = Arc::clone(&asked);
        async move {
            let is_token = request.uri().path().ends_with("/tokenreviews");
            let body = axum::body::to_bytes(Body::new(request.into_body()), usize::MAX).await?;
            let mut review: Value = serde_json::from_slice(&body)?;
            if is_token {
                let name = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
                let is_known = ["reader", "admin", "guest"].contains(&name.as_str());
                review["status"] = json!({"authenticated": is_known, "user": {"username": name}});
            } else {
                let user = review["spec"]["user"].as_str().unwrap_or_default().to_owned();
                let of = &review["spec"]["nonResourceAttributes"];
                let path = of["path"].as_str().unwrap_or_default().to_owned();
                let verb = of["verb"].as_str().unwrap_or_default().to_owned();
                asked.lock().expect("not poisoned").push(format!("{user} {verb} {path}"));
                let may = match user.as_str() {
                    "admin" => path.starts_with("/dashboard/"),
                    "reader" => path.starts_with("/dashboard/") && verb == "get",
                    _ => false,
                };
                let is_discovery = verb == "get" && path.starts_with("/api/");
                review["status"] = json!({"allowed": may || is_discovery});
            }
            let answer = kube::client::Body::from(review.to_string().into_bytes());
            Ok::<_, tower::BoxError>(Response::builder().status(201).body(answer)?)
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn on_other_addresses_the_api_server_decides() {
    let (server, asked) = (ApiServer::new(), Arc::default());
    create(&server, "default/a").await;
    let access = Access::reviewed(Authorizer::new(reviewer(&asked)));
    assert_eq!(access.url(([10, 0, 0, 1], 9_090).into()), "https://10.0.0.1:9090/");
    let mut running = Running::start_with(server, &access, |manager| manager);
    running.wait_for_runs(&["a"]).await;

    let asked_for = async |token: &str, method: Method, path: &str, origin: &str| {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            (HOST, "operator.shop.svc:9090"),
            (CONTENT_TYPE, "application/json"),
            (ORIGIN, origin),
        ];
        if !token.is_empty() {
            headers.push((AUTHORIZATION, &bearer));
        }
        let (status, _, text) = answer(&running.page, request(method, path, &headers)).await;
        (status.as_u16(), text)
    };
    let own = "https://operator.shop.svc:9090";
    let read = async |token: &str| asked_for(token, Method::GET, "/api/summary", own).await;
    assert_eq!(asked_for("", Method::GET, "/", own).await.0, 200, "the page holds no data");
    assert_eq!(read("").await.0, 401);
    assert_eq!(read("stranger").await.0, 401);
    let (code, text) = read("guest").await;
    assert_eq!(code, 403, "what everybody may get below /api does not count");
    assert!(text.contains("nonResourceURLs: [\"/dashboard/api/summary\"]"), "{text}");
    assert_eq!(read("reader").await.0, 200);

    let (code, text) = asked_for("reader", Method::POST, "/api/run", own).await;
    assert_eq!(code, 403, "{text}");
    assert!(text.contains("may not post /dashboard/api/run"), "{text}");
    assert_eq!(asked_for("admin", Method::POST, "/api/run", own).await.0, 202);
    let elsewhere = "https://evil.example";
    assert_eq!(asked_for("admin", Method::POST, "/api/run", elsewhere).await.0, 403);
    assert_eq!(asked_for("admin", Method::DELETE, "/api/run", own).await.0, 405);
    let asked = asked.lock().expect("not poisoned").join("\n");
    assert!(asked.contains("reader get /dashboard/api/summary"), "{asked}");
    running.stop().await;
}
