//! What is refused before a handler is asked, and handlers that fail.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;
use windlass_webhook::{
    Admission, Conversion, Convert, ConvertError, Defaulter, Error, FailurePolicy, Hook, Operation,
    Validate, Verdict, Webhooks,
};

use crate::webhooks::stage::v1::Website;
use crate::webhooks::stage::{MUTATE, VALIDATE, ask, body, create, send, v1, v2, website};

/// Fails as the number of replicas tells it.
struct Failing;

impl Validate<Website> for Failing {
    async fn validate(&self, operation: Operation<'_, Website>, _: &Admission) -> Verdict {
        match operation.new_object().and_then(|new| new.spec.replicas) {
            Some(1) => panic!("as the test wants it"),
            Some(2) => pending().await,
            Some(3) => Verdict::undecided("the registry is down"),
            _ => Verdict::allow(),
        }
    }
}

fn failing(policy: FailurePolicy) -> Router {
    failing_with(policy, 4096)
}

fn failing_with(policy: FailurePolicy, bytes_max: usize) -> Router {
    let hook = Hook::validating::<Website>(Failing).failure_policy(policy);
    Webhooks::new()
        .hook(hook)
        .admission_bytes_max(bytes_max)
        .admission_memory_max(BUDGET)
        .router()
        .unwrap()
}

#[tokio::test]
async fn a_panic_is_answered_by_the_failure_policy() {
    let review = create(json!({"replicas": 1}));
    let response = ask(&failing(FailurePolicy::Fail), VALIDATE, &review).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 500);
    assert_eq!(response["status"]["reason"], "InternalError");
    assert_eq!(response["status"]["message"], "the webhook panicked");
    let response = ask(&failing(FailurePolicy::Ignore), VALIDATE, &review).await;
    assert_eq!(response["allowed"], true);
    assert_eq!(
        response["warnings"],
        json!(["the request goes on without a webhook: the webhook panicked"])
    );
}

#[tokio::test]
async fn a_handler_that_cannot_decide_or_decode_is_answered_for_by_the_failure_policy() {
    let mistyped = "`object` does not decode as the webhook's Website: invalid type, expected i64";
    let failures = [(json!(3), 500, "the registry is down"), (json!("x"), 400, mistyped)];
    for (replicas, code, message) in failures {
        let review = create(json!({"replicas": replicas}));
        let response = ask(&failing(FailurePolicy::Fail), VALIDATE, &review).await;
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], code);
        assert_eq!(response["status"]["message"], message);
        let response = ask(&failing(FailurePolicy::Ignore), VALIDATE, &review).await;
        assert_eq!(response["allowed"], true);
        let warning = format!("the request goes on without a webhook: {message}");
        assert_eq!(response["warnings"], json!([warning]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_answered_for_before_the_server_gives_up() {
    let review = create(json!({"replicas": 2}));
    for (path, seconds) in [("?timeout=3s", 3), ("", 10), ("?timeout=30s", 30)] {
        let (began, timeout) = (Instant::now(), Duration::from_secs(seconds));
        let path = format!("{VALIDATE}{path}");
        let response = ask(&failing(FailurePolicy::Fail), &path, &review).await;
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 504);
        assert_eq!(response["status"]["reason"], "Timeout");
        assert!(began.elapsed() < timeout, "answered after {:?}", began.elapsed());
        assert!(began.elapsed() > timeout / 2, "answered after {:?}", began.elapsed());
    }
    let response = ask(&failing(FailurePolicy::Ignore), VALIDATE, &review).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let body = Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>());
    let answer = send(&failing(FailurePolicy::Fail), VALIDATE, body).await;
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
}

const NO_UID: &str = "the review has no `request` with a `uid` of at most 128 bytes";

