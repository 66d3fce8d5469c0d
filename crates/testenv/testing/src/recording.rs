//! Records the requests that an operator sends in its tests, for `cargo windlass rbac`.
//!
//! The variable [`VARIABLE`] names the folder of the [evidence](windlass_evidence). Without it,
//! nothing is recorded. With it, the clients of controllers and managers under test get a layer
//! that records each request with its outcome, including refused ones. Requests of the manager
//! itself are left out: it declares the rights that they need.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use tower::layer::layer_fn;
use tower::{BoxError, Service};
use windlass::informer::ClientStack;
use windlass::informer::client::{HttpService, RequestInfo, ResponseBody};
use windlass::manager::{Manager, OwnRequest};
use windlass::reconciler::{CONTROLLER_LABEL, SentBy};
use windlass_evidence::{
    Fact, Outcome, Owner, Recorder, Request as SeenRequest, Sender, Target, VARIABLE, Written,
};

/// Records the requests of one test.
#[derive(Clone)]
pub(crate) struct Recording {
    recorder: Arc<Recorder>,
    test: Option<Arc<str>>,
}

impl Recording {
    /// Returns `None` unless the evidence is requested. Must be called in the thread of the test,
    /// because the name of the thread is recorded as the name of the test.
    ///
    /// # Panics
    /// If the evidence file cannot be created.
    pub(crate) fn start() -> Option<Self> {
        /// The file of this process.
        static FILE: OnceLock<Option<Arc<Recorder>>> = OnceLock::new();
        let open = || {
            let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty())?;
            let package = std::env::var("CARGO_MANIFEST_DIR").ok();
            match Recorder::open(Path::new(&folder), &program(), package) {
                Ok(recorder) => Some(Arc::new(recorder)),
                Err(error) => panic!("{VARIABLE} is {}, but: {error}", folder.display()),
            }
        };
        let recorder = FILE.get_or_init(open).clone()?;
        Some(Self { recorder, test: test_name().map(Into::into) })
    }

    /// Records the requests of a client.
    pub(crate) fn watch(&self, stack: ClientStack) -> ClientStack {
        let recording = self.clone();
        stack.layer(layer_fn(move |inner| Recorded { inner, recording: recording.clone() }))
    }

    /// Records the rights that a manager declares.
    pub(crate) fn watch_manager(self, manager: Manager) -> Manager {
        manager.on_rights(move |rights| {
            for right in rights {
                self.note(Fact::Declared(right));
            }
        })
    }

    fn note(&self, fact: Fact) {
        if let Err(error) = self.recorder.note(fact, self.test.as_deref()) {
            panic!("the evidence for `cargo windlass rbac` cannot be written: {error}");
        }
    }
}

/// A client with recorded requests.
struct Recorded {
    inner: HttpService,
    recording: Recording,
}

impl Service<Request<Body>> for Recorded {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let seen = seen(&request);
        let is_write = *request.method() != Method::GET;
        let body = is_write.then(|| request.body().try_clone()).flatten();
        let sent_by = request.extensions().get::<SentBy>().cloned();
        let answer = self.inner.call(request);
        let recording = self.recording.clone();
        Box::pin(async move {
            let Some(mut seen) = seen else { return answer.await };
            if let (Some(sent_by), Some(body)) = (&sent_by, body)
                && seen.target.subresource.is_none()
                && let Ok(body) = body.collect_bytes().await
            {
                seen.written = written(sent_by, &body);
            }
            let mut pending = Pending { recording, seen: Some(seen) };
            let answer = answer.await;
            if let Ok(answer) = &answer {
                pending.end(Outcome::Answered(answer.status().as_u16()));
            }
            answer
        })
    }
}

/// A request in progress. It is recorded when it ends, even if it is cancelled.
struct Pending {
    recording: Recording,
    seen: Option<SeenRequest>,
}

