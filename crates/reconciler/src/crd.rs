//! Installing a `CustomResourceDefinition`, and waiting until its objects can be made.
//!
//! What is there is read, and brought one step further: created, changed by a patch of the difference, waited for.
//! Then it is read again, until the server serves it or time is up. So it does not matter who else installs the same
//! definition meanwhile, or at which step a request fails.

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

/// How long [`install_crd`] waits. A real server takes a second or two; after a restart it may take longer.
pub const INSTALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a look at the server may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// The first pause between two looks; it doubles with each.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Installs a definition, or brings the one that is there up to date, and waits until its objects can be made: until
/// its names are accepted, it is established, and discovery has all its versions. At most [`INSTALL_TIMEOUT`].
///
/// Labels, annotations and finalizers that others have put on it stay. A definition that is as it should be is not
/// written. It needs the verbs `get`, `create` and `patch` on `customresourcedefinitions`.
///
/// ```no_run
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
/// use windlass_reconciler::install_crd;
/// # use windlass_reconciler::InstallError;
///
/// # async fn example(client: kube::Client, foo_crd: CustomResourceDefinition) -> Result<(), InstallError> {
/// // With `kube`'s derive: `Foo::crd()` of `kube::CustomResourceExt`.
/// install_crd(&client, &foo_crd).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the server refuses it, or it cannot be used in time. The error says why, and what to do.
///
/// # Cancel safety
/// Dropping it half-way leaves the definition as far as it was brought; calling it again goes on from there.
pub async fn install_crd(
    client: &Client,
    definition: &CustomResourceDefinition,
) -> Result<CustomResourceDefinition, InstallError> {
    install_crd_within(client, definition, INSTALL_TIMEOUT).await
}

/// As [`install_crd`], with a limit of your own.
///
/// # Errors
/// If the server refuses it, or it cannot be used in time. The error says why, and what to do.
///
/// # Cancel safety
/// As that of [`install_crd`].
pub async fn install_crd_within(
    client: &Client,
    definition: &CustomResourceDefinition,
    limit: Duration,
) -> Result<CustomResourceDefinition, InstallError> {
    let name = definition.metadata.name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or(InstallError::Unnamed)?;
    let install =
        Install { client, definitions: Api::all(client.clone()), name, wanted: definition };
    let mut obstacle = Obstacle::NoAnswer;
    let ended = timeout(limit, install.run(&mut obstacle)).await;
    ended.unwrap_or_else(|_| {
        Err(InstallError::NotReady { definition: name.to_owned(), after: limit, obstacle })
    })
}

/// One installation.
struct Install<'a> {
    client: &'a Client,
    definitions: Api<CustomResourceDefinition>,
    name: &'a str,
    wanted: &'a CustomResourceDefinition,
}

/// How far it is.
enum Step {
    Ready(Box<CustomResourceDefinition>),
    Waiting(Obstacle),
}

impl Install<'_> {
    /// Goes on until it is ready. What it waits for is always in `obstacle`.
    async fn run(&self, obstacle: &mut Obstacle) -> Result<CustomResourceDefinition, InstallError> {
        let mut pause = PAUSE;
        loop {
            *obstacle = match timeout(STEP_TIMEOUT, self.step()).await {
                Ok(Ok(Step::Ready(definition))) => return Ok(*definition),
                Ok(Ok(Step::Waiting(obstacle))) => obstacle,
                Ok(Err((verb, error))) => Obstacle::of(error, verb, self.name)?,
                Err(_) => Obstacle::NoAnswer,
            };
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// One look at the server, and what follows. A request that fails is told with its verb.
    async fn step(&self) -> Result<Step, (&'static str, kube::Error)> {
        let present = self.definitions.get_opt(self.name).await.map_err(|error| ("get", error))?;
        let definition = match present {
            None => self.create().await?,
            Some(present) if present.metadata.deletion_timestamp.is_some() => {
                return Ok(Step::Waiting(Obstacle::Deleting));
            }
            Some(present) => self.update(present).await?,
        };
        if let Some(obstacle) = not_established(&definition) {
            return Ok(Step::Waiting(obstacle));
        }
        Ok(match self.not_served(&definition).await? {
            Some(obstacle) => Step::Waiting(obstacle),
            None => Step::Ready(Box::new(definition)),
        })
    }

    async fn create(&self) -> Result<CustomResourceDefinition, (&'static str, kube::Error)> {
        let created = self.definitions.create(&PostParams::default(), self.wanted).await;
        created.map_err(|error| ("create", error))
    }

    /// Never by PUT: what this version of the types does not know would be erased.
    async fn update(
        &self,
        present: CustomResourceDefinition,
    ) -> Result<CustomResourceDefinition, (&'static str, kube::Error)> {
        let failed = |error| ("patch", error);
        let change = change::between(&present, self.wanted);
        match change.map_err(|error| failed(kube::Error::SerdeError(error)))? {
            None => Ok(present),
            Some(patch) => {
                let patch = Patch::Merge(patch);
                let params = PatchParams::default();
                self.definitions.patch(self.name, &params, &patch).await.map_err(failed)
            }
        }
    }

    /// The first version that discovery does not have yet.
    async fn not_served(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<Option<Obstacle>, (&'static str, kube::Error)> {
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served) {
            let api_version = format!("{}/{}", spec.group, version.name);
            let is_served = match self.client.list_api_group_resources(&api_version).await {
                Ok(list) => list.resources.iter().any(|one| one.name == spec.names.plural),
                Err(kube::Error::Api(status)) if status.code == 404 => false,
                Err(error) => return Err(("discover", error)),
            };
            if !is_served {
                return Ok(Some(Obstacle::NotServed { api_version }));
            }
        }
        Ok(None)
    }
}

fn not_established(definition: &CustomResourceDefinition) -> Option<Obstacle> {
    let accepted = condition(definition, "NamesAccepted");
    if let Some(refused) = accepted.filter(|condition| condition.status == "False") {
        let message = refused.message.clone().unwrap_or_default();
        return Some(Obstacle::NamesNotAccepted { message });
    }
    let established = condition(definition, "Established");
    let is_true = |condition: Option<&CustomResourceDefinitionCondition>| {
        condition.is_some_and(|condition| condition.status == "True")
    };
    // Names that were changed just now are not judged yet, whatever the condition still says.
    let status = definition.status.as_ref();
    let judged = status.and_then(|status| status.accepted_names.as_ref());
    let is_judged = judged.is_some_and(|names| change::is_same(names, &definition.spec.names));
    if is_judged && is_true(accepted) && is_true(established) {
        return None;
    }
    let message = established.filter(|condition| condition.status != "True");
    let message = message.and_then(|condition| condition.message.clone());
    Some(Obstacle::NotEstablished { message: message.unwrap_or_default() })
}

fn condition<'a>(
    definition: &'a CustomResourceDefinition,
    type_: &str,
) -> Option<&'a CustomResourceDefinitionCondition> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}
