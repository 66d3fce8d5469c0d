//! The webhooks of a manager: their address, their certificates, and the objects that tell the API
//! server about them.
//!
//! Every replica does all of this, before it fills its caches. If only the leader did, an upgrade
//! that adds a version to a custom resource would deadlock: the caches need the conversion webhook,
//! the webhook needs its certificate, and the leader would make it only after filling its caches.
//!
//! ```text
//!  bind ─▶ certificate ─▶ serve ─▶ configurations ─▶ definitions with conversion ─▶ caches …
//! ```

mod install;
mod self_test;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::CONNECTION;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_informer::ServerClock;
use windlass_webhook::certificates::{Certificates, Served, service_names};
use windlass_webhook::{ClientTarget, Configurations, Webhooks};

use self::install::Installation;
pub(crate) use self::self_test::CHECK;
use self::self_test::SelfTest;
use crate::connect::is_in_pod;
use crate::error::ManagerError;
use crate::group::Group;
use crate::http::checks::{Checks, Finding, Probe};
use crate::http::listen::WEBHOOKS;
use crate::http::tls::clients::{ClientCa, requires_certificate};
use crate::http::tls::{self, Clock, Tls};
use crate::http::{Listener, bind};
use crate::metrics::Metrics;
use crate::options::{Options, base_url};

/// The flag that sets the address. Errors name it.
const FLAG: &str = "--webhook-bind-address";

/// The path of conversions. It needs no client certificate: the API server has none for them, as
/// its configuration of credentials is about admission only.
const CONVERT_PATH: &str = "/convert";

/// Webhooks, and the name of their configurations, their Service and their Secret.
pub(crate) struct NamedWebhooks {
    pub(crate) name: String,
    pub(crate) webhooks: Webhooks,
}

/// Webhooks whose address is bound, and not served yet.
pub(crate) struct BoundWebhooks {
    named: NamedWebhooks,
    listener: Listener,
    clock: ServerClock,
}

/// What the API server is told about the webhooks.
pub(crate) struct Registration {
    named: NamedWebhooks,
    target: ClientTarget,
    configurations: Configurations,
    /// The certificates that the operator makes. `None` if they come from files (whoever writes the
    /// files also sets `caBundle`), and in a plan. An existing `caBundle` is then left alone.
    made: Option<Served>,
}

impl NamedWebhooks {
    /// Binds the address. Certificates will be judged by this clock.
    pub(crate) async fn bind(
        self,
        options: &Options,
        clock: &ServerClock,
    ) -> Result<BoundWebhooks, ManagerError> {
        match bind(&options.webhook_bind_address, FLAG).await? {
            Some(listener) => {
                let (listener, clock) = (listener.with_limits(WEBHOOKS), clock.clone());
                Ok(BoundWebhooks { named: self, listener, clock })
            }
            None => Err(ManagerError::Setup(format!(
                "webhooks need an address: give {FLAG} one, such as :9443"
            ))),
        }
    }

    /// What a start would tell the API server, for a plan. Nothing is bound, so if the port is to
    /// be chosen at the start, it is 0 here.
    pub(crate) fn plan(
        self,
        options: &Options,
        client: &Client,
    ) -> Result<Registration, ManagerError> {
        let address = options.webhook_bind_address.rsplit_once(':');
        let port = address.and_then(|(_, port)| port.parse().ok()).unwrap_or_default();
        let (target, _) = target(options, &self.name, &namespace(options, client), port)?;
        let configurations = self.webhooks.configurations(&self.name, &target).map_err(setup)?;
        Ok(Registration { named: self, target, configurations, made: None })
    }
}

impl BoundWebhooks {
    /// Shows the webhooks in these metrics.
    pub(crate) fn metrics(mut self, metrics: &Metrics) -> Self {
        self.named.webhooks = self.named.webhooks.metrics(metrics.webhooks());
        self
    }