impl Pending {
    fn end(&mut self, outcome: Outcome) {
        if let Some(seen) = self.seen.take() {
            self.recording.note(Fact::Request(SeenRequest { outcome, ..seen }));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.end(Outcome::Unanswered);
    }
}

/// Returns the record of a request; `None` if it needs no right, or a declared one.
fn seen(request: &Request<Body>) -> Option<SeenRequest> {
    let RequestInfo { verb, target, .. } = RequestInfo::of(request);
    if request.extensions().get::<OwnRequest>().is_some() || verb == "other" {
        return None;
    }
    let target = target?;
    let sender = match request.extensions().get::<SentBy>() {
        Some(sent_by) => Sender::Controller(sent_by.controller().to_owned()),
        None => Sender::Operator,
    };
    Some(SeenRequest {
        verb: verb.to_owned(),
        target: Target {
            group: target.group,
            plural: target.plural,
            subresource: target.subresource,
            namespace: target.namespace,
            name: target.name,
        },
        sender,
        outcome: Outcome::Unanswered,
        written: Written::default(),
    })
}

/// Extracts what the body of a controller's write reveals. Windlass sends JSON; a reconciler's own
/// apply may be YAML, which is not inspected.
fn written(sent_by: &SentBy, body: &[u8]) -> Written {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let metadata = &body["metadata"];
    let preconditions = [&metadata["uid"], &metadata["resourceVersion"], &body["preconditions"]];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owners = owners.filter_map(|owner| {
        let group = owner["apiVersion"].as_str()?.rsplit_once('/').map_or("", |(group, _)| group);
        let resource = sent_by.watched(group, owner["kind"].as_str()?)?;
        Some(Owner {
            group: resource.group().to_owned(),
            plural: resource.plural().to_owned(),
            is_namespaced: resource.is_namespaced(),
            is_controller: owner["controller"] == true,
            is_blocked: owner["blockOwnerDeletion"] == true,
        })
    });
    Written {
        is_child: metadata["labels"][CONTROLLER_LABEL].is_string(),
        is_conditional: preconditions.iter().any(|one| !one.is_null()),
        owners: owners.collect(),
    }
}

/// Returns the test that runs in this thread, with its program: `reconcile website_becomes_ready`.
fn test_name() -> Option<String> {
    let thread = std::thread::current();
    match thread.name()? {
        "main" => None,
        name if name.starts_with("tokio-") => None,
        name => Some(format!("{} {name}", program())),
    }
}

/// Returns the name of this program, without the hash that cargo adds to that of a test.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match name.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 => name.to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::api::{Api, PostParams};
    use serde_json::json;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;
    use windlass::informer::SharedInformerFactory;
    use windlass::prelude::{Action, Controller, RunContext, Watch};
    use windlass::reconciler::{owner_reference, reconcile_fn};
    use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};

    use super::*;

    /// Returns what a recorder has written about these requests.
    async fn recorded(requests: Vec<Request<Body>>, rule: FaultRule) -> Vec<SeenRequest> {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::open(folder.path(), "tests", None).expect("a file");
        let recording = Recording { recorder: Arc::new(recorder), test: None };
        let server = ApiServer::new();
        server.faults().add(rule);
        let client = recording.watch(ClientStack::new()).around(server.service(), "default");
        for request in requests {
            // Cancels the request after a second.
            let _ = timeout(Duration::from_secs(1), client.send(request)).await;
        }
        drop(client);
        // The client runs in a task of its own, which drops the cancelled request.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let entries = windlass_evidence::read(folder.path()).expect("entries").into_iter();
        let request = |fact| match fact {
            Fact::Request(request) => request,
            Fact::Declared(right) => panic!("{right:?}"),
        };
        entries.map(|entry| request(entry.fact)).collect()
    }

    fn get(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).expect("a request")
    }

    #[tokio::test(start_paused = true)]
    async fn request_is_recorded_with_its_outcome_whatever_became_of_it() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        for (fault, outcome) in [
            (Fault::Fail { code: 403, retry_after: None }, Outcome::Answered(403)),
            (Fault::Refuse, Outcome::Unanswered),
            (Fault::Hang, Outcome::Unanswered),
        ] {
            let seen = recorded(vec![get(MAPS)], FaultRule::new(fault)).await;
            assert_eq!(seen.len(), 1, "{seen:?}");
            let SeenRequest { verb, target, sender, .. } = &seen[0];
            assert_eq!((&**verb, &*target.plural), ("list", "configmaps"));
            assert_eq!((sender, seen[0].outcome), (&Sender::Operator, outcome));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_the_manager_itself_and_those_without_a_resource_are_left_out() {
        let mut own = get("/api/v1/namespaces/default/secrets/certificates");
        own.extensions_mut().insert(OwnRequest);
        let other = get("/api/v1/namespaces/default/secrets/db");
        let rule = FaultRule::new(Fault::Refuse).verb("watch");
        let seen = recorded(vec![own, get("/version"), other], rule).await;
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(seen[0].to_string(), "get secrets default/db");
        assert_eq!(seen[0].outcome, Outcome::Answered(404));
    }

    #[tokio::test]
    async fn owner_whose_deletion_a_created_object_blocks_is_recorded() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::open(folder.path(), "tests", None).expect("a file");
        let recording = Recording { recorder: Arc::new(recorder), test: None };
        let server = ApiServer::new();
        let maps: Api<ConfigMap> =
            Api::default_namespaced(ClientStack::new().around(server.service(), "default"));
        let map = serde_json::from_value(json!({"metadata": {"name": "owner"}}));
        maps.create(&PostParams::default(), &map.expect("an object")).await.expect("created");

        let client = recording.watch(ClientStack::new()).around(server.service(), "default");
        let factory = SharedInformerFactory::new(client);
        let reconciler = reconcile_fn(async |map: Arc<ConfigMap>, cx: &RunContext| {
            let mut secret = Secret::default();
            secret.metadata.name = Some("made".into());
            secret.metadata.namespace = Some("default".into());
            secret.metadata.owner_references = Some(vec![owner_reference(&*map)?]);
            cx.live().create(&secret).await?;
            Ok(Action::done())
        });
        let controller =
            Controller::named("configmap", Watch::<ConfigMap>::new()).build(&factory, reconciler);
        let controller = controller.expect("a controller");
        let (mut finished, stop) = (controller.handle().finished(), CancellationToken::new());
        let first = async {
            finished.next().await.expect("a run");
            stop.cancel();
        };
        let (ran, ()) = futures::join!(controller.run(stop.clone()), first);
        ran.expect("it stops");
        factory.shut_down().await;

        let entries = windlass_evidence::read(folder.path()).expect("entries");
        let made = entries.into_iter().find_map(|entry| match entry.fact {
            Fact::Request(request) if request.verb == "create" => Some(request.written.owners),
            _ => None,
        });
        let owner = Owner {
            group: String::new(),
            plural: "configmaps".to_owned(),
            is_namespaced: true,
            is_controller: true,
            is_blocked: true,
        };
        assert_eq!(made, Some(vec![owner]));
    }
}
