//! Columns that definitions declare.

use serde_json::{Value, json};

use super::{table, with_fields};
use crate::Script;
use crate::fixtures::{CRDS, definition, with};
use crate::request::Request;

const GROUP: &str = "tables.windlass.dev";

impl Script {
    /// Installs a kind of this plural with these columns.
    async fn install_columns(&mut self, plural: &str, kind: &str, columns: Value) {
        let mut definition = definition(plural, kind, GROUP);
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
        self.install(definition, &[&format!("/apis/{GROUP}/v1/{plural}")]).await;
    }

    fn things(&self, plural: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/{plural}", self.ns())
    }
}

fn thing(kind: &str, name: &str, content: Value) -> Value {
    let thing = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name},
    });
    with_fields(thing, content)
}

/// A column for each type at the same path.
fn every_type(path: &str) -> Vec<Value> {
    let types = ["integer", "number", "string", "boolean", "date"];
    types
        .iter()
        .map(|one| json!({"name": format!("As {one}"), "type": one, "jsonPath": path}))
        .collect()
}

/// A string column for each path, named after it.
fn texts(paths: &[&str]) -> Value {
    paths.iter().map(|path| json!({"name": path, "type": "string", "jsonPath": path})).collect()
}

pub(in crate::cases) async fn custom_columns_are_described(t: &mut Script) {
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    let columns = json!([
        {"name": "Size", "type": "integer", "format": "int32", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ready, "description": "Whether it is ready"},
        {"name": "Wide", "type": "string", "jsonPath": ".spec.wide", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    t.install_columns("describeds", "Described", columns).await;
    let status = json!({"conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}]});
    let content = json!({"spec": {"size": 3, "wide": "w"}, "status": status});
    t.given(t.things("describeds"), thing("Described", "a", content)).await;
    t.send(table(t.things("describeds"))).await;
    let descriptions = ["/columnDefinitions/1/description", "/columnDefinitions/2/description"];
    t.pick(table(t.things("describeds")), &descriptions).await;
}

pub(in crate::cases) async fn custom_cells_of_all_types(t: &mut Script) {
    t.install_columns("typeds", "Typed", every_type(".value").into()).await;
    for (name, value) in [
        ("a", json!(7)),
        ("b", json!(7.9)),
        ("c", json!(-1)),
        ("d", json!("text")),
        ("e", json!("7")),
        ("f", json!(true)),
        ("g", json!("true")),
        ("h", json!("2001-01-01T00:00:00Z")),
        ("i", json!("2001-01-01T00:00:00.5+02:00")),
        ("j", json!("2001-01-01")),
        ("k", json!("2999-01-01T00:00:00Z")),
        ("l", json!("")),
        ("m", json!({"b": [1, "<x>"], "a": null})),
        ("n", json!([1, 2.5, "x"])),
        ("o", json!(1e21)),
        ("p", json!(0.000_001)),
        ("q", json!(9_007_199_254_740_993_i64)),
        ("r", json!(null)),
        ("s", json!(7.0)),
    ] {
        t.given(t.things("typeds"), thing("Typed", name, json!({ "value": value }))).await;
    }
    t.given(t.things("typeds"), thing("Typed", "z", json!({}))).await;
    t.rows(t.things("typeds")).await;
}

pub(in crate::cases) async fn custom_cells_by_all_sorts_of_paths(t: &mut Script) {
    let columns = texts(&[
        ".metadata.name",
        ".kind",
        ".apiVersion",
        ".metadata.labels.app\\.kubernetes\\.io/name",
        ".metadata.labels['app\\.kubernetes\\.io/name']",
        ".metadata.labels['app.kubernetes.io/name']",
        ".entries[*].name",
        ".entries[0].name",
        ".entries[-1].name",
        ".entries[1:].name",
        ".entries[:2].name",
        ".entries[0:3:2].name",
        ".entries[0,2].name",
        ".entries[7].name",
        ".entries[-7].name",
        ".entries[]",
        ".entries",
        ".entries[?(@.size)].name",
        ".entries[?(@.size==2)].name",
        ".entries[?(@.size>1)].name",
        ".entries[?(@.size>=1.5)].name",
        ".entries[?(@.size!=1)].name",
        ".entries[?(@.name=='y')].size",
        ".entries[?(@.name==\"y\")].size",
        ".entries[?(@.name==y)].size",
        ".entries[?(@.flag==true)].name",
        ".entries[?(@.missing=='y')].name",
        ".entries[?(@.tags[0]=='t')].name",
        ".entries[?(@.tags[5])].name",
        "..entries[1].size",
        ".one.*",
        ".one.only",
        ".one['only']",
        ".one",
        ".text[0]",
        ".text.deeper",
        ".nothing",
        ".nothing.deeper",
        ".nothing[0]",
        ".missing",
        ".missing[0].deeper",
        ".",
    ]);
    t.install_columns("patheds", "Pathed", columns).await;
    let content = json!({
        "entries": [
            {"name": "x", "size": 1},
            {"name": "y", "size": 2, "tags": ["t", "u"]},
            {"name": "z", "flag": true},
        ],
        "one": {"only": 1},
        "text": "abc",
        "nothing": null,
    });
    let labels = json!({"app.kubernetes.io/name": "web"});
    let rich = with(thing("Pathed", "a", content), "/metadata/labels", labels);
    t.given(t.things("patheds"), rich).await;
    t.given(t.things("patheds"), thing("Pathed", "b", json!({}))).await;
    t.rows(t.things("patheds")).await;
}

pub(in crate::cases) async fn custom_columns_end_at_a_path_that_is_broken(t: &mut Script) {
    let broken = ["[", ".a[x]", ".a[?(@.b==1]", ".a[1:2:3:4]", ".a.....b", ".a[?(@.b=='x)]"];
    for (index, path) in broken.iter().enumerate() {
        let (plural, kind) = (format!("broken{index}s"), format!("Broken{index}"));
        let path = format!(".x{path}");
        t.install_columns(&plural, &kind, texts(&[".x", &path, ".y"])).await;
        t.given(t.things(&plural), thing(&kind, "a", json!({"x": 1, "y": 2}))).await;
        t.rows(t.things(&plural)).await;
    }
}

pub(in crate::cases) async fn custom_columns_of_each_version(t: &mut Script) {
    let mut definition = definition("versioneds", "Versioned", GROUP);
    let first = definition["spec"]["versions"][0].clone();
    let mut second = with(first, "/additionalPrinterColumns", texts(&[".spec.a"]));
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.push(second);
    }
    let both = ["v1", "v2"].map(|version| format!("/apis/{GROUP}/{version}/versioneds"));
    t.install(definition, &[&both[0], &both[1]]).await;
    t.given(t.things("versioneds"), thing("Versioned", "a", json!({"spec": {"a": "1"}}))).await;
    for version in ["v1", "v2"] {
        let path = format!("/apis/{GROUP}/{version}/namespaces/{}/versioneds", t.ns());
        t.whole_rows(table(format!("{path}?includeObject=Object"))).await;
    }
}

pub(in crate::cases) async fn custom_columns_that_change(t: &mut Script) {
    t.install_columns("changings", "Changing", texts(&[".a"])).await;
    t.given(t.things("changings"), thing("Changing", "a", json!({"a": "1", "b": "2"}))).await;
    t.rows(t.things("changings")).await;
    let path = "/spec/versions/0/additionalPrinterColumns";
    let change = json!([{"op": "replace", "path": path, "value": texts(&[".b"])}]);
    let crd = format!("{CRDS}/changings.{GROUP}");
    t.look(Request::patch(crd, crate::script::JSON_PATCH, change)).await;
    let name = |answer: &crate::answer::Answer| answer.at("/columnDefinitions/1/name");
    let things = table(t.things("changings"));
    t.wait_picking(things, "the new column", |answer| name(answer) == ".b", &["/kind"]).await;
    t.rows(t.things("changings")).await;
}

pub(in crate::cases) async fn custom_columns_that_are_not_allowed(t: &mut Script) {
    let columns = json!([
        {"type": "string", "jsonPath": ".a"},
        {"name": "A", "jsonPath": ".a"},
        {"name": "B", "type": "text", "jsonPath": ".a"},
        {"name": "C", "type": "string"},
        {"name": "D", "type": "string", "jsonPath": "a"},
        {"name": "E", "type": "string", "jsonPath": "{.a}"},
        {"name": "F", "type": "string", "format": "odd", "jsonPath": ".a"},
        {"name": "G", "type": "string", "jsonPath": ".a["},
    ]);
    let mut definition = definition("forbiddens", "Forbidden", GROUP);
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
    t.post(CRDS, definition).await;
}
