//! Definitions: installed, brought up to date, and waited for; and what is said when that does not
//! work.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use windlass_reconciler::{InstallError, Obstacle, install_crd, install_crd_within};
use windlass_testserver::apiserver::{Fault, FaultRule};
use windlass_testserver::{Log, TestServer, on_each_server};

/// A definition in a group of its own, since tests share the real server. It is written as `kube`'s
/// derive writes it.
fn foos(group: &str) -> CustomResourceDefinition {
    named(group, "foos", "Foo")
}

fn named(group: &str, plural: &str, kind: &str) -> CustomResourceDefinition {
    let schema = json!({
        "description": "Auto-generated derived type for FooSpec via `CustomResource`",
        "type": "object",
        "title": kind,
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["replicas"],
                "properties": {
                    "replicas": {
                        "type": "integer", "format": "int32", "minimum": 1.0, "maximum": 10.0,
                    },
                    "note": {"type": "string", "nullable": true},
                    "tags": {"type": "array", "items": {"type": "string"}, "default": []},
                },
            },
            "status": {
                "type": "object",
                "nullable": true,
                "properties": {"availableReplicas": {"type": "integer", "format": "int32"}},
            },
        },
    });
    definition(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    }))
}

fn definition(value: Value) -> CustomResourceDefinition {
    serde_json::from_value(value).expect("a definition")
}

fn foo_api(client: &kube::Client, group: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, "v1alpha1", "Foo");
    let resource = ApiResource::from_gvk_with_plural(&kind, "foos");
    Api::namespaced_with(client.clone(), "default", &resource)
}

fn foo(group: &str, name: &str) -> DynamicObject {
    let object = json!({
        "apiVersion": format!("{group}/v1alpha1"),
        "kind": "Foo",
        "metadata": {"name": name},
        "spec": {"replicas": 1},
    });
    serde_json::from_value(object).expect("an object")
}

on_each_server!(objects_can_be_made_once_the_definition_is_installed);
async fn objects_can_be_made_once_the_definition_is_installed(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let installed = install_crd(&client, &foos("made.example.com")).await;
    assert!(installed.expect("installed").metadata.uid.is_some());
    let api = foo_api(&client, "made.example.com");
    let object = foo("made.example.com", "one");
    api.create(&PostParams::default(), &object).await.expect("created");
    assert_eq!(api.list(&ListParams::default()).await.expect("a list").items.len(), 1);
}

on_each_server!(definition_that_has_not_changed_is_not_written);
async fn definition_that_has_not_changed_is_not_written(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let wanted = foos("same.example.com");
    let first = install_crd(&client, &wanted).await.expect("installed");
    let again = install_crd(&client, &wanted).await.expect("installed");
    // Its status may have been written meanwhile, its spec was not.
    assert_eq!(first.metadata.generation, again.metadata.generation);
    if let Some(server) = cluster.server() {
        let before = server.revision();
        install_crd(&client, &wanted).await.expect("installed");
        assert_eq!(server.revision(), before);
    }
}

on_each_server!(definition_that_is_there_is_brought_up_to_date_and_what_others_added_stays);
async fn definition_that_is_there_is_brought_up_to_date_and_what_others_added_stays(
    cluster: TestServer,
) {
    let client = cluster.client().expect("a client");
    let mut wanted = foos("changed.example.com");
    wanted.metadata.labels = Some([("ours".to_owned(), "1".to_owned())].into());
    install_crd(&client, &wanted).await.expect("installed");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let theirs = Patch::Merge(json!({"metadata": {"labels": {"theirs": "1"}}}));
    let name = "foos.changed.example.com";
    definitions.patch(name, &PatchParams::default(), &theirs).await.expect("patched");

    let mut second = wanted.spec.versions[0].clone();
    (second.name, second.storage) = ("v1".to_owned(), false);
    wanted.spec.versions.push(second);
    wanted.spec.names.short_names = Some(vec!["fo".to_owned()]);
    wanted.metadata.labels = Some([("ours".to_owned(), "2".to_owned())].into());
    let installed = install_crd(&client, &wanted).await.expect("installed");
    assert_eq!(installed.spec.versions.len(), 2);
    let labels = installed.metadata.labels.expect("labels");
    assert_eq!((&*labels["ours"], &*labels["theirs"]), ("2", "1"));
    // Discovery has the new version.
    let served = client.list_api_group_resources("changed.example.com/v1").await;
    assert!(served.expect("served").resources.iter().any(|resource| resource.name == "foos"));
}

on_each_server!(names_that_another_definition_has_are_told);
async fn names_that_another_definition_has_are_told(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    install_crd(&client, &foos("taken.example.com")).await.expect("installed");
    let other = named("taken.example.com", "others", "Foo");
    let limit = Duration::from_secs(3);
    let error = install_crd_within(&client, &other, limit).await.expect_err("taken");
    let InstallError::NotReady { obstacle: Obstacle::NamesNotAccepted { message }, .. } = &error
    else {
        panic!("{error}");
    };
    assert!(message.contains("is already in use"), "{message}");
    let text = error.to_string();
    assert!(text.contains("others.taken.example.com cannot be used after 3 s"), "{text}");
    assert!(text.contains("delete the definition that has them, or choose others"), "{text}");

    // Nor does a definition that was fine before become ready with a name that is taken.
    let mut bars = named("taken.example.com", "bars", "Bar");
    install_crd(&client, &bars).await.expect("installed");
    bars.spec.names.short_names = Some(vec!["foo".to_owned()]);
    let error = install_crd_within(&client, &bars, limit).await.expect_err("taken");
    assert!(error.to_string().contains("its names are not accepted"), "{error}");
}

