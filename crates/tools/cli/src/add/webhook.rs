//! `cargo windlass add webhook`.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::WebhookOptions;
use super::changes::Changes;
use super::operator::{Kind, Operator};
use super::version::convert;
use super::webhooks::{OUTSIDE_OF_A_CLUSTER, WEBHOOKS_FILE, WEBHOOKS_PLACE, prepare};
use crate::new::render::{Names, render, render_path};
use crate::new::template::Part;

/// Plans webhooks of a kind, and returns what to do next.
pub(super) fn plan(
    operator: &Operator,
    options: &WebhookOptions,
    changes: &mut Changes<'_>,
) -> Result<String> {
    let kind = operator.kind(&options.kind)?;
    let names = kind.names(operator);
    prepare(operator, &names, changes)?;
    let mut next = "Next: `cargo test`.".to_owned();
    let wanted = [("default", options.default), ("validate", options.validate)];
    let wanted: Vec<&str> = wanted.iter().filter(|(_, is_on)| *is_on).map(|(it, _)| *it).collect();
    if !wanted.is_empty() {
        admission(operator, &kind, &names, &wanted, changes)?;
        let _ = write!(next, " Your rules go to src/{}/admission.rs.", kind.module);
    }
    if options.convert {
        ensure!(
            kind.versions.len() > 1,
            "{} has one version, so there is nothing to convert: `cargo windlass add version {} \
             v2` adds another one, and the conversion",
            kind.name,
            kind.name
        );
        convert(&kind, &kind.versions, &kind.hub, &names, changes)?;
        let _ = write!(next, " The conversion is in src/{}/convert.rs.", kind.module);
    }
    Ok(format!("{next}\n{OUTSIDE_OF_A_CLUSTER}"))
}

/// Plans the validating and defaulting webhooks of a kind.
fn admission(
    operator: &Operator,
    kind: &Kind,
    names: &Names,
    wanted: &[&str],
    changes: &mut Changes<'_>,
) -> Result<()> {
    let Kind { name, module, .. } = kind;
    let file = format!("src/{module}/admission.rs");
    ensure!(
        !operator.has(&file),
        "{file} exists already: implement {} there, add it to {WEBHOOKS_FILE}, and let `cargo \
         windlass rbac --write` add its RBAC rules to deploy/rbac.yaml",
        wanted.join(" and ").replace("default", "Defaulter").replace("validate", "Validate")
    );
    for (path, text) in render(&[Part::Admission], wanted, names) {
        changes.create(&path, text)?;
    }
    changes.module(&format!("src/{module}.rs"), "pub mod admission;")?;
    for verb in wanted {
        let handler = format!("crate::{module}::admission::{name}Admission");
        let line = format!(".{verb}::<crate::{module}::{name}>({handler})");
        changes.before(WEBHOOKS_FILE, WEBHOOKS_PLACE, &line)?;
    }
    changes.append("deploy/rbac.yaml", &render_path("add/rbac-admission.yaml", wanted, names).1)
}