#[tokio::test]
async fn bodies_that_are_not_reviews_are_refused_with_a_status() {
    let router = failing(FailurePolicy::Fail);
    let large = json!({"x": "y".repeat(5000)}).to_string();
    let other = json!({"apiVersion": "v1", "kind": "Pod"}).to_string();
    let bare = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}).to_string();
    let review = "the body is refused: only AdmissionReview of admission.k8s.io/v1 is served at \
                  this path";
    let cases = [
        (String::new(), 400, "BadRequest", "the body is empty"),
        ("{".to_owned(), 400, "BadRequest", "the body is not valid JSON at line 1, column 1"),
        (large, 413, "RequestEntityTooLarge", "the body has more than 4096 bytes"),
        ("[]".to_owned(), 400, "BadRequest", review),
        (other, 400, "BadRequest", review),
        (bare, 400, "BadRequest", NO_UID),
    ];
    for (sent, code, reason, message) in cases {
        let answer = send(&router, VALIDATE, sent).await;
        assert_eq!(answer.status().as_u16(), code);
        let status = body(answer).await;
        assert_eq!(status["reason"], reason);
        assert_eq!(status["message"], message);
    }
}

#[tokio::test]
async fn a_review_of_another_version_is_refused_with_its_uid() {
    let mut review = create(json!({}));
    review["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let answer =
        body(send(&failing(FailurePolicy::Fail), VALIDATE, review.to_string()).await).await;
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["response"]["uid"], "0c9a8d74");
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["code"], 400);
}

#[tokio::test]
async fn a_request_of_another_form_is_refused_with_its_uid() {
    for (field, value) in [("operation", json!("EAT")), ("name", json!(7)), ("kind", json!("x"))] {
        let mut review = create(json!({}));
        review["request"][field] = value;
        let response = ask(&failing(FailurePolicy::Fail), VALIDATE, &review).await;
        assert_eq!(response["allowed"], false, "{field}");
        assert_eq!(response["status"]["code"], 400, "{field}");
    }
}

