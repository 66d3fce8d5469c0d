//! Installing a `CustomResourceDefinition`, and waiting until objects of it can be created.
//!
//! Each step reads the definition and brings it one step further: creates it, patches the
//! difference, or waits. This repeats until the server serves it or time is up. So it does not
//! matter who else installs the same definition meanwhile, or at which step a request fails.

mod change;
mod error;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use tokio::time::{sleep, timeout};

pub use error::{InstallError, Obstacle};

/// How long [`install_crd`] waits. A real server takes a second or two, and longer after a restart.
pub const INSTALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// The first pause between two steps; it doubles with each.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Installs a definition, or updates the existing one, and waits until objects of it can be
/// created: until its names are accepted, it is established, and discovery has all its versions. At
/// most [`INSTALL_TIMEOUT`].
///
/// Labels, annotations and finalizers that others have added stay. If nothing differs, nothing is
/// written. It needs the verbs `get`, `create` and `patch` on `customresourcedefinitions`.
///
/// ```no_run
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
/// use windlass_reconciler::install_crd;
/// # use windlass_reconciler::InstallError;
///
/// # async fn example(
/// #     client: kube::Client,
/// #     foo_crd: extensions::CustomResourceDefinition,
/// # ) -> Result<(), InstallError> {
/// // With `kube`'s derive: `Foo::crd()` of `kube::CustomResourceExt`.
/// install_crd(&client, &foo_crd).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns an error if the server refuses the definition, or it cannot be used in time. The error
/// says why, and what to do.
///
/// # Cancel safety
/// If it is dropped half-way, the definition stays as it is; another call continues from there.
pub async fn install_crd(
    client: &Client,
    definition: &CustomResourceDefinition,
) -> Result<CustomResourceDefinition, InstallError> {
    install_crd_within(client, definition, INSTALL_TIMEOUT).await
}

/// Like [`install_crd`], with your own limit.
///
/// # Errors
/// As for [`install_crd`].
///
/// # Cancel safety
/// As for [`install_crd`].
pub async fn install_crd_within(
    client: &Client,
    definition: &CustomResourceDefinition,
    limit: Duration,
) -> Result<CustomResourceDefinition, InstallError> {
    let install = Install::new(client, definition)?;
    let mut obstacle = Obstacle::NoAnswer;
    let ended = timeout(limit, install.run(&mut obstacle)).await;
    ended.unwrap_or_else(|_| {
        let definition = install.name.to_owned();
        Err(InstallError::NotReady { definition, after: limit, obstacle })
    })
}

/// Sends the write that [`install_crd`] would make to the definition that is there, once, and waits
/// for nothing. With the client of a [`PlanRecorder`](crate::PlanRecorder) it changes nothing, and
/// the recorder notes what would change.
///
/// # Errors
/// Returns an error if the definition is not installed, or the server refuses the change.
///
/// # Cancel safety
/// If it is dropped, the write may have been sent.
pub async fn plan_crd(
    client: &Client,
    definition: &CustomResourceDefinition,
) -> Result<(), InstallError> {
    let install = Install::new(client, definition)?;
    let definition = install.name.to_owned();
    let failed = |verb, error| match install.failed(verb, error) {
        Unready::Fail(error) => error,
        Unready::Wait(obstacle) => {
            let definition = install.name.to_owned();
            InstallError::NotReady { definition, after: Duration::ZERO, obstacle }
        }
    };
    let present = install.definitions.get_opt(install.name).await;
    let present = present.map_err(|error| failed("get", error))?;
    let present = present.ok_or(InstallError::NotInstalled { definition })?;
    install.update(present).await.map(drop).map_err(|error| failed("patch", error))
}

/// One installation.
struct Install<'a> {
    client: &'a Client,
    definitions: Api<CustomResourceDefinition>,
    name: &'a str,
    wanted: &'a CustomResourceDefinition,
}

/// Why the definition cannot be used after a step.
enum Unready {
    /// Another step may help.
    Wait(Obstacle),
    /// No further step helps.
    Fail(InstallError),
}

impl<'a> Install<'a> {
    fn new(client: &'a Client, wanted: &'a CustomResourceDefinition) -> Result<Self, InstallError> {
        let name = wanted.metadata.name.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or(InstallError::Unnamed)?;
        Ok(Self { client, definitions: Api::all(client.clone()), name, wanted })
    }

