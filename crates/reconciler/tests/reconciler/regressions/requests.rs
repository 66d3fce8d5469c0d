//! What errors of requests say: which request it was, when to retry, and no secret.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::config::{ExecConfig, ExecInteractiveMode};
use windlass_informer::ClientStack;
use windlass_reconciler::install_crd;

use super::*;

fn child() -> ConfigMap {
    crate::stage::config_map("child")
}

/// Writes to `child` in the way that has this name.
async fn write(way: &str, cx: &RunContext) -> Result<(), Error> {
    let mut read = child();
    read.metadata.resource_version = Some("1".to_owned());
    let maps = api(cx.client());
    match way {
        "live create" => cx.live().create(&child()).await.map(drop),
        "live apply" => cx.live().apply(&child()).await.map(drop),
        "replace" => Ok(maps.replace("child", &PostParams::default(), &read).await.map(drop)?),
        "delete" => Ok(maps.delete("child", &DeleteParams::default()).await.map(drop)?),
        way => unreachable!("{way}"),
    }
}

/// The first run of `one`, whose writes meet a fault.
async fn failure(way: &'static str, fault: Fault, stacked: bool) -> Run {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded");
    let verbs = FaultRule::new(fault).resource("configmaps").verb("create").verb("update");
    server.faults().add(verbs.verb("patch").verb("delete"));
    let client =
        if stacked { ClientStack::new().around(server.service(), "default") } else { client };
    let writer = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move { write(way, cx).await.map(|()| Action::done()) })
    });
    let running = run(client, writer);
    let first = loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(first) = running.controller.runs(&key("default/one")).into_iter().next() {
            break first;
        }
    };
    running.end().await.expect("it stops");
    first
}

/// worker.rs: the error of a run that makes several writes had neither verb nor kind nor name.
/// Every error of a request has them, and the code, however the request was made and however it
/// failed.
#[tokio::test(start_paused = true)]
async fn failed_request_is_named() {
    let fail = |code| Fault::Fail { code, retry_after: None };
    for (way, fault, expected) in [
        ("live create", fail(500), "(create configmaps default/child) (500)"),
        ("live create", Fault::Refuse, "create configmaps default/child: "),
        ("live apply", fail(409), "(patch configmaps default/child) (409)"),
        ("live apply", Fault::Refuse, "patch configmaps default/child: "),
        ("replace", fail(503), "(update configmaps default/child) (503)"),
        ("delete", fail(403), "(delete configmaps default/child) (403)"),
    ] {
        for stacked in [true, false] {
            let outcome = failure(way, fault.clone(), stacked).await.outcome;
            let Outcome::Failed { message, .. } = &outcome else { panic!("{way}: {outcome:?}") };
            assert_eq!(message.matches(expected).count(), 1, "{message}");
        }
    }
    let outcome = failure("live apply", Fault::Hang, true).await.outcome;
    let Outcome::Failed { message, .. } = &outcome else { panic!("{outcome:?}") };
    let expected = "patch configmaps default/child: the server sent nothing for 30 seconds";
    assert!(message.contains(expected), "{message}");
}

/// error.rs `server_delay`: the 429 of an overloaded kube-apiserver is text with a Retry-After
/// header, and kube drops headers. So the run was tried again after 5, 10 and 20 ms.
#[tokio::test(start_paused = true)]
async fn overloaded_server_is_left_alone_for_as_long_as_it_says() {
    for stacked in [true, false] {
        for way in ["live create", "live apply", "replace", "delete"] {
            let fault = Fault::Fail { code: 429, retry_after: Some(7) };
            let run = failure(way, fault, stacked).await;
            let Outcome::Failed { class, .. } = run.outcome else { panic!("{run:?}") };
            let retry_in = run.retry_in.expect("a retry");
            assert_eq!((class, retry_in), (Class::Throttled, Duration::from_secs(7)), "{way}");
        }
    }
}