#[tokio::test]
async fn other_methods_paths_and_content_types_are_refused() {
    let router = failing(FailurePolicy::Fail);
    let ask = async |method: Method, path: &str, content_type: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, content_type);
        let request = request.body(Body::from(create(json!({})).to_string())).unwrap();
        router.clone().oneshot(request).await.unwrap().status()
    };
    let json = "application/json";
    assert_eq!(ask(Method::POST, VALIDATE, "application/json; charset=utf-8").await, 200);
    assert_eq!(ask(Method::GET, VALIDATE, json).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ask(Method::POST, "/other", json).await, StatusCode::NOT_FOUND);
    let answer = ask(Method::POST, VALIDATE, "application/yaml").await;
    assert_eq!(answer, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(ask(Method::POST, VALIDATE, "").await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// Tells when it was dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

struct Waiting(Arc<Notify>, Arc<Notify>);

impl Validate<Website> for Waiting {
    async fn validate(&self, _: Operation<'_, Website>, _: &Admission) -> Verdict {
        let _dropped = Dropped(Arc::clone(&self.1));
        self.0.notify_one();
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_drops_the_handlers_future() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waiting = Waiting(Arc::clone(&started), Arc::clone(&dropped));
    let router = Webhooks::new().validate::<Website>(waiting).router().unwrap();
    let review = create(json!({})).to_string();
    tokio::select! {
        _ = send(&router, VALIDATE, review) => panic!("the handler must not answer"),
        () = started.notified() => {}
    }
    dropped.notified().await;
}

#[tokio::test]
async fn two_webhooks_at_one_path_are_an_error() {
    let webhooks = Webhooks::new().validate::<Website>(Failing).validate::<Website>(Failing);
    let error = webhooks.router().map(drop).unwrap_err();
    assert_eq!(error, Error::DuplicatePath { path: VALIDATE.to_owned() });
    let other = Hook::validating::<Website>(Failing).at("/other").name("other.example.com");
    let webhooks = Webhooks::new().validate::<Website>(Failing).hook(other);
    assert_eq!(webhooks.paths(), [VALIDATE, "/other"]);
    let response = ask(&webhooks.router().unwrap(), "/other", &create(json!({}))).await;
    assert_eq!(response["allowed"], Value::Bool(true));
    let bad = Webhooks::new().hook(Hook::validating::<Website>(Failing).at("/{x}"));
    assert_eq!(bad.router().map(drop), Err(Error::InvalidPath { path: "/{x}".to_owned() }));
}

/// The bytes of a review that takes a sixteenth of [`BUDGET`].
const PART: usize = 4 * 1024 * 1024;

/// How much memory reviews may take together. Beside its text there are two copies of a string, and
/// a bit for the rest of the review.
const BUDGET: usize = 16 * 3 * (PART + 16 * 1024);

/// A review of so many bytes.
fn sized(bytes: usize) -> Bytes {
    let mut review = create(json!({"theme": ""}));
    let rest = bytes - review.to_string().len();
    review["request"]["object"]["spec"]["theme"] = json!("x".repeat(rest));
    review.to_string().into()
}

/// A body of which only the first bytes arrive.
fn stalled(sent: Bytes) -> Body {
    let rest = stream::pending::<Result<Bytes, std::io::Error>>();
    Body::from_stream(stream::iter([Ok(sent)]).chain(rest))
}

fn assert_asks_to_try_again(answer: &Response) {
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()[RETRY_AFTER], "1");
}

#[tokio::test(start_paused = true)]
async fn bodies_beyond_the_budget_are_refused_until_others_are_answered() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waiting = Hook::validating::<Website>(Waiting(Arc::clone(&started), dropped));
    let webhooks = Webhooks::new().validate::<Website>(Failing).hook(waiting.at("/wait"));
    let webhooks = webhooks.hook(Hook::validating::<Website>(Failing).at("/other").name("b.c.d"));
    let router = webhooks.admission_memory_max(BUDGET).router().unwrap();
    let large = sized(PART);
    let mut handled: Vec<_> =
        (0..16).map(|_| Box::pin(send(&router, "/wait", large.clone()))).collect();
    for request in &mut handled {
        assert!(request.as_mut().now_or_never().is_none(), "the handler must wait");
    }
    // Also those of other webhooks.
    for path in [VALIDATE, "/other", "/wait"] {
        let answer = send(&router, path, large.clone()).await;
        assert_asks_to_try_again(&answer);
        assert_eq!(body(answer).await["reason"], "TooManyRequests");
    }
    handled.pop();
    assert_eq!(send(&router, VALIDATE, large.clone()).await.status(), 200);
    assert_eq!(send(&router, VALIDATE, large).await.status(), 200);
}

#[tokio::test]
async fn answer_that_nobody_reads_counts_as_its_bytes_and_gives_way_to_others() {
    let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
    // The bodies of four answers do not fit beside what one takes while it is handled.
    let webhooks = Webhooks::new().convert(conversion).conversion_memory_max(16 * PART);
    let router = webhooks.router().unwrap();
    let object = website(json!({"theme": "x".repeat(PART)})).to_string();
    let review = conversion_review(&format!("[{object}]")).replace("/v2", "/v1");
    let mut answers = Vec::new();
    for _ in 0..20 {
        let answer = send(&router, "/convert", review.clone()).await;
        assert_eq!(answer.status(), 200);
        answers.push(answer);
    }
    let broken_off = answers.remove(0).into_body().collect().await;
    assert!(broken_off.is_err(), "the oldest answer must give way");
    let last = answers.pop().expect("an answer");
    let length: usize = last.headers()[CONTENT_LENGTH].to_str().unwrap().parse().unwrap();
    assert_eq!(last.into_body().collect().await.unwrap().to_bytes().len(), length);
}

#[tokio::test]
async fn body_that_is_too_long_is_denied_with_its_uid_also_if_failures_are_ignored() {
    // The API server writes the uid first.
    let review = String::from_utf8(sized(8192).to_vec()).unwrap();
    let review = review.replace(r#""request":{"#, r#""request":{"uid":"0c9a8d74","#);
    let chunks = review.as_bytes().chunks(1024).map(Bytes::copy_from_slice).collect();
    let body_of = |chunks: Vec<Bytes>| {
        Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>)))
    };
    let router = failing(FailurePolicy::Ignore);
    let answer = body(send(&router, VALIDATE, body_of(chunks)).await).await;
    let response = &answer["response"];
    assert_eq!(response["uid"], "0c9a8d74");
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 413);
    let message = "the review cannot be read: the body has more than 4096 bytes";
    assert_eq!(response["status"]["message"], message);
}

