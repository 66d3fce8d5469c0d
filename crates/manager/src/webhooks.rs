//! The webhooks of a manager: their address, their certificates, and the objects that tell the API
//! server about them.
//!
//! Everything is done by every replica, and before caches are filled. Otherwise an upgrade that
//! adds a version to a custom resource would wait for itself: the caches for the conversion, the
//! conversion for its certificate, and the certificate for a leader that waits for its caches.
//!
//! ```text
//!  bind ─▶ certificate ─▶ serve ─▶ definitions (conversion) ─▶ configurations ─▶ caches …
//! ```

mod self_test;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use windlass_informer::safe_message;
use windlass_webhook::certificates::{Certificates, Served, service_names};
use windlass_webhook::{ClientConfig, ClientTarget, WebhookConfiguration, Webhooks};

use self::self_test::SelfTest;
use crate::error::ManagerError;
use crate::group::Group;
use crate::http::checks::{Checks, Finding, Probe};
use crate::http::tls::{self, Tls};
use crate::http::{Listener, bind};
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::options::Options;

/// The flag that sets the address. Errors name it.
const FLAG: &str = "--webhook-bind-address";

/// The readiness check.
pub(crate) const CHECK: &str = "webhooks";

/// Who owns the fields of the configurations, as server-side apply understands it.
const FIELD_MANAGER: &str = "windlass-webhooks";

/// Webhooks, and the name of their configurations, their Service and their Secret.
pub(crate) struct NamedWebhooks {
    pub(crate) name: String,
    pub(crate) webhooks: Webhooks,
}

/// Webhooks whose address is bound, and not served yet.
pub(crate) struct BoundWebhooks {
    named: NamedWebhooks,
    listener: Listener,
}

/// Webhooks that are served.
struct ServedWebhooks {
    named: NamedWebhooks,
    target: ClientTarget,
    /// `None` if the certificate comes from files: then whoever writes them also sets `caBundle`.
    made: Option<Served>,
}

impl NamedWebhooks {
    /// Binds the address.
    pub(crate) async fn bind(self, options: &Options) -> Result<BoundWebhooks, ManagerError> {
        match bind(&options.webhook_bind_address, FLAG).await? {
            Some(listener) => Ok(BoundWebhooks { named: self, listener }),
            None => Err(ManagerError::Setup(format!(
                "webhooks need an address: give {FLAG} one, such as :9443"
            ))),
        }
    }
}

impl BoundWebhooks {
    /// Serves, and tells the API server. The definitions of the manager get their conversion; they
    /// are installed later.
    pub(crate) async fn start(
        mut self,
        manager: &mut Manager,
        client: &Client,
        metrics: &Metrics,
        group: &mut Group,
    ) -> Result<(), ManagerError> {
        if manager.has_metrics {
            self.named.webhooks = self.named.webhooks.metrics(metrics.webhooks());
        }
        let Manager { options, definitions, checks, .. } = manager;
        tracing::info!(
            address = %self.listener.address(),
            paths = self.named.webhooks.paths().join(","),
            "serving webhooks"
        );
        let served = self.serve(options, client, checks, group).await?;
        for definition in definitions {
            served.set_conversion(definition)?;
        }
        served.install(client).await
    }

    /// Makes or reads the certificate, and serves until the group stops.
    async fn serve(
        self,
        options: &Options,
        client: &Client,
        checks: &Checks,
        group: &mut Group,
    ) -> Result<ServedWebhooks, ManagerError> {
        let namespace = options.leader_election_namespace.clone();
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let (target, hosts) = target(options, &self.named.name, &namespace, &self.listener)?;
        if let Some(folder) = &options.webhook_cert_path {
            let tls = Tls::from_folder(folder).await.map_err(setup)?;
            let named = self.serve_with_files(tls, checks, group)?;
            return Ok(ServedWebhooks { named, target, made: None });
        }
        let Self { named: NamedWebhooks { name, webhooks }, .. } = &self;
        let tested = hosts.first().cloned().unwrap_or_default();
        let secret = format!("{name}-webhook-certificates");
        let made = Certificates::new(client.clone(), namespace, secret, hosts).map_err(setup)?;
        let mut made = made.mutating(name).validating(name);
        for definition in webhooks.converted_definitions() {
            made = made.definition(definition);
        }
        if let Some(lifetime) = options.webhook_cert_lifetime {
            made = made.lifetime(lifetime);
        }
        made.ensure().await.map_err(setup)?;
        let served = made.served();
        SelfTest::new(self.listener.address(), tested, served.clone()).add_to(checks);
        let named = self.serve_with_made(made, group)?;
        Ok(ServedWebhooks { named, target, made: Some(served) })
    }

    fn serve_with_files(
        self,
        tls: Tls,
        checks: &Checks,
        group: &mut Group,
    ) -> Result<NamedWebhooks, ManagerError> {
        add_check_of_files(checks, tls.clone());
        let Self { named, listener } = self;
        let router = named.webhooks.router().map_err(setup)?;
        let stop = group.shutdown().token().clone();
        group.spawn("the HTTP server of the webhooks", async move {
            listener.serve(router, Some(tls), stop).await;
            Ok(())
        });
        Ok(named)
    }