    /// Makes or reads the certificate, and serves until the group stops. Nothing is registered yet.
    pub(crate) async fn serve(
        self,
        options: &Options,
        client: &Client,
        checks: &Checks,
        group: &mut Group,
        stopping: &CancellationToken,
    ) -> Result<Registration, ManagerError> {
        let Self { named, listener, clock } = self;
        let NamedWebhooks { name, webhooks } = &named;
        let namespace = namespace(options, client);
        let (target, hosts) = target(options, name, &namespace, listener.address().port())?;
        if let Some(warning) = unreachable_service(options, &target, is_in_pod()) {
            tracing::warn!("{warning}");
        }
        tracing::info!(
            address = %listener.address(),
            paths = webhooks.paths().join(","),
            "serving webhooks"
        );
        let configurations = webhooks.configurations(name, &target).map_err(setup)?;
        let mut router = webhooks.router().map_err(setup)?;
        let stop = group.shutdown().token().clone();
        let clients = client_ca(options).await?;
        if let Some(clients) = clients.clone() {
            let converts = webhooks.converted_definitions().next().is_some();
            router = requires_certificate(router, converts.then_some(CONVERT_PATH));
            let stop = stop.clone();
            group.spawn("the authorities of the webhooks' clients", async move {
                clients.reload_until(&stop).await;
                Ok(())
            });
        }
        let router = close_connections_when_stopping(router, stopping.clone());
        if let Some(folder) = &options.webhook_cert_path {
            let tls = Tls::from_folder(folder).await.map_err(setup)?;
            let tls = tls.clients(clients).clock(move || clock.now_or_own());
            add_check_of_files(checks, tls.clone());
            group.spawn("the HTTP server of the webhooks", async move {
                listener.serve(router, Some(tls), stop).await;
                Ok(())
            });
            return Ok(Registration { named, target, configurations, made: None });
        }
        let tested = hosts.first().cloned().unwrap_or_default();
        let secret = secret_name(name);
        let mut made =
            Certificates::new(client.clone(), namespace, secret, hosts).map_err(setup)?;
        let (own, of_server) = (clock.clone(), clock.clone());
        made = made.clock(move || own.own()).server_clock(move || of_server.now());
        if configurations.mutating.is_some() {
            made = made.mutating(name);
        }
        if configurations.validating.is_some() {
            made = made.validating(name);
        }
        for definition in webhooks.converted_definitions() {
            made = made.definition(definition);
        }
        if let Some(lifetime) = options.webhook_cert_lifetime {
            made = made.lifetime(lifetime);
        }
        let (ensured, served) = (made.ensure().await, made.served());
        if let Err(error) = ensured {
            // It also fails if only a `caBundle` could not be set. If it got a certificate, the
            // start continues, and `run` tries again.
            served.check().map_err(|_| setup(&error))?;
            tracing::warn!("webhooks: {error}; this is tried again");
        }
        let clock = Clock::new(move || clock.now_or_own());
        SelfTest::new(listener.address(), tested, served.clone(), clock.clone()).add_to(checks);
        let acceptor = tls::acceptor(served.resolver(), clients.as_ref(), clock);
        let until = stop.clone();
        group.spawn("the HTTP server of the webhooks", async move {
            listener.accept(router, Some(acceptor), &until).await;
            Ok(())
        });
        group.spawn("the certificates of the webhooks", async move {
            made.run(&stop).await;
            Ok(())
        });
        Ok(Registration { named, target, configurations, made: Some(served) })
    }
}

/// The authorities of clients; an empty option is none.
async fn client_ca(options: &Options) -> Result<Option<ClientCa>, ManagerError> {
    let file = options.webhook_client_ca.as_deref().filter(|file| !file.as_os_str().is_empty());
    let Some(file) = file else { return Ok(None) };
    let unusable = |error| ManagerError::Setup(format!("--webhook-client-ca: {error}"));
    ClientCa::from_file(file).await.map(Some).map_err(unusable)
}

/// Once the manager is stopping, adds `Connection: close` to every response. The API server then
/// sends its next call over a new connection, which may lead to another replica. So few connections
/// are left when the port is closed, and few calls are lost.
fn close_connections_when_stopping(router: Router, stopping: CancellationToken) -> Router {
    router.layer(map_response(move |mut response: Response| {
        if stopping.is_cancelled() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        std::future::ready(response)
    }))
}

impl NamedWebhooks {
    /// Whether the versions of this definition are converted here.
    fn converts(&self, definition: &CustomResourceDefinition) -> bool {
        let name = definition.metadata.name.as_deref();
        self.webhooks.converted_definitions().any(|converted| Some(&*converted) == name)
    }
}

impl Registration {
    /// Sets the conversion of the definitions whose versions are converted here.
    pub(crate) fn set_conversions(
        &self,
        definitions: &mut [CustomResourceDefinition],
    ) -> Result<(), ManagerError> {
        for definition in definitions.iter_mut().filter(|one| self.named.converts(one)) {
            let mut conversion = self.named.webhooks.conversion_of_crd(&self.target);
            if let Some(bundle) = self.bundle() {
                conversion["webhook"]["clientConfig"]["caBundle"] = bundle.into();
            }
            definition.spec.conversion = Some(serde_json::from_value(conversion).map_err(setup)?);
        }
        Ok(())
    }

