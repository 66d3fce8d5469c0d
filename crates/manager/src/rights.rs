//! What the account of an operator must be allowed to do, as far as the manager knows it: what it
//! does itself, and what its controllers watch.
//!
//! `cargo windlass rbac` derives Roles from it, and from the requests that runs and tasks send in
//! tests. [`Review`] asks at the start whether the account may do it.

mod review;

pub(crate) use review::Review;

use std::sync::Arc;

use windlass_evidence::{Condition, DeclaredRight, Right, Scope};
use windlass_informer::{InformerCache, Resource};
use windlass_reconciler::AnyController;
use windlass_webhook::ClientTarget;

use crate::manager::Manager;
use crate::options::Options;
use crate::webhooks::{self, NamedWebhooks};

/// Which rights an operator needs.
#[derive(Clone)]
pub(crate) struct Rights {
    options: Options,
    declared: Vec<Declared>,
}

/// A right that is known to be needed before anything runs.
#[derive(Clone)]
struct Declared {
    needed: DeclaredRight,
    /// The namespaces that the review asks about. `None` means all namespaces; for
    /// [`Scope::Own`], it means the default namespace of the client.
    namespaces: Vec<Option<String>>,
}

/// What a controller does with a kind of children that it makes without a cache.
const MAKES: &[&str] = &["get", "list", "create", "patch", "delete"];

/// What a controller does with what is left of a kind of children that it does not make any more.
const RETIRES: &[&str] = &["get", "list", "delete"];

/// Whether a condition holds in this process.
fn holds(condition: &Condition, options: &Options) -> bool {
    match condition {
        Condition::Always => true,
        Condition::LeaderElect => options.leader_elect,
        Condition::MetricsSecure => {
            options.metrics_secure && !matches!(&*options.metrics_bind_address, "" | "0")
        }
        Condition::OpenDashboard => options.dashboard.as_deref().is_some_and(is_open),
        Condition::OwnCertificates => options.webhook_cert_path.is_none(),
        // CRDs are installed before the review; if that was forbidden, its error has said so.
        Condition::NotInstalled(_) => false,
    }
}

impl Rights {
    /// What the manager itself needs.
    pub(crate) fn declared(manager: &Manager) -> Self {
        let options = manager.options.clone();
        let mut rights = Self { options, declared: Vec::new() };
        if let Some(lease) = &manager.lease {
            let reason = format!("the leader is elected by the Lease {lease}");
            let leases = on("coordination.k8s.io", "leases", Scope::Own);
            let namespace = rights.options.leader_election_namespace.clone();
            let namespace = namespace.filter(|namespace| !namespace.is_empty());
            rights.add(&["get", "create", "update"], &leases, &reason, &Condition::LeaderElect);
            rights.set_namespace(&leases, namespace.as_deref());
        }
        for definition in &manager.definitions {
            let name = definition.metadata.name.clone().unwrap_or_default();
            rights.add_definition(&name, &format!("the definition {name} is installed"));
        }
        if let Some(webhooks) = &manager.webhooks {
            rights.add_webhooks(webhooks);
        }
        if !manager.controllers.is_empty() {
            let events = on("events.k8s.io", "events", Scope::Watched);
            rights.add(&["create", "patch"], &events, "runs record events", &Condition::Always);
            let namespaces = rights.options.namespaces();
            let everywhere = namespaces.is_empty().then_some(None);
            let namespaces: Vec<_> = namespaces.into_iter().map(Some).chain(everywhere).collect();
            for declared in rights.of(&events) {
                declared.namespaces.clone_from(&namespaces);
            }
        }
        for (group, plural) in [
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        ] {
            let reviews = on(group, plural, Scope::Cluster);
            for (condition, reason) in [
                (
                    Condition::MetricsSecure,
                    "--metrics-secure asks who reads the metrics, and if they may",
                ),
                (Condition::OpenDashboard, "the dashboard asks who opens it, and if they may"),
            ] {
                rights.add(&["create"], &reviews, reason, &condition);
            }
        }
        rights
    }

    fn add_definition(&mut self, name: &str, reason: &str) {
        let definitions = on("apiextensions.k8s.io", "customresourcedefinitions", Scope::Cluster);
        let named = Right { name: Some(name.to_owned()), ..definitions.clone() };
        self.add(&["get", "patch"], &named, reason, &Condition::Always);
        self.add(&["create"], &definitions, reason, &Condition::NotInstalled(name.to_owned()));
    }

    fn add_webhooks(&mut self, named: &NamedWebhooks) {
        let NamedWebhooks { name, webhooks } = named;
        // Which configurations there are does not depend on the target, so any URL will do.
        let target = ClientTarget::Url("https://localhost".to_owned());
        let Ok(configurations) = webhooks.configurations(name, &target) else { return };
        for (plural, is_there) in [
            ("mutatingwebhookconfigurations", configurations.mutating.is_some()),
            ("validatingwebhookconfigurations", configurations.validating.is_some()),
        ] {
            if is_there {
                let all = on("admissionregistration.k8s.io", plural, Scope::Cluster);
                let one = Right { name: Some(name.clone()), ..all.clone() };
                let reason = format!("the webhooks {name} are configured");
                self.add(&["create"], &all, &reason, &Condition::Always);
                self.add(&["get", "update"], &one, &reason, &Condition::Always);
                let reason = format!("the caBundle of the webhooks {name} is kept up to date");
                self.add(&["patch"], &one, &reason, &Condition::OwnCertificates);
            }
        }
        for definition in webhooks.converted_definitions() {
            let all = on("apiextensions.k8s.io", "customresourcedefinitions", Scope::Cluster);
            let reason =
                format!("the caBundle of the conversion of {definition} is kept up to date");
            let one = Right { name: Some(definition), ..all };
            self.add(&["get", "patch"], &one, &reason, &Condition::OwnCertificates);
        }
        let secrets = on("", "secrets", Scope::Own);
        let secret = Right { name: Some(webhooks::secret_name(name)), ..secrets.clone() };
        let reason = format!("the certificates of the webhooks {name} are in a Secret");
        self.add(&["create"], &secrets, &reason, &Condition::OwnCertificates);
        self.add(&["get", "update"], &secret, &reason, &Condition::OwnCertificates);
        let namespace = self.options.webhook_namespace.clone();
        self.set_namespace(&secrets, namespace.as_deref());
    }

