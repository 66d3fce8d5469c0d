//! The real control plane: starting, sharing, faults and snapshots.
//!
//! One cluster serves all tests with faults, one after the other; each leaves it in order.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, Error, KUBERNETES_VERSION};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Returns the cluster for faults. It has no watch cache for config maps, so that a compaction
/// takes effect at once.
async fn fault_cluster() -> Result<MutexGuard<'static, ControlPlane>, Error> {
    static FAULT_CLUSTER: OnceCell<Mutex<ControlPlane>> = OnceCell::const_new();
    let start = || async {
        let options = ControlPlaneOptions::new().apiserver_flag("--watch-cache-sizes=configmaps#0");
        ControlPlane::start(options).await.map(Mutex::new)
    };
    Ok(FAULT_CLUSTER.get_or_try_init(start).await?.lock().await)
}

fn config_maps(cluster: &ControlPlane) -> Result<Api<ConfigMap>, Error> {
    Ok(Api::namespaced(cluster.client()?, "default"))
}

async fn create(
    cluster: &ControlPlane,
    name: &str,
) -> Result<ConfigMap, Box<dyn std::error::Error>> {
    let object = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    Ok(config_maps(cluster)?.create(&PostParams::default(), &object).await?)
}

/// Returns the version of the whole store.
async fn version(cluster: &ControlPlane) -> Result<u64, Box<dyn std::error::Error>> {
    let list = config_maps(cluster)?.list(&ListParams::default()).await?;
    Ok(list.metadata.resource_version.ok_or("a list must have a version")?.parse()?)
}

async fn get(cluster: &ControlPlane, path: &str) -> Result<String, Box<dyn std::error::Error>> {
    let request = http::Request::get(path).body(Vec::new())?;
    Ok(cluster.client()?.request_text(request).await?)
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn answers_with_the_version_that_it_was_built_with() -> TestResult {
    let cluster = ControlPlane::shared().await?;
    let version = cluster.client()?.apiserver_version().await?;
    let minor = format!("v{}.{}.", version.major, version.minor);
    assert!(version.git_version.starts_with(&minor), "{version:?}");
    // Programs in this folder may have another version, as in the nightly tests.
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        assert_eq!(version.git_version, format!("v{KUBERNETES_VERSION}"));
    }
    Ok(())
}

#[test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
fn tests_with_runtimes_of_their_own_share_a_cluster() -> TestResult {
    let names_from_a_new_runtime = || -> Result<_, Box<dyn std::error::Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let cluster = ControlPlane::shared().await?;
            let namespaces: Api<Namespace> = Api::all(cluster.client()?);
            namespaces.get("default").await?;
            Ok(cluster)
        })
    };
    let (one, other) = (names_from_a_new_runtime()?, names_from_a_new_runtime()?);
    assert!(Arc::ptr_eq(&one, &other));
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn tokens_decide_what_is_allowed() -> TestResult {
    let cluster = ControlPlane::shared().await?;
    for (token, code) in [(cluster.powerless_token(), 403), ("no-such-token", 401)] {
        let namespaces: Api<Namespace> = Api::all(cluster.client_as(token)?);
        let Err(kube::Error::Api(status)) = namespaces.get("default").await else {
            return Err(format!("{token} must be refused").into());
        };
        assert_eq!(status.code, code);
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn kubeconfig_leads_to_the_cluster() -> TestResult {
    let cluster = ControlPlane::shared().await?;
    let kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig_path())?;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let namespaces: Api<Namespace> = Api::all(kube::Client::try_from(config)?);
    namespaces.get("default").await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn data_survives_the_end_of_the_api_server() -> TestResult {
    let cluster = fault_cluster().await?;
    let before = create(&cluster, "survives-apiserver").await?;

    cluster.kill_apiserver()?;
    assert!(matches!(cluster.kill_apiserver(), Err(Error::NotRunning { .. })));
    assert!(get(&cluster, "/version").await.is_err(), "nobody must answer");
    cluster.start_apiserver().await?;
    assert_eq!(config_maps(&cluster)?.get("survives-apiserver").await?, before);

    cluster.stop_apiserver().await?;
    cluster.start_apiserver().await?;
    assert_eq!(config_maps(&cluster)?.get("survives-apiserver").await?, before);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn data_survives_the_end_of_etcd() -> TestResult {
    let cluster = fault_cluster().await?;
    let before = create(&cluster, "survives-etcd").await?;

    cluster.kill_etcd()?;
    assert_eq!(cluster.pids().etcd, None);
    cluster.start_etcd().await?;
    cluster.ready().await?;
    assert_eq!(config_maps(&cluster)?.get("survives-etcd").await?, before);

    cluster.stop_etcd().await?;
    cluster.start_etcd().await?;
    cluster.ready().await?;
    assert_eq!(config_maps(&cluster)?.get("survives-etcd").await?, before);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn paused_server_answers_when_it_goes_on() -> TestResult {
    let cluster = fault_cluster().await?;
    cluster.pause_apiserver()?;
    let answer = get(&cluster, "/version");
    let resume = async {
        // Lets the task poll the request first.
        tokio::task::yield_now().await;
        cluster.resume_apiserver()
    };
    let (answer, resumed) = tokio::join!(answer, resume);
    resumed?;
    assert!(answer?.contains("gitVersion"));

    cluster.pause_etcd()?;
    cluster.resume_etcd()?;
    cluster.ready().await.map_err(Into::into)
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn restore_takes_versions_and_objects_back() -> TestResult {
    let cluster = fault_cluster().await?;
    create(&cluster, "before-snapshot").await?;
    // Read before the snapshot, because the server itself writes something now and then.
    let before_snapshot = version(&cluster).await?;
    let snapshot = cluster.etcd_snapshot().await?;
    for index in 0..50 {
        create(&cluster, &format!("after-snapshot-{index}")).await?;
    }
    let later = version(&cluster).await?;

    // Twice, because a snapshot can be restored more than once.
    for _ in 0..2 {
        cluster.restore(&snapshot).await?;
        let restored = version(&cluster).await?;
        let is_between = before_snapshot <= restored && restored < later;
        assert!(is_between, "{before_snapshot} {restored} {later}");
        config_maps(&cluster)?.get("before-snapshot").await?;
        assert!(config_maps(&cluster)?.get_opt("after-snapshot-0").await?.is_none());
        create(&cluster, "after-restore").await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn watch_from_before_a_compaction_is_told_that_it_is_gone() -> TestResult {
    let cluster = fault_cluster().await?;
    let old = version(&cluster).await?;
    // The newest change remains; only what precedes it is gone.
    create(&cluster, "compacted").await?;
    create(&cluster, "newest").await?;
    let watch = format!(
        "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion={old}"
    );
    let first_event = async || -> Result<Value, Box<dyn std::error::Error>> {
        let events = get(&cluster, &watch).await?;
        Ok(serde_json::from_str(events.lines().next().ok_or("there must be an event")?)?)
    };
    assert_eq!(first_event().await?["type"], "ADDED");

    assert!(cluster.compact().await? > old);
    let event = first_event().await?;
    assert_eq!(event["type"], "ERROR", "{event}");
    assert_eq!(event["object"]["code"], 410, "{event}");
    assert_eq!(event["object"]["reason"], "Expired", "{event}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn server_that_cannot_start_is_reported_with_its_log() -> TestResult {
    let options = ControlPlaneOptions::new().apiserver_flag("--no-such-flag");
    let error = ControlPlane::start(options).await.expect_err("a flag that does not exist");
    let text = error.to_string();
    assert!(text.contains("kube-apiserver ended with exit status: 1"), "{text}");
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
    Ok(())
}