    /// Writes the webhook configurations, which tell the API server which requests to send here.
    pub(crate) async fn install(&self, client: &Client) -> Result<(), ManagerError> {
        let Configurations { mutating, validating } = &self.configurations;
        for (kind, configuration) in [
            ("MutatingWebhookConfiguration", mutating),
            ("ValidatingWebhookConfiguration", validating),
        ] {
            let webhooks = configuration.iter().flat_map(|one| one.webhooks.clone()).collect();
            let name = self.named.name.clone();
            Installation { client, kind, name, webhooks, bundle: self.bundle() }.run().await?;
        }
        Ok(())
    }

    /// What `caBundle` has to contain.
    fn bundle(&self) -> Option<String> {
        let bundle = self.made.as_ref()?.bundle()?;
        Some(STANDARD.encode(&*bundle))
    }
}

/// The name of the Secret with the certificates of webhooks of this name.
pub(crate) fn secret_name(webhooks: &str) -> String {
    format!("{webhooks}-webhook-certificates")
}

/// The namespace of the Service and of the Secret.
fn namespace(options: &Options, client: &Client) -> String {
    let namespace = options.webhook_namespace.clone();
    namespace.unwrap_or_else(|| client.default_namespace().to_owned())
}

/// Where the API server calls the webhooks, and the host names that the certificate needs.
fn target(
    options: &Options,
    name: &str,
    namespace: &str,
    bound_port: u16,
) -> Result<(ClientTarget, Vec<String>), ManagerError> {
    let (url, service) =
        (given(options.webhook_url.as_ref()), given(options.webhook_service.as_ref()));
    let Some(url) = url else {
        let service = service.unwrap_or(name).to_owned();
        let names = service_names(&service, namespace).to_vec();
        let namespace = namespace.to_owned();
        return Ok((ClientTarget::Service { namespace, name: service, port: None }, names));
    };
    if service.is_some() {
        let message = "--webhook-url and --webhook-service exclude each other: the API server \
                       calls webhooks by a URL or by a Service";
        return Err(ManagerError::Setup(message.to_owned()));
    }
    let invalid = || {
        ManagerError::Setup(format!(
            "--webhook-url {url:?} is no base URL: give one such as https://192.0.2.1:9443"
        ))
    };
    let parsed = base_url(url).ok_or_else(invalid)?;
    let host = parsed.host().ok_or_else(invalid)?;
    let port = match parsed.port_u16() {
        Some(0) => bound_port,
        Some(port) => port,
        None => 443,
    };
    let names = vec![host.trim_start_matches('[').trim_end_matches(']').to_owned()];
    Ok((ClientTarget::Url(format!("https://{host}:{port}")), names))
}

/// The value of an option. An empty one, as from an empty environment variable, is none.
fn given(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

/// The warning for a process outside of a cluster whose webhooks the API server calls by a Service.
/// Not an error, because a tunnel may lead from the Service to the process. If the Service was
/// named, somebody has thought of that.
fn unreachable_service(
    options: &Options,
    target: &ClientTarget,
    is_in_pod: bool,
) -> Option<String> {
    let ClientTarget::Service { namespace, name, .. } = target else { return None };
    (!is_in_pod && given(options.webhook_service.as_ref()).is_none()).then(|| {
        format!(
            "this process does not run in a pod, and the API server is told to call its webhooks \
             by the Service {namespace}/{name}: requests that need them fail, or are answered by \
             the replicas in the cluster; give --webhook-url https://HOST:PORT, the address at which \
             the API server reaches this machine, or, if a tunnel leads from the Service to it, \
             --webhook-service {name}"
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_warned_of_outside_of_a_pod_unless_it_was_named() {
        let warning = |options: &Options, is_in_pod| {
            let (target, _) = target(options, "gadgets", "shop", 9443).expect("a target");
            unreachable_service(options, &target, is_in_pod)
        };
        let text = warning(&Options::default(), false).expect("a warning");
        assert!(
            text.contains("by the Service shop/gadgets: requests that need them fail"),
            "{text}"
        );
        assert!(text.contains("give --webhook-url https://HOST:PORT"), "{text}");
        assert_eq!(warning(&Options::default(), true), None);
        let url = Options { webhook_url: Some("https://192.0.2.1".into()), ..Options::default() };
        assert_eq!(warning(&url, false), None);
        let named = |name: &str| Options {
            webhook_service: Some(name.into()),
            webhook_url: Some(String::new()),
            ..Options::default()
        };
        assert_eq!(warning(&named("gadgets"), false), None);
        assert!(warning(&named(""), false).is_some(), "as if it was not given");
    }

    #[test]
    fn url_and_service_exclude_each_other() {
        let both = Options {
            webhook_url: Some("https://192.0.2.1".into()),
            webhook_service: Some("gadgets".into()),
            ..Options::default()
        };
        let error = target(&both, "gadgets", "shop", 9443).expect_err("two ways to call them");
        assert!(error.to_string().contains("exclude each other"), "{error}");
    }
}