    /// Adds what controllers watch, and the kinds of children that they declare.
    pub(crate) fn add_controllers<'a>(
        &mut self,
        controllers: impl Iterator<Item = &'a Arc<dyn AnyController>>,
    ) {
        for controller in controllers {
            for cache in controller.caches() {
                let resource = cache.resource();
                let group = resource.group();
                let dot = if group.is_empty() { "" } else { "." };
                let (name, plural) = (controller.name(), resource.plural());
                let reason = format!("controller {name} watches {plural}{dot}{group}");
                let namespaces: Vec<_> =
                    cache.namespaces().map(|namespace| namespace.map(str::to_owned)).collect();
                let scope = if resource.is_namespaced() { Scope::Watched } else { Scope::Cluster };
                for verb in ["list", "watch"] {
                    let right = Right { verb: verb.to_owned(), ..on(group, plural, scope) };
                    let (reason, condition) = (reason.clone(), Condition::Always);
                    let needed = DeclaredRight { right, reason, condition };
                    self.declared.push(Declared { needed, namespaces: namespaces.clone() });
                }
            }
            self.add_children(controller.as_ref());
        }
    }

    /// Adds what a controller does with the kinds of children that it declares. The writes to those
    /// that it watches are seen in tests.
    fn add_children(&mut self, controller: &dyn AnyController) {
        let caches = controller.caches();
        let is_watched = |resource: &Resource| {
            let is_same = |watched: &Resource| {
                watched.group() == resource.group() && watched.plural() == resource.plural()
            };
            caches.iter().any(|cache| is_same(cache.resource()))
        };
        let owners = caches.first().into_iter().flat_map(InformerCache::namespaces);
        let owners: Vec<_> = owners.map(|namespace| namespace.map(str::to_owned)).collect();
        let (made, retired) = (controller.made_kinds(), controller.retired_kinds());
        let made = made.into_iter().filter(|made| !is_watched(made));
        let made = made.map(|made| (made, "makes", MAKES));
        let retired = retired.into_iter().map(|retired| (retired, "retires", RETIRES));
        for (resource, what, verbs) in made.chain(retired) {
            let (name, plural, group) = (controller.name(), resource.plural(), resource.group());
            let dot = if group.is_empty() { "" } else { "." };
            let namespaces = if resource.is_namespaced() { owners.clone() } else { vec![None] };
            let scope = if resource.is_namespaced() { Scope::Watched } else { Scope::Cluster };
            for verb in verbs {
                let right = Right { verb: (*verb).to_owned(), ..on(group, plural, scope) };
                let reason = format!("controller {name} {what} {plural}{dot}{group}");
                let needed = DeclaredRight { right, reason, condition: Condition::Always };
                self.declared.push(Declared { needed, namespaces: namespaces.clone() });
            }
        }
    }

    /// All of them, for programs that make Roles of them.
    pub(crate) fn list(&self) -> Vec<DeclaredRight> {
        self.declared.iter().map(|declared| declared.needed.clone()).collect()
    }

    fn add(&mut self, verbs: &[&str], resource: &Right, reason: &str, condition: &Condition) {
        for verb in verbs {
            let right = Right { verb: (*verb).to_owned(), ..resource.clone() };
            let (reason, condition) = (reason.to_owned(), condition.clone());
            let needed = DeclaredRight { right, reason, condition };
            self.declared.push(Declared { needed, namespaces: vec![None] });
        }
    }

    /// The declared rights on a resource.
    fn of(&mut self, resource: &Right) -> impl Iterator<Item = &mut Declared> {
        self.declared.iter_mut().filter(|declared| {
            let right = &declared.needed.right;
            right.group == resource.group && right.plural == resource.plural
        })
    }

    fn set_namespace(&mut self, resource: &Right, namespace: Option<&str>) {
        for declared in self.of(resource) {
            declared.namespaces = vec![namespace.map(str::to_owned)];
        }
    }
}

/// Whether an address is served to other machines: it is neither off nor on loopback.
fn is_open(address: &str) -> bool {
    let (host, _) = address.rsplit_once(':').unwrap_or((address, ""));
    let is_local = host == "localhost" || host == "[::1]" || host.starts_with("127.");
    !matches!(address, "" | "0") && !is_local
}

/// A resource, still without a verb.
fn on(group: &str, plural: &str, scope: Scope) -> Right {
    let (group, plural) = (group.to_owned(), plural.to_owned());
    Right { verb: String::new(), group, plural, subresource: None, scope, name: None }
}
