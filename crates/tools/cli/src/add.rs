//! `cargo windlass add`: changes an operator that `cargo windlass new` made.
//!
//! A change consists of new files and a few lines in existing files. It is prepared in memory
//! first: [`operator`] reads the operator, [`kind`], [`webhook`] and [`version`] plan, and
//! [`changes`] writes everything or nothing, and reports the new files and where lines were added.
//! Each insertion point is a comment of the template, such as `// More kinds come here`. If one is
//! missing, the error names it.

mod changes;
mod kind;
mod operator;
mod version;
mod webhook;
mod webhooks;

use anyhow::Result;
use clap::{ArgGroup, Args, Subcommand};

use crate::new::say;
use changes::Changes;
use operator::Operator;

/// What to add to the operator in this folder.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Add {
    /// A kind, with its type, its controller, its tests, its CRD and its RBAC rules
    Kind(KindOptions),
    /// Webhooks of a kind, with their tests, their Service and their RBAC rules
    Webhook(WebhookOptions),
    /// A version of a kind, with the conversion from and to the others. The new version begins with
    /// the fields of the newest one, and the operator works with it
    Version(VersionOptions),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct KindOptions {
    /// The kind, such as Customer
    #[arg(value_name = "KIND")]
    kind: String,
    /// The kinds of the objects that it makes, such as configmaps,deployments,services: that is the
    /// default, and there are also serviceaccounts,statefulsets
    #[arg(long, value_name = "KINDS", default_value = crate::new::owned::DEFAULT)]
    owns: String,
    /// Its API group [default: that of the other kinds]
    #[arg(long, value_name = "DOMAIN")]
    group: Option<String>,
}

#[derive(Args, Clone, Debug)]
#[command(group(
    ArgGroup::new("which").required(true).multiple(true).args(["validate", "default", "convert"])
))]
pub(crate) struct WebhookOptions {
    /// A kind of the operator
    #[arg(value_name = "KIND")]
    kind: String,
    /// Check what people write, and refuse what is wrong
    #[arg(long)]
    validate: bool,
    /// Correct what people write
    #[arg(long)]
    default: bool,
    /// Convert between its versions; `add version` does this by itself
    #[arg(long)]
    convert: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct VersionOptions {
    /// A kind of the operator
    #[arg(value_name = "KIND")]
    kind: String,
    /// The new version, such as v1beta1 or v2
    version: String,
}

/// Changes the operator in the current folder, and reports the changes.
///
/// # Errors
/// If the folder has no such operator, a name is invalid, a file already exists, or an insertion
/// point is missing. The error says what to do, and nothing is written.
pub(crate) fn run(add: &Add) -> Result<()> {
    let operator = Operator::here()?;
    let mut changes = Changes::new(&operator);
    let next = match add {
        Add::Kind(options) => kind::plan(&operator, options, &mut changes)?,
        Add::Webhook(options) => webhook::plan(&operator, options, &mut changes)?,
        Add::Version(options) => version::plan(&operator, options, &mut changes)?,
    };
    let written = changes.write()?;
    say(&format!("{written}\n{next}"));
    Ok(())
}