    /// Repeats the step until the definition can be used. `obstacle` is what it waits for.
    async fn run(&self, obstacle: &mut Obstacle) -> Result<CustomResourceDefinition, InstallError> {
        let (mut pause, mut is_logged) = (PAUSE, false);
        loop {
            *obstacle = match timeout(STEP_TIMEOUT, self.step()).await {
                Ok(Ok(definition)) => return Ok(definition),
                Ok(Err(Unready::Wait(obstacle))) => obstacle,
                Ok(Err(Unready::Fail(error))) => return Err(error),
                Err(_) => Obstacle::NoAnswer,
            };
            // Logged once: the error comes only after the time limit.
            if obstacle.is_trouble() && !is_logged {
                is_logged = true;
                tracing::warn!(
                    definition = self.name,
                    "not installed yet: {obstacle}; trying again"
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn step(&self) -> Result<CustomResourceDefinition, Unready> {
        let present = self.definitions.get_opt(self.name).await;
        let definition = match present.map_err(|error| self.failed("get", error))? {
            None => {
                let created = self.definitions.create(&PostParams::default(), self.wanted).await;
                created.map_err(|error| self.failed("create", error))?
            }
            Some(present) if present.metadata.deletion_timestamp.is_some() => {
                return Err(Unready::Wait(Obstacle::Deleting));
            }
            Some(present) => {
                let updated = self.update(present).await;
                updated.map_err(|error| self.failed("patch", error))?
            }
        };
        if let Some(obstacle) = not_established(&definition) {
            return Err(Unready::Wait(obstacle));
        }
        self.check_discovery(&definition).await?;
        Ok(definition)
    }

    /// Not by PUT, which would erase what this version of the types does not know.
    async fn update(
        &self,
        present: CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, kube::Error> {
        let change = change::between(&present, self.wanted).map_err(kube::Error::SerdeError)?;
        let Some(patch) = change else { return Ok(present) };
        self.definitions.patch(self.name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Checks that discovery has all versions that are served.
    async fn check_discovery(&self, definition: &CustomResourceDefinition) -> Result<(), Unready> {
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let api_version = format!("{}/{}", spec.group, version.name);
            let is_served = match self.client.list_api_group_resources(&api_version).await {
                Ok(list) => list.resources.iter().any(|one| one.name == spec.names.plural),
                Err(kube::Error::Api(status)) if status.code == 404 => false,
                Err(error) => return Err(self.failed("discover", error)),
            };
            if !is_served {
                return Err(Unready::Wait(Obstacle::NotServed { api_version }));
            }
        }
        Ok(())
    }

    /// Decides whether a request that failed is worth another try.
    fn failed(&self, verb: &'static str, error: kube::Error) -> Unready {
        let code = match &error {
            kube::Error::Api(status) => status.code,
            kube::Error::HyperError(_) | kube::Error::Service(_) => 503,
            _ => 400,
        };
        let (definition, error) = (self.name.to_owned(), error.into());
        match code {
            403 => Unready::Fail(InstallError::Forbidden { definition, verb, error }),
            // Somebody else created, changed or deleted it first, and the next step sees that; or a
            // token is about to be renewed; or the server is busy or has trouble.
            401 | 409 | 429 | 500.. => Unready::Wait(Obstacle::Failed { verb, error }),
            404 if verb == "patch" => Unready::Wait(Obstacle::Failed { verb, error }),
            _ => Unready::Fail(InstallError::Refused { definition, verb, error }),
        }
    }
}

fn not_established(definition: &CustomResourceDefinition) -> Option<Obstacle> {
    let is_true = |condition: &CustomResourceDefinitionCondition| condition.status == "True";
    let accepted = condition(definition, "NamesAccepted");
    if let Some(refused) = accepted.filter(|condition| condition.status == "False") {
        let message = refused.message.clone().unwrap_or_default();
        return Some(Obstacle::NamesNotAccepted { message });
    }
    let established = condition(definition, "Established");
    // After a change of its names, the conditions are still about the old ones.
    let status = definition.status.as_ref();
    let judged = status.and_then(|status| status.accepted_names.as_ref());
    let is_judged = judged.is_some_and(|names| change::is_same(names, &definition.spec.names));
    if is_judged && accepted.is_some_and(is_true) && established.is_some_and(is_true) {
        return None;
    }
    let message = established.filter(|condition| !is_true(condition));
    let message = message.and_then(|condition| condition.message.as_deref());
    let message = message.unwrap_or("the server gives no reason").to_owned();
    Some(Obstacle::NotEstablished { message })
}

fn condition<'a>(
    definition: &'a CustomResourceDefinition,
    type_: &str,
) -> Option<&'a CustomResourceDefinitionCondition> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}
