//! `cargo windlass add version`, and the conversion between versions.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::VersionOptions;
use super::changes::Changes;
use super::kind::MANAGER_PLACE;
use super::operator::{Kind, Operator, is_version};
use super::webhooks::{OUTSIDE_OF_A_CLUSTER, WEBHOOKS_FILE, WEBHOOKS_PLACE, prepare};
use crate::definitions::{from_yaml, to_yaml};
use crate::new::render::{Names, render, render_path};
use crate::new::template::Part;

/// The comment in the file of a kind after which versions are added.
const VERSIONS_PLACE: &str = "// More versions come here";

/// Plans a new version of a kind, and returns what to do next. The stored version does not change.
pub(super) fn plan(
    operator: &Operator,
    options: &VersionOptions,
    changes: &mut Changes<'_>,
) -> Result<String> {
    let (kind, version) = (operator.kind(&options.kind)?, &options.version);
    let Kind { name, module, hub, group, versions, .. } = &kind;
    ensure!(
        is_version(version),
        "{version:?} is not a version: use one such as v1alpha2, v1beta1 or v2"
    );
    ensure!(
        !versions.contains(version),
        "{name} has the version {version} already: choose another"
    );

    let newest = operator.read(&format!("src/{module}/{hub}.rs"))?;
    changes.create(&format!("src/{module}/{version}.rs"), in_version(&newest, hub, version))?;
    let file = format!("src/{module}.rs");
    changes.module(&file, &format!("pub mod {version};"))?;
    let hub_line = |version: &str| format!("pub use {version}::");
    changes.replace(&file, &hub_line(hub), &hub_line(version))?;
    changes.after(&file, VERSIONS_PLACE, &format!("{version}::{name}::crd(),"))?;
    definition(changes, &kind, |spec| {
        let versions = spec["versions"].as_array_mut()?;
        let mut copy = versions.iter().find(|it| it["name"] == **hub)?.clone();
        copy["name"] = json!(version);
        copy["storage"] = json!(false);
        // In the order of `merge_crds`: the stored version first, then the others from the end of
        // its list. The new version is the first in that list.
        versions.push(copy);
        Some(())
    })?;
    let example = format!("deploy/example-{}.yaml", name.to_ascii_lowercase());
    if operator.has(&example) {
        let (old, new) = (format!("{group}/{hub}"), format!("{group}/{version}"));
        if operator.read(&example)?.lines().any(|line| api_version(line) == Some(&old)) {
            let text = changes.text(&example)?;
            *text = with_api_version(text, &old, &new);
        }
    }

    let names = kind.names(operator);
    prepare(operator, &names, changes)?;
    if operator.has(&format!("src/{module}/convert.rs")) {
        spoke(&kind, hub, &names, changes)?;
    } else {
        let versions: Vec<String> = versions.iter().chain([version]).cloned().collect();
        convert(&kind, &versions, version, &names, changes)?;
    }
    Ok(format!(
        "Next: `cargo test`. Change the fields in src/{module}/{version}.rs, say in \
         src/{module}/convert.rs what becomes of them in the other versions, and write the \
         definition again by `cargo windlass manifests`. {name} objects stay stored as before: \
         src/{module}.rs says in which version.\n{OUTSIDE_OF_A_CLUSTER}"
    ))
}

/// Returns the value in a YAML line `apiVersion: VALUE`.
fn api_version(line: &str) -> Option<&str> {
    let value = line.strip_prefix("apiVersion:")?;
    let value = value.split_once(" #").map_or(value, |(value, _)| value);
    Some(value.trim().trim_matches(['"', '\'']))
}

/// Returns the text of an example with `new` as the version of the first object of version `old`.
fn with_api_version(text: &str, old: &str, new: &str) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(line) = lines.iter_mut().find(|line| api_version(line) == Some(old)) {
        *line = line.replacen(old, new, 1);
    }
    lines.concat()
}

/// Converts the code of a version to another version. Only the attribute and the docs change: paths
/// such as `meta::v1::Condition` contain the name of a version, too.
fn in_version(code: &str, from: &str, to: &str) -> String {
    code.replace(&format!("version = \"{from}\""), &format!("version = \"{to}\""))
        .replace(&format!("`{from}`"), &format!("`{to}`"))
}

