//! What the dashboard shows: the summary, keys, runs, one key, and the story.

use serde_json::{Value, json};
use windlass_reconciler::PAUSED_ANNOTATION;
use windlass_testserver::apiserver::ApiServer;

use crate::dashboard::stage::{Running, create, rows};

/// A manager with an object in each state.
async fn busy() -> Running {
    let keys = ["default/done", "default/fails", "default/hangs", "shop/done", "shop/waits"];
    let mut running = Running::start(&keys).await;
    running.wait_for_runs(&["done", "fails", "hangs", "done", "waits"]).await;
    running.wait_for("/api/runs", |page| page["total"] == 4).await;
    running
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, state)| ((*key).to_owned(), (*state).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn summary_counts_keys_and_runs_and_names_none() {
    let running = busy().await;
    let summary = running.get("/api/summary").await;
    let controller = &summary["controllers"][0];
    assert_eq!((&controller["name"], &controller["kind"]), (&json!("maps"), &json!("ConfigMap")));
    assert_eq!((&controller["running"], &controller["workers"]), (&json!(1), &json!(4)));
    assert_eq!(controller["counts"]["runs"], 4);
    assert_eq!(controller["queue"]["keys"], json!([]));
    assert_eq!(controller["queue"]["omittedKeys"], 3, "one runs, two wait");
    assert_eq!(controller["lastRuns"], json!([]));
    assert_eq!((&summary["phase"], &summary["troubles"]), (&json!("running"), &json!([])));
    assert_eq!(summary["informers"][0]["memory"]["objects"], 5);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn all_keys_are_listed_with_their_state() {
    let running = busy().await;
    let page = running.get("/api/keys?controller=maps&state=all").await;
    let expected = pairs(&[
        ("default/done", "idle"),
        ("default/fails", "waiting"),
        ("default/hangs", "running"),
        ("shop/done", "idle"),
        ("shop/waits", "waiting"),
    ]);
    assert_eq!(rows(&page), expected);
    assert_eq!((&page["total"], &page["offset"]), (&json!(5), &json!(0)));
    assert_eq!(page["refreshSeconds"], 1);
    let fails = &page["keys"][1];
    assert_eq!((&fails["failures"], &fails["attempt"]), (&json!(1), &json!(2)), "{fails}");
    assert!(fails["nextRun"].is_string(), "{fails}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn keys_are_filtered_and_paged_on_the_server() {
    let running = busy().await;
    for (query, expected) in [
        ("state=running", &[("default/hangs", "running")][..]),
        ("state=ready", &[]),
        ("state=waiting", &[("default/fails", "waiting"), ("shop/waits", "waiting")]),
        ("state=failed", &[("default/fails", "waiting")]),
        ("state=resting", &[]),
        ("state=waiting&namespace=shop", &[("shop/waits", "waiting")]),
        ("namespace=shop", &[("shop/done", "idle"), ("shop/waits", "waiting")]),
        ("search=SHOP/d", &[("shop/done", "idle")]),
        ("search=done&namespace=", &[("default/done", "idle"), ("shop/done", "idle")]),
        ("namespace=sho", &[]),
    ] {
        let page = running.get(&format!("/api/keys?controller=maps&{query}")).await;
        assert_eq!(rows(&page), pairs(expected), "{query}");
        assert_eq!(page["total"], expected.len(), "{query}");
    }
    let page = running.get("/api/keys?controller=maps&offset=1&limit=2").await;
    assert_eq!(rows(&page), pairs(&[("default/fails", "waiting"), ("default/hangs", "running")]));
    assert_eq!((&page["total"], &page["offset"]), (&json!(5), &json!(1)));
    let page = running.get("/api/keys?controller=maps&offset=9").await;
    assert_eq!((&page["total"], &page["keys"]), (&json!(5), &json!([])));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn page_has_two_hundred_keys_at_most() {
    let server = ApiServer::new();
    for number in 0..250 {
        create(&server, &format!("default/done-{number:03}")).await;
    }
    let access = windlass_manager::dashboard::Access::local();
    let running = Running::start_with(server, &access, |manager| manager);
    let path = "/api/keys?controller=maps&limit=1000";
    let page = running.wait_for(path, |page| page["total"] == 250).await;
    assert_eq!(rows(&page).len(), 200);
    let page = running.get("/api/keys?controller=maps&offset=200").await;
    assert_eq!((rows(&page).len(), &rows(&page)[49].0[..]), (50, "default/done-249"));
    let page = running.get("/api/keys?controller=maps").await;
    assert_eq!(rows(&page).len(), 100);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn key_with_a_terminal_error_rests() {
    let mut running = Running::start(&["default/a", "default/breaks"]).await;
    running.wait_for_runs(&["a", "breaks"]).await;
    let path = "/api/keys?controller=maps&state=resting";
    let page = running.wait_for(path, |page| page["total"] == 1).await;
    let row = &page["keys"][0];
    assert_eq!((&row["key"], &row["why"]), (&json!("default/breaks"), &json!("terminal")));
    let is_counted = |of: &serde_json::Value| of["controllers"][0]["omittedInactive"] == 1;
    running.wait_for("/api/summary", is_counted).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn story_of_a_key_that_has_not_run_to_its_end_is_empty() {
    let mut running = Running::start(&["default/hangs"]).await;
    running.wait_for_runs(&["hangs"]).await;
    for query in ["key=default/hangs", "kind=ConfigMap&key=default/hangs"] {
        let story = running.get(&format!("/api/story?{query}")).await;
        assert_eq!((&story["runs"], &story["links"]), (&json!([]), &json!([])));
    }
    let (code, _) = running.refusal("/api/story?key=default/other").await;
    assert_eq!(code, 404);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn object_that_rests_says_why_and_since_when() {
    let mut running = Running::start(&["default/a", "default/b"]).await;
    running.wait_for_runs(&["a", "b"]).await;
    let patch = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}});
    let patch = kube::api::Patch::Merge(patch);
    let maps = crate::dashboard::stage::maps(&running.server, "default");
    maps.patch("b", &kube::api::PatchParams::default(), &patch).await.expect("patched");
    let resting = "/api/keys?controller=maps&state=resting";
    let page = running.wait_for(resting, |page| page["total"] == 1).await;
    let row = &page["keys"][0];
    assert_eq!((&row["key"], &row["state"]), (&json!("default/b"), &json!("resting")), "{row}");
    assert_eq!(row["why"], "paused");
    assert!(row["since"].is_string(), "{row}");
    let page = running.get("/api/keys?controller=maps").await;
    assert_eq!(rows(&page), pairs(&[("default/a", "idle"), ("default/b", "resting")]));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn queued_key_without_an_object_comes_last() {
    let mut running = Running::start(&["default/a", "shop/hangs"]).await;
    running.wait_for_runs(&["a", "hangs"]).await;
    let maps = crate::dashboard::stage::maps(&running.server, "shop");
    maps.delete("hangs", &kube::api::DeleteParams::default()).await.expect("deleted");
    create(&running.server, "shop/z").await;
    running.wait_for_runs(&["z"]).await;
    let is_so = |page: &Value| rows(page).last().is_some_and(|(key, _)| key == "shop/hangs");
    let page = running.wait_for("/api/keys?controller=maps", is_so).await;
    let expected = pairs(&[("default/a", "idle"), ("shop/z", "idle"), ("shop/hangs", "running")]);
    assert_eq!(rows(&page), expected);
    running.stop().await;
}

/// The keys of the runs of a page.
fn runs(page: &Value) -> Vec<&str> {
    let runs = page["runs"].as_array().expect("runs");
    let mut keys: Vec<_> = runs.iter().filter_map(|run| run["key"].as_str()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test(start_paused = true)]
async fn last_runs_are_filtered_and_paged() {
    let running = busy().await;
    let page = running.get("/api/runs?controller=&outcome=&search=").await;
    assert_eq!(runs(&page), ["default/done", "default/fails", "shop/done", "shop/waits"]);
    let run = &page["runs"][0];
    assert_eq!((&run["controller"], &run["kind"]), (&json!("maps"), &json!("ConfigMap")));
    assert!(run["id"].is_string() && run["tookSeconds"].is_number(), "{run}");
    for (query, expected) in [
        ("outcome=failed", &["default/fails"][..]),
        ("outcome=done", &["default/done", "shop/done"]),
        ("outcome=requeued", &["shop/waits"]),
        ("namespace=shop&outcome=done&controller=maps", &["shop/done"]),
        ("search=wait", &["shop/waits"]),
        ("outcome=timedOut", &[]),
    ] {
        let page = running.get(&format!("/api/runs?{query}")).await;
        assert_eq!(runs(&page), expected, "{query}");
        assert_eq!(page["total"], expected.len(), "{query}");
    }
    let page = running.get("/api/runs?offset=3&limit=2").await;
    assert_eq!((runs(&page).len(), &page["total"], &page["offset"]), (1, &json!(4), &json!(3)));

    // A new run is the first one, as soon as the copy of the runs is old enough.
    create(&running.server, "default/new").await;
    let is_so = |page: &Value| page["runs"][0]["key"] == "default/new";
    running.wait_for("/api/runs?limit=1", is_so).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn errors_are_the_runs_that_failed_in_any_way() {
    let keys = ["default/breaks", "default/done", "default/fails", "default/panics"];
    let mut running = Running::start(&keys).await;
    running.wait_for_runs(&["breaks", "done", "fails", "panics"]).await;
    let is_so = |page: &Value| {
        let mut keys = runs(page);
        // A key that panics is retried.
        keys.dedup();
        keys == ["default/breaks", "default/fails", "default/panics"]
    };
    running.wait_for("/api/runs?outcome=errors", is_so).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_key_has_its_state_and_its_runs() {
    let running = busy().await;
    let fails = running.get("/api/key?controller=maps&key=default/fails").await;
    assert_eq!((&fails["key"], &fails["kind"]), (&json!("default/fails"), &json!("ConfigMap")));
    assert_eq!((&fails["exists"], &fails["paused"]), (&json!(true), &json!(false)));
    assert_eq!(fails["pauseAnnotation"], PAUSED_ANNOTATION);
    assert_eq!(fails["queue"]["state"], "waiting");
    assert_eq!((&fails["inactive"], &fails["trouble"]), (&Value::Null, &json!([])));
    assert_eq!(fails["runs"][0]["message"], "the database is away");
    let done = running.get("/api/key?controller=maps&key=shop/done").await;
    assert_eq!((&done["queue"], &done["runs"][0]["outcome"]), (&Value::Null, &json!("done")));
    let story = running.get("/api/story?kind=&key=shop/done&limit=5").await;
    assert_eq!(story["runs"][0]["id"], done["runs"][0]["id"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_is_an_error_that_says_what_does() {
    let running = busy().await;
    for (path, code, part) in [
        ("/api/keys?controller=other", 404, "there are: maps"),
        ("/api/keys", 400, "which controller? Give its name as `controller`; there are: maps"),
        ("/api/keys?controller=maps&state=lost", 400, "waiting, failed, resting"),
        ("/api/runs?controller=other", 404, "there are: maps"),
        ("/api/runs?outcome=lost", 400, "panicked, timedOut"),
        ("/api/key?controller=maps&key=default/nobody", 404, "neither an object"),
        ("/api/key?controller=maps&key=a/b/c", 400, "NAMESPACE/NAME"),
        ("/api/story", 400, "?key=NAMESPACE/NAME"),
        ("/api/key?key=default/a", 400, "which controller?"),
        ("/api/key?controller=maps", 400, "which object? Say it by ?key=NAMESPACE/NAME"),
        ("/api/keys?controller=maps&limit=many", 400, "limit"),
    ] {
        let (status, text) = running.refusal(path).await;
        assert_eq!(status, code, "{path}: {text}");
        assert!(text.contains(part), "{path}: {text}");
    }
    running.stop().await;
}