/// worker.rs `schedule`: while a server sheds load it says one second each time, and every key came
/// back after just that.
#[tokio::test(start_paused = true)]
async fn overloaded_server_is_left_alone_for_longer_each_time() {
    let (cluster, client) = cluster().await;
    let fault = Fault::Fail { code: 429, retry_after: Some(1) };
    cluster.server().expect("embedded").faults().add(FaultRule::new(fault).verb("patch"));
    let writer = does(|_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move { write("live apply", cx).await.map(|()| Action::done()) })
    });
    let running = run(client, writer);
    tokio::time::sleep(LONG).await;
    let runs = running.controller.runs(&key("default/one"));
    running.end().await.expect("it stops");
    let last = runs.last().expect("it ran");
    assert_eq!(last.retry_in, Some(Duration::from_mins(1)));
    assert!(last.attempt < 200, "it ran {} times in two hours", last.attempt);
}

/// What must appear nowhere.
const SECRET: &str = "hunter2";

/// kube's own client whose exec plugin fails once the client is made, with a secret in its
/// arguments, its environment and its output.
fn client_with_a_broken_plugin(folder: &std::path::Path) -> kube::Client {
    let file = folder.join("has-run");
    // The token is about to expire, so that the plugin is run for each request. kube runs it to
    // make a client, too.
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": SECRET, "expirationTimestamp": "2020-01-01T00:00:00Z"},
    });
    let script = format!(
        "if [ -e {file} ]; then echo $PASSWORD; echo $PASSWORD >&2; exit 3; fi; \
         echo '{credential}'",
        file = file.display()
    );
    let mut config = kube::Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    config.auth_info.exec = Some(ExecConfig {
        api_version: Some("client.authentication.k8s.io/v1".to_owned()),
        command: Some("sh".to_owned()),
        args: Some(vec!["-c".to_owned(), script, SECRET.to_owned()]),
        env: Some(vec![
            [("name", "PASSWORD"), ("value", SECRET)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        ]),
        interactive_mode: Some(ExecInteractiveMode::Never),
        ..ExecConfig::default()
    });
    let client = kube::Client::try_from(config).expect("a client");
    std::fs::write(file, "").expect("a file");
    client
}

/// error.rs showed kube's `AuthExecRun` as it is: with the command of the plugin, its arguments and
/// what it wrote.
#[tokio::test(start_paused = true)]
async fn secrets_of_an_exec_plugin_are_shown_nowhere() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write: {source:?}")]
    struct Wrapped {
        #[from]
        source: kube::Error,
    }

    let log = Log::start();
    let folder = tempfile::tempdir().expect("a folder");
    let broken = client_with_a_broken_plugin(folder.path());
    let (_cluster, client) = cluster().await;
    let (sent, mut shown) = mpsc::channel(16);
    let reconciler = {
        let broken = broken.clone();
        does(move |map: Arc<ConfigMap>, cx: &RunContext| {
            let (broken, sent) = (broken.clone(), sent.clone());
            Box::pin(async move {
                let plain = api(&broken).get("one").await.expect_err("there are no credentials");
                let wrapped = api(&broken).get("one").await.map_err(Wrapped::from);
                for error in [Error::from(plain), wrapped.expect_err("none again").into()] {
                    cx.event(&*map).warning("Failed", error.to_string());
                    let text = format!("{error} {error:?} {error:#?} {}", error.class());
                    sent.send(text).await.expect("the test listens");
                }
                Err(api(&broken).get("one").await.expect_err("no credentials").into())
            })
        })
    };
    let running = run(client.clone(), reconciler);
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(shown.recv().await.expect("a run"));
    }
    let runs = running.controller.runs(&key("default/one"));
    all.push(format!("{runs:?} {runs:#?} {:?}", running.controller));
    running.end().await.expect("it stops");
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client, "default");
    let events = events.list(&kube::api::ListParams::default()).await.expect("events").items;
    assert!(!events.is_empty(), "the event was written");
    all.push(format!("{events:?}"));
    let mut shops = CustomResourceDefinition::default();
    shops.metadata.name = Some("shops.example.com".to_owned());
    let installed = install_crd(&broken, &shops).await.expect_err("no credentials");
    all.push(format!("{installed} {installed:?} {installed:#?}"));
    all.extend(log.lines());
    let all = all.join("\n");
    assert!(all.contains("the exec plugin ended with exit status: 3"), "{all}");
    assert!(!all.contains(SECRET), "{all}");
}
