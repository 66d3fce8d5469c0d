//! `cargo windlass add kind`.

use anyhow::{Context as _, Result, bail, ensure};

use super::KindOptions;
use super::changes::Changes;
use super::operator::{Kind, Operator};
use crate::new::names::{article, check_group, check_kind, plural, snake};
use crate::new::owned;
use crate::new::render::{Names, render, render_path};
use crate::new::template::Part;

/// The comment in `src/lib.rs` and in `tests/deployed.rs` before which kinds are added.
const KINDS_PLACE: &str = "// More kinds come here";

/// The comment in `src/lib.rs` before which controllers and webhooks are added.
pub(super) const MANAGER_PLACE: &str = "// More controllers and webhooks come here";

/// Plans a new kind, and returns what to do next.
pub(super) fn plan(
    operator: &Operator,
    options: &KindOptions,
    changes: &mut Changes<'_>,
) -> Result<String> {
    let KindOptions { kind, owns, group } = options;
    check_kind(kind)?;
    let (kinds, owns) = (operator.kinds()?, owned::parse(owns).context("--owns")?);
    ensure!(
        !kinds.iter().any(|known| known.name.eq_ignore_ascii_case(kind)),
        "this operator has the kind {kind} already: choose another name, or add a version by \
         `cargo windlass add version {kind} v2`"
    );
    let group = match (group, kinds.first()) {
        (Some(group), _) => group.clone(),
        (None, Some(first)) => first.group.clone(),
        (None, None) => bail!("this operator has no kind yet: say the API group by --group DOMAIN"),
    };
    check_group(&group)?;
    check_names(kind, &group, &kinds)?;

    let (package, module) = (&operator.package, snake(kind));
    let names = Names::new(package, &group, kind).owns(&owns);
    for (path, text) in render(&[Part::Kind], &owns, &names) {
        changes.create(&path, text)?;
    }
    let library = "src/lib.rs";
    changes.module(library, &format!("pub mod {module};"))?;
    changes.before(library, KINDS_PLACE, &format!("{module}::definition(),"))?;
    let controller = format!(".controller({module}::controller(), {module}::{kind}Reconciler)");
    changes.before(library, MANAGER_PLACE, &controller)?;

    changes.module("tests/common/mod.rs", &format!("pub mod {module};"))?;
    let play = format!("common::{module}::play(&cluster).await;");
    changes.before("tests/deployed.rs", KINDS_PLACE, &play)?;

    let definition = render_path("deploy/crd.yaml", &owns, &names).1;
    changes.append("deploy/crd.yaml", &format!("---\n{definition}"))?;
    changes.append("deploy/rbac.yaml", &rights(&owns, &names))?;
    let article = article(kind);
    Ok(format!(
        "Next: `cargo test`. The fields of {article} {kind} are in src/{module}/v1alpha1.rs, and \
         what is done for it in src/{module}/reconciler.rs.\n"
    ))
}

/// Checks that the API server can distinguish the kind from the others of its group.
///
/// # Errors
/// Returns an error if its singular or its plural is that of another kind.
fn check_names(kind: &str, group: &str, others: &[Kind]) -> Result<()> {
    let singular = kind.to_ascii_lowercase();
    let plural = plural(&singular);
    for other in others.iter().filter(|other| other.group == group) {
        let taken = [other.name.to_ascii_lowercase(), other.plural.clone()];
        if let Some(shared) = [&singular, &plural].into_iter().find(|name| taken.contains(name)) {
            bail!(
                "the kind {kind} would clash with {}: in the group {group}, {shared:?} would be a \
                 singular or plural name of both, and the API server would not serve the new one. \
                 Choose another name, or another group by --group DOMAIN",
                other.name
            );
        }
    }
    Ok(())
}

/// Returns the rights for a kind: the rules of a new operator's Roles, in a separate `ClusterRole`.
fn rights(owns: &[&str], names: &Names) -> String {
    let (_, whole) = render_path("deploy/rbac.yaml", owns, names);
    let (_, rules) = whole.split_once("\nrules:\n").expect("the template must have rules");
    let (rules, _) = rules
        .split_once("  - apiGroups: [events.k8s.io]\n")
        .expect("the template must have the rule for events last");
    let (_, role) = render_path("add/rbac-kind.yaml", owns, names);
    let lines = role.split_inclusive('\n').map(|line| {
        if line.trim_start().starts_with("# Replaced by add/kind.rs") { rules } else { line }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_whose_singular_is_the_plural_of_another_is_refused_in_its_group() {
        let kind = |name: &str, plural: &str| Kind {
            name: name.to_owned(),
            group: "example.com".to_owned(),
            plural: plural.to_owned(),
            module: snake(name),
            versions: vec!["v1".to_owned()],
            hub: "v1".to_owned(),
        };
        for (new, known, shared) in [
            ("Shops", kind("Shop", "shops"), "shops"),
            ("Shop", kind("Shops", "shopses"), "shops"),
            ("Fox", kind("Animal", "foxes"), "foxes"),
        ] {
            let known = [known];
            let error = check_names(new, "example.com", &known).expect_err(new).to_string();
            assert_eq!(
                error,
                format!(
                    "the kind {new} would clash with {}: in the group example.com, {shared:?} \
                     would be a singular or plural name of both, and the API server would not \
                     serve the new one. Choose another name, or another group by --group DOMAIN",
                    known[0].name
                )
            );
            check_names(new, "other.example.com", &known).expect("another group");
        }
        check_names("Customer", "example.com", &[kind("Shop", "shops")]).expect("other names");
    }
}