on_each_server!(definition_that_the_server_refuses_is_not_tried_again);
async fn definition_that_the_server_refuses_is_not_tried_again(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let mut wrong = foos("wrong.example.com");
    wrong.metadata.name = Some("something.else".to_owned());
    let error = install_crd(&client, &wrong).await.expect_err("refused");
    assert!(matches!(error, InstallError::Refused { verb: "create", .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("something.else") && text.contains("metadata.name"), "{text}");
    wrong.metadata.name = None;
    let error = install_crd(&client, &wrong).await.expect_err("no name");
    assert!(matches!(error, InstallError::Unnamed), "{error}");
}

on_each_server!(two_who_install_at_once_both_succeed);
async fn two_who_install_at_once_both_succeed(cluster: TestServer) {
    let client = cluster.client().expect("a client");
    let wanted = foos("race.example.com");
    let (one, two) = tokio::join!(install_crd(&client, &wanted), install_crd(&client, &wanted));
    let uids = [one, two].map(|installed| installed.expect("installed").metadata.uid);
    assert_eq!(uids[0], uids[1]);
}

#[tokio::test(start_paused = true)]
async fn missing_rights_are_named() {
    for verb in ["get", "create"] {
        let cluster = TestServer::embedded();
        let server = cluster.server().expect("it is embedded");
        let fault = Fault::Fail { code: 403, retry_after: None };
        let id = server.faults().add(FaultRule::new(fault).verb(verb));
        let client = cluster.client().expect("a client");
        let error = install_crd(&client, &foos("example.com")).await.expect_err("forbidden");
        assert!(matches!(error, InstallError::Forbidden { .. }), "{error}");
        let text = error.to_string();
        let start = format!("cannot {verb} the CustomResourceDefinition foos.example.com: ");
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains("get, create and patch on customresourcedefinitions"), "{text}");
        assert_eq!(server.faults().times_applied(id), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_that_passes_is_waited_for() {
    for verb in ["get", "create", "patch"] {
        for fault in [
            Fault::Fail { code: 503, retry_after: None },
            Fault::Fail { code: 429, retry_after: None },
            Fault::Refuse,
            Fault::LoseAnswer,
            Fault::Hang,
        ] {
            let cluster = TestServer::embedded();
            let server = cluster.server().expect("it is embedded");
            let client = cluster.client().expect("a client");
            let mut wanted = foos("example.com");
            if verb == "patch" {
                install_crd(&client, &wanted).await.expect("installed");
                wanted.spec.names.short_names = Some(vec!["fo".to_owned()]);
            }
            let rule =
                FaultRule::new(fault.clone()).verb(verb).resource("customresourcedefinitions");
            let id = server.faults().add(rule.times(2));
            let installed = install_crd(&client, &wanted).await;
            let installed = installed.unwrap_or_else(|error| panic!("{verb} {fault:?}: {error}"));
            assert_eq!(installed.spec.names.short_names, wanted.spec.names.short_names);
            assert!(server.faults().times_applied(id) >= 1, "{verb} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_is_answered_by_another_look() {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("it is embedded");
    let client = cluster.client().expect("a client");
    let mut wanted = foos("example.com");
    install_crd(&client, &wanted).await.expect("installed");
    let fault = Fault::Fail { code: 409, retry_after: None };
    let id = server.faults().add(FaultRule::new(fault).verb("patch").times(1));
    wanted.spec.names.short_names = Some(vec!["fo".to_owned()]);
    let installed = install_crd(&client, &wanted).await.expect("installed");
    assert_eq!(server.faults().times_applied(id), 1);
    assert_eq!(installed.spec.names.short_names, wanted.spec.names.short_names);
}

#[tokio::test(start_paused = true)]
async fn server_that_stays_away_is_told_when_time_is_up() {
    for (fault, expected) in [
        (Fault::Hang, "the server does not answer"),
        (Fault::Fail { code: 503, retry_after: None }, "the last attempt to get it failed"),
    ] {
        let cluster = TestServer::embedded();
        cluster.server().expect("it is embedded").faults().add(FaultRule::new(fault));
        let (client, log) = (cluster.client().expect("a client"), Log::start());
        let error = install_crd(&client, &foos("example.com")).await.expect_err("no server");
        let warnings = log.lines_with("not installed yet: ");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(expected), "{warnings:?}");
        let text = error.to_string();
        // Otherwise the same is printed twice.
        assert!(std::error::Error::source(&error).is_none());
        let start = "the CustomResourceDefinition foos.example.com cannot be used after 30 s: ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn older_definition_that_is_going_is_waited_for() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let wanted = foos("example.com");
    let older = install_crd(&client, &wanted).await.expect("installed");
    let api = foo_api(&client, "example.com");
    let mut held = foo("example.com", "held");
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    api.create(&PostParams::default(), &held).await.expect("created");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = DeleteParams::default();
    definitions.delete("foos.example.com", &params).await.expect("deleted");

    let limit = Duration::from_secs(5);
    let error = install_crd_within(&client, &wanted, limit).await.expect_err("going");
    let is_deleting = matches!(error, InstallError::NotReady { obstacle: Obstacle::Deleting, .. });
    assert!(is_deleting, "{error}");
    let released = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch("held", &PatchParams::default(), &patch).await.expect("released");
    };
    let (installed, ()) = tokio::join!(install_crd(&client, &wanted), released);
    assert_ne!(installed.expect("installed").metadata.uid, older.metadata.uid);
}