#[tokio::test]
async fn uid_that_is_too_long_is_refused() {
    let conversion = conversion_review("[]").replace("705ab4f5", &"u".repeat(200));
    let mut admission = create(json!({}));
    admission["request"]["uid"] = json!("u".repeat(200));
    for (path, review) in [("/convert", conversion), (VALIDATE, admission.to_string())] {
        let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
        let webhooks = Webhooks::new().validate::<Website>(Failing).convert(conversion);
        let answer = send(&webhooks.router().unwrap(), path, review).await;
        assert_eq!(answer.status(), 400);
        assert_eq!(body(answer).await["message"], NO_UID);
    }
}

#[tokio::test]
async fn conversion_review_with_much_beside_its_objects_is_refused() {
    let much = "x".repeat(1024 * 1024);
    for review in [
        conversion_review("[]").replace("705ab4f5", &much),
        conversion_review("[]").replace("example.com/v2", &much),
        conversion_review(&format!(r#"[],"other":"{much}""#)),
    ] {
        let answer = send(&converting(), "/convert", review.clone()).await;
        if !review.contains("705ab4f5") {
            assert_eq!(answer.status(), 413);
            continue;
        }
        let result = body(answer).await["response"]["result"].take();
        let message = "the review cannot be read: it would take too much memory when it is decoded";
        assert_eq!(result["message"], message);
    }
}

/// A body of which all that arrives is kept, as much as fits.
fn stalled_in_parts() -> Body {
    stalled(Bytes::from(vec![b' '; PART]))
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_arrive_make_room_for_others_the_oldest_first() {
    let router = failing_with(FailurePolicy::Fail, PART);
    let asked = format!("{VALIDATE}?timeout=30s");
    let announced = || {
        let request = Request::post(&asked)
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, PART);
        let request = request.body(stalled(Bytes::new())).unwrap();
        Box::pin(router.clone().oneshot(request))
    };
    let mut silent: Vec<_> = (0..100).map(|_| announced()).collect();
    for request in &mut silent {
        assert!(request.as_mut().now_or_never().is_none(), "the body must be waited for");
    }
    let part = sized(PART);
    let mut slow: Vec<_> =
        (0..48).map(|_| Box::pin(send(&router, &asked, stalled_in_parts()))).collect();
    for request in &mut slow {
        assert!(request.as_mut().now_or_never().is_none(), "the body must be waited for");
    }
    assert_eq!(send(&router, VALIDATE, part.clone()).await.status(), 200);
    for request in slow.drain(..3) {
        let answer = request.now_or_never().expect("it must make room");
        assert_asks_to_try_again(&answer);
    }
    // The room is there now.
    assert_eq!(send(&router, VALIDATE, part).await.status(), 200);
    for request in &mut slow {
        assert!(request.as_mut().now_or_never().is_none(), "the body must be waited for");
    }
    sleep(Duration::from_secs(10)).await;
    for request in slow {
        let answer = request.now_or_never().expect("its time is over");
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn conversion_is_answered_while_another_body_of_all_the_budget_does_not_arrive() {
    let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
    let webhooks = Webhooks::new().validate::<Website>(Failing).convert(conversion);
    let router = webhooks.conversion_memory_max(PART).router().unwrap();
    let spaces = Bytes::from(vec![b' '; PART - 1]);
    let mut large = Box::pin(send(&router, "/convert", stalled(spaces)));
    assert!(large.as_mut().now_or_never().is_none(), "the body must be waited for");
    assert_eq!(send(&router, VALIDATE, create(json!({})).to_string()).await.status(), 200);
    assert_eq!(send(&router, "/convert", "no JSON").await.status(), StatusCode::BAD_REQUEST);
    assert_asks_to_try_again(&large.await);
}

/// An admission review with a field of so many maps, each of which has seven bytes.
fn of_small_maps(count: usize) -> String {
    let maps = format!("[{}]", vec![r#"{"":0}"#; count].join(","));
    create(json!({"theme": "MAPS"})).to_string().replace("\"MAPS\"", &maps)
}

fn conversion_review(objects: &str) -> String {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "705ab4f5", "desiredAPIVersion": "example.com/v2", "objects": "OBJECTS"},
    });
    review.to_string().replace("\"OBJECTS\"", objects)
}

fn converting() -> Router {
    let conversion = Conversion::hub::<v2::Website>().spoke::<v1::Website>();
    Webhooks::new().convert(conversion.keep_unknown_fields()).router().unwrap()
}

#[tokio::test]
async fn what_takes_too_much_memory_is_not_decoded_and_denied_also_if_failures_are_ignored() {
    let review = of_small_maps(1_000_000);
    let hook = Hook::validating::<Website>(Failing).failure_policy(FailurePolicy::Ignore);
    let answer = send(&Webhooks::new().hook(hook).router().unwrap(), VALIDATE, review).await;
    let response = body(answer).await["response"].take();
    assert_eq!(response["uid"], "0c9a8d74");
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 413);

    let maps = format!("[{}]", vec![r#"{"":0}"#; 1_000_000].join(","));
    let object = website(json!({"x": "MAPS"})).to_string().replace("\"MAPS\"", &maps);
    for review in [
        conversion_review(&format!("[{object}]")),
        conversion_review(&format!(r#"[],"other":{maps}"#)),
        conversion_review(&format!(r#"[],"objects":{maps}"#)),
        conversion_review(&maps).replace("objects", "obj\\u0065cts"),
    ] {
        let answer = send(&converting(), "/convert", review).await;
        let response = body(answer).await["response"].take();
        assert_eq!(response["uid"], "705ab4f5");
        assert_eq!(response["result"]["status"], "Failure");
        let message = response["result"]["message"].as_str().unwrap();
        assert!(message.contains("too much memory"), "{message}");
    }
}

#[tokio::test]
async fn memory_of_what_is_decoded_counts_while_it_is_handled() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waiting = Hook::validating::<Website>(Waiting(started, dropped)).at("/wait");
    let webhooks = Webhooks::new().validate::<Website>(Failing).hook(waiting);
    let router = webhooks.router().unwrap();
    // Its text would fit hundreds of times.
    let review = of_small_maps(120_000).replace("\"theme\"", "\"other\"");
    let mut first = Box::pin(send(&router, "/wait", review.clone()));
    assert!(first.as_mut().now_or_never().is_none(), "the handler must wait");
    assert_asks_to_try_again(&send(&router, VALIDATE, review.clone()).await);
    drop(first);
    assert_eq!(send(&router, VALIDATE, review).await.status(), 200);
}

struct Nothing;

impl Defaulter<Website> for Nothing {
    fn default(&self, _: &mut Website, _: &Admission) {}
}

/// An object as people write them, of so many bytes, with fields that no type knows.
fn usual(bytes: usize) -> Value {
    let part = json!({
        "name": "container-7",
        "image": "registry.example.com/shop/front-end:1.2.3",
        "env": [{"name": "LANGUAGE", "value": "en"}],
        "resources": {"limits": {"cpu": "100m", "memory": "128Mi"}},
    });
    let times = bytes / part.to_string().len();
    website(json!({"replicas": 5, "others": vec![part; times]}))
}

#[tokio::test(start_paused = true)]
async fn usual_objects_of_the_largest_size_fit() {
    let object = usual(1_500_000);
    let update = crate::webhooks::stage::review("UPDATE", object.clone(), object);
    let webhooks = Webhooks::new().validate::<Website>(Failing).default::<Website>(Nothing);
    let router = webhooks.router().unwrap();
    for path in [VALIDATE, MUTATE] {
        let response = ask(&router, path, &update).await;
        assert_eq!(response["allowed"], true, "{path}: {response}");
    }

    let objects = vec![usual(20_000).to_string(); 500].join(",");
    let answer = send(&converting(), "/convert", conversion_review(&format!("[{objects}]"))).await;
    let response = body(answer).await["response"].take();
    assert_eq!(response["result"]["status"], "Success", "{}", response["result"]);
    assert_eq!(response["convertedObjects"].as_array().map(Vec::len), Some(500));
}

/// What a type makes of `{}`: many bytes, and many fields when it is written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Wide {
    numbers: [u64; 32],
    texts: [String; 8],
}

mod wide_v1 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Wide", namespaced, schema = "disabled")]
    #[serde(default)]
    pub(crate) struct WideSpec {
        pub(crate) list: Vec<super::Wide>,
        pub(crate) boxes: Vec<Option<Box<super::Wide>>>,
        pub(crate) maps: Vec<std::collections::BTreeMap<String, super::Wide>>,
        #[serde(skip_serializing)]
        pub(crate) unwritten: Vec<super::Wide>,
    }
}

mod wide_v2 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
    #[kube(group = "example.com", version = "v2", kind = "Wide", namespaced, schema = "disabled")]
    #[serde(default)]
    pub(crate) struct WideSpec {
        pub(crate) list: Vec<super::Wide>,
    }
}

impl Convert<wide_v1::Wide> for wide_v2::Wide {
    fn from_spoke(spoke: wide_v1::Wide) -> Result<Self, ConvertError> {
        let spec = wide_v2::WideSpec { list: spoke.spec.list };
        Ok(Self { metadata: spoke.metadata, spec })
    }

    fn into_spoke(self) -> Result<wide_v1::Wide, ConvertError> {
        let spec = wide_v1::WideSpec { list: self.spec.list, ..Default::default() };
        Ok(wide_v1::Wide { metadata: self.metadata, spec })
    }
}

/// Allows all, but must not be asked.
struct Never;

impl Validate<wide_v1::Wide> for Never {
    async fn validate(&self, _: Operation<'_, wide_v1::Wide>, _: &Admission) -> Verdict {
        Verdict::allow()
    }
}

impl Defaulter<wide_v1::Wide> for Never {
    fn default(&self, _: &mut wide_v1::Wide, _: &Admission) {}
}

/// A `Wide` of `v1` with a list of so many elements.
fn wide(field: &str, element: &str, count: usize) -> String {
    let list = vec![element; count].join(",");
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Wide","metadata":{{"name":"a"}},"spec":{{"{field}":[{list}]}}}}"#
    )
}

#[tokio::test]
async fn memory_of_the_types_counts_as_they_are_decoded_and_encoded() {
    const MAX: usize = 16 * 1024 * 1024;
    let hooks =
        [Hook::validating::<wide_v1::Wide>(Never), Hook::defaulting::<wide_v1::Wide>(Never)];
    let hooks = hooks.map(|hook| hook.failure_policy(FailurePolicy::Ignore));
    let webhooks = hooks.into_iter().fold(Webhooks::new(), Webhooks::hook);
    let conversion = Conversion::hub::<wide_v2::Wide>().spoke::<wide_v1::Wide>();
    let webhooks = webhooks.convert(conversion.keep_unknown_fields());
    let webhooks = webhooks.admission_memory_max(MAX).conversion_memory_max(MAX);
    let router = webhooks.router().unwrap();
    let cases = [
        ("list", "{}", 20_000),
        ("unwritten", "{}", 20_000),
        ("boxes", "{}", 30_000),
        ("maps", r#"{"":{}}"#, 4_000),
    ];
    for (field, element, count) in cases {
        for (count, fits) in [(count, false), (count / 150, true)] {
            let object = wide(field, element, count);
            for (path, text) in [
                ("/validate-example-com-v1-wide", &object),
                ("/mutate-example-com-v1-wide", &object),
            ] {
                let mut review = create(json!({})).to_string();
                let placeholder = website(json!({})).to_string();
                review = review.replace(&placeholder, text).replace("\"websites\"", "\"wides\"");
                let response = body(send(&router, path, review).await).await["response"].take();
                assert_eq!(response["allowed"], fits, "{path}: {field}, {count}: {response}");
                if !fits {
                    assert_eq!(response["status"]["code"], 413);
                }
            }
            let review = conversion_review(&format!("[{object}]"));
            let answer = body(send(&router, "/convert", review).await).await;
            let result = &answer["response"]["result"];
            assert_eq!(result["status"] == "Success", fits, "{field}, {count}: {result}");
            if !fits {
                let message = result["message"].as_str().unwrap_or_default();
                assert!(message.contains("too much memory"), "{field}: {answer}");
            }
        }
    }
    // All is given back: otherwise the status would be another.
    let answer = send(&router, "/convert", " ".repeat(MAX - 1)).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