/// Plans the conversion between the versions of a kind.
pub(super) fn convert(
    kind: &Kind,
    versions: &[String],
    hub: &str,
    names: &Names,
    changes: &mut Changes<'_>,
) -> Result<()> {
    let Kind { module, .. } = kind;
    let mut spokes = versions.iter().filter(|version| *version != hub);
    let first = spokes.next().context("a kind with one version needs no conversion")?;
    let first_names = names.clone().version(first);
    for (path, text) in render(&[Part::Conversion], &[], &first_names) {
        changes.create(&path, text)?;
    }
    for version in spokes {
        spoke(kind, version, names, changes)?;
    }
    let file = format!("src/{module}.rs");
    changes.module(&file, "pub mod convert;")?;
    changes.replace_last(&file, "definition", "convert::by_webhook(definition)")?;
    let line = format!(".convert(crate::{module}::convert::conversion())");
    changes.before(WEBHOOKS_FILE, WEBHOOKS_PLACE, &line)?;
    // The operator adds the conversion to the definition when it starts.
    let line = format!(".install({module}::definition())");
    changes.before("src/lib.rs", MANAGER_PLACE, &line)?;
    changes.append("deploy/rbac.yaml", &render_path("add/rbac-conversion.yaml", &[], names).1)?;
    let operator = names.replace("gadget-operator", false);
    definition(changes, kind, |spec| {
        let service = json!({"name": operator, "namespace": operator, "path": "/convert"});
        let webhook = json!({
            "clientConfig": {"service": service},
            "conversionReviewVersions": ["v1"],
        });
        spec["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
        Some(())
    })
}

/// Plans a spoke, a version that is converted to the hub and back, in an existing conversion.
fn spoke(kind: &Kind, version: &str, names: &Names, changes: &mut Changes<'_>) -> Result<()> {
    let Kind { name, module, .. } = kind;
    let file = format!("src/{module}/convert.rs");
    let line = format!(".spoke::<super::{version}::{name}>()");
    changes.before(&file, ".spoke::<", &line)?;
    let names = names.clone().version(&format!("super::{version}"));
    let (_, code) = render_path("src/gadget/convert.rs", &[], &names);
    let block = |start: &str| {
        let (_, rest) = code.split_once(start).expect("the template must have this block");
        let (block, _) = rest.split_once("\n}\n").expect("a block must end");
        format!("{start}{block}\n}}\n")
    };
    // At the end: before an existing block, it would separate that block from its comment.
    changes.append(&file, &block("\nimpl Convert<"))?;
    if !has_function(changes.text(&file)?, "same") {
        changes.append(&file, &block("\n/// The same fields in another version.\nfn same"))?;
    }
    Ok(())
}

/// Whether code has a function of this name.
fn has_function(code: &str, name: &str) -> bool {
    let start = format!("fn {name}");
    let mut functions = code.lines().filter_map(|line| {
        let line = line.trim_start();
        let (before, rest) = line.split_once(&start)?;
        (!before.contains("//")).then_some(rest)
    });
    functions.any(|rest| rest.starts_with(['<', '(']))
}

/// Changes `spec` of the definition of a kind in `deploy/crd.yaml`.
fn definition(
    changes: &mut Changes<'_>,
    kind: &Kind,
    change: impl FnOnce(&mut Value) -> Option<()>,
) -> Result<()> {
    let path = "deploy/crd.yaml";
    let text = changes.text(path)?;
    let mut documents = from_yaml(text).with_context(|| format!("{path} is not valid YAML"))?;
    let is_it = |it: &&mut Value| {
        it["spec"]["names"]["kind"] == *kind.name && it["spec"]["group"] == *kind.group
    };
    let found = documents.iter_mut().find(is_it);
    let outcome = found.and_then(|definition| change(&mut definition["spec"]));
    outcome.with_context(|| {
        format!(
            "{path} has no {} of version {}: write it again by `cargo windlass manifests`",
            kind.name, kind.hub
        )
    })?;
    *text = to_yaml(&documents)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_type_is_replaced() {
        let code = "//! `v1`.\nuse meta::v1::Condition;\n#[kube(version = \"v1\")]\n";
        assert_eq!(
            in_version(code, "v1", "v2"),
            "//! `v2`.\nuse meta::v1::Condition;\n#[kube(version = \"v2\")]\n"
        );
    }

    #[test]
    fn version_of_an_example_is_that_of_its_object() {
        let text = "# apiVersion: g/v1\napiVersion: g/v1beta1\n---\napiVersion: 'g/v1' # g/v1\n";
        let changed = with_api_version(text, "g/v1", "g/v2");
        assert_eq!(changed, text.replace("'g/v1'", "'g/v2'"));
        assert_eq!(with_api_version(text, "g/v1beta", "g/v2"), text);
    }

    #[test]
    fn function_is_known_by_its_name() {
        assert!(has_function("pub(super) fn same<T>(t: T) {}", "same"));
        assert!(has_function("fn x() {}\n    fn same(t: T) {}", "same"));
        for other in ["fn same_title() {}", "// fn same()", "same(1)", "fn a() {}"] {
            assert!(!has_function(other, "same"), "{other}");
        }
    }
}