    fn serve_with_made(
        self,
        made: Certificates,
        group: &mut Group,
    ) -> Result<NamedWebhooks, ManagerError> {
        let Self { named, listener } = self;
        let router = named.webhooks.router().map_err(setup)?;
        let stop = group.shutdown().token().clone();
        let until = stop.clone();
        let acceptor = tls::acceptor(made.served().resolver());
        group.spawn("the HTTP server of the webhooks", async move {
            listener.accept(router, Some(acceptor), &until).await;
            Ok(())
        });
        group.spawn("the certificates of the webhooks", async move {
            made.run(&stop).await;
            Ok(())
        });
        Ok(named)
    }
}

impl NamedWebhooks {
    /// Whether the versions of this definition are converted here.
    fn converts(&self, definition: &CustomResourceDefinition) -> bool {
        let name = definition.metadata.name.as_deref();
        self.webhooks.converted_definitions().any(|converted| Some(&*converted) == name)
    }
}

impl ServedWebhooks {
    /// Tells the API server, in the definition, that its versions are converted here.
    fn set_conversion(
        &self,
        definition: &mut CustomResourceDefinition,
    ) -> Result<(), ManagerError> {
        if !self.named.converts(definition) {
            return Ok(());
        }
        let mut conversion = self.named.webhooks.conversion_of_crd(&self.target);
        if let Some(bundle) = self.bundle() {
            conversion["webhook"]["clientConfig"]["caBundle"] = bundle.into();
        }
        definition.spec.conversion = Some(serde_json::from_value(conversion).map_err(setup)?);
        Ok(())
    }

    /// Tells the API server which requests are admitted here.
    async fn install(&self, client: &Client) -> Result<(), ManagerError> {
        let configurations = self.named.webhooks.configurations(&self.named.name, &self.target);
        let configurations = configurations.map_err(setup)?;
        for mut configuration in
            configurations.mutating.into_iter().chain(configurations.validating)
        {
            for webhook in &mut configuration.webhooks {
                let ClientConfig { ca_bundle, .. } = &mut webhook.client_config;
                *ca_bundle = self.bundle();
            }
            apply(client, &self.named.name, &configuration).await?;
        }
        Ok(())
    }

    /// What `caBundle` has to contain.
    fn bundle(&self) -> Option<String> {
        let bundle = self.made.as_ref()?.bundle()?;
        Some(STANDARD.encode(&*bundle))
    }
}

async fn apply(
    client: &Client,
    name: &str,
    configuration: &WebhookConfiguration,
) -> Result<(), ManagerError> {
    let kind = &configuration.kind;
    let resource = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    let resource = ApiResource::from_gvk(&resource);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(name, &params, &Patch::Apply(configuration)).await;
    applied.map(drop).map_err(|error| {
        ManagerError::Setup(format!(
            "the {kind} {name:?} cannot be applied: {}; the account of the operator needs the \
             verbs get, create and patch on {}",
            safe_message(&error),
            resource.plural
        ))
    })
}

/// Where the API server calls the webhooks, and by which names.
fn target(
    options: &Options,
    name: &str,
    namespace: &str,
    listener: &Listener,
) -> Result<(ClientTarget, Vec<String>), ManagerError> {
    let Some(url) = &options.webhook_url else {
        let service = options.webhook_service.clone().unwrap_or_else(|| name.to_owned());
        let names = service_names(&service, namespace).to_vec();
        let namespace = namespace.to_owned();
        return Ok((ClientTarget::Service { namespace, name: service, port: None }, names));
    };
    let invalid = || {
        ManagerError::Setup(format!(
            "--webhook-url {url:?} is no base URL: give one such as https://192.0.2.1:9443"
        ))
    };
    let parsed: http::Uri = url.parse().map_err(|_| invalid())?;
    let host = parsed.host().ok_or_else(invalid)?;
    if parsed.scheme_str() != Some("https") || !matches!(parsed.path(), "" | "/") {
        return Err(invalid());
    }
    let port = match parsed.port_u16() {
        Some(0) => listener.address().port(),
        Some(port) => port,
        None => 443,
    };
    let names = vec![host.trim_start_matches('[').trim_end_matches(']').to_owned()];
    Ok((ClientTarget::Url(format!("https://{host}:{port}")), names))
}

fn add_check_of_files(checks: &Checks, tls: Tls) {
    checks.add(Probe::Ready, CHECK, move || {
        std::future::ready(match tls.check() {
            Ok(()) => Finding::Ok(None),
            Err(error) => Finding::Failed(error.to_string()),
        })
    });
}

fn setup(error: impl std::fmt::Display) -> ManagerError {
    ManagerError::Setup(format!("webhooks: {error}"))
}
