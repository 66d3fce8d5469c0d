//! One admission webhook: what it matches, how it behaves, and its handler.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admission::{Defaulter, Mutate, Validate};
use crate::configuration::{
    FailurePolicy, MatchCondition, MatchPolicy, ReinvocationPolicy, Rule, Scope, SideEffects,
};
use crate::handler::{Defaulting, Handle, Mutating, Validating};
use crate::review::Verb;
use crate::timeout::TIMEOUT_DEFAULT;

/// One admission webhook: a handler, what it is called for, and what happens if it fails.
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_webhook::{Admission, Defaulter, FailurePolicy, Hook, Webhooks};
///
/// struct ConfigMaps;
///
/// impl Defaulter<ConfigMap> for ConfigMaps {
///     fn default(&self, object: &mut ConfigMap, _: &Admission) {
///         object.immutable.get_or_insert(false);
///     }
/// }
///
/// let hook = Hook::defaulting::<ConfigMap>(ConfigMaps)
///     .failure_policy(FailurePolicy::Ignore)
///     .timeout(Duration::from_secs(2));
/// assert_eq!(hook.path(), "/mutate--v1-configmap");
/// let webhooks = Webhooks::new().hook(hook);
/// # drop(webhooks);
/// ```
#[derive(Clone)]
#[must_use = "it is served when it is added to `Webhooks`"]
pub struct Hook {
    pub(crate) is_mutating: bool,
    pub(crate) target: ApiResource,
    pub(crate) handler: Arc<dyn Handle>,
    pub(crate) settings: Settings,
}

/// What a user may set. The defaults stand at the setters.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) name: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) operations: Vec<Verb>,
    pub(crate) subresources: Vec<String>,
    pub(crate) only_subresources: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) scope: Scope,
    pub(crate) match_policy: MatchPolicy,
    pub(crate) match_conditions: Vec<MatchCondition>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) side_effects: SideEffects,
    pub(crate) reinvocation: ReinvocationPolicy,
    pub(crate) timeout: Duration,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) object_selector: Option<LabelSelector>,
}

impl Hook {
    /// A webhook that validates objects of a type.
    pub fn validating<K>(handler: impl Validate<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        Self::validating_for(&ApiResource::erase::<K>(&()), handler)
    }

    /// A webhook that validates objects of a resource that is known at run time: as
    /// [`DynamicObject`](kube::core::DynamicObject), as [`serde_json::Value`], or as any type that
    /// decodes from them.
    pub fn validating_for<K>(resource: &ApiResource, handler: impl Validate<K>) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        Self::new(false, resource, Arc::new(Validating::<K, _>(handler, PhantomData)))
    }

    /// A webhook that fills in fields of objects of a type.
    pub fn defaulting<K>(handler: impl Defaulter<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        Self::mutating::<K>(Defaulting(handler))
    }

    /// A webhook that fills in fields of objects of a resource that is known at run time.
    pub fn defaulting_for<K>(resource: &ApiResource, handler: impl Defaulter<K>) -> Self
    where
        K: DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        Self::mutating_for::<K>(resource, Defaulting(handler))
    }

    /// A webhook that changes objects of a type, or refuses them.
    pub fn mutating<K>(handler: impl Mutate<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        Self::mutating_for(&ApiResource::erase::<K>(&()), handler)
    }

    /// A webhook that changes objects of a resource that is known at run time, or refuses them.
    pub fn mutating_for<K>(resource: &ApiResource, handler: impl Mutate<K>) -> Self
    where
        K: DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        Self::new(true, resource, Arc::new(Mutating::<K, _>(handler, PhantomData)))
    }

    fn new(is_mutating: bool, target: &ApiResource, handler: Arc<dyn Handle>) -> Self {
        let settings = Settings {
            name: None,
            path: None,
            operations: vec![Verb::Create, Verb::Update],
            subresources: Vec::new(),
            only_subresources: false,
            rules: Vec::new(),
            scope: Scope::All,
            match_policy: MatchPolicy::Equivalent,
            match_conditions: Vec::new(),
            failure_policy: FailurePolicy::Fail,
            side_effects: SideEffects::None,
            reinvocation: ReinvocationPolicy::Never,
            timeout: TIMEOUT_DEFAULT,
            namespace_selector: None,
            object_selector: None,
        };
        Self { is_mutating, target: target.clone(), handler, settings }
    }

    /// The name that people see in denials. Default: derived from the resource, such as
    /// `validate-v1.websites.example.com`. It must be unique, with at least three segments.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// The path that the webhook is served at. Default: controller-runtime's, such as
    /// `/validate-example-com-v1-website`.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.settings.path = Some(path.into());
        self
    }

    /// What the webhook is called for. Default: `Create` and `Update`.
    ///
    /// A webhook that is called for `Delete` and fails closed keeps namespaces from going away
    /// while it is down.
    pub fn operations(mut self, operations: impl IntoIterator<Item = Verb>) -> Self {
        self.settings.operations = operations.into_iter().collect();
        self
    }

    /// Calls the webhook for subresources as well, such as `status`. Default: none. The object of
    /// `scale` is a `Scale`, whatever the resource is: see [`Hook::only_subresources`].
    pub fn subresources(
        mut self,
        subresources: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.settings.subresources = subresources.into_iter().map(Into::into).collect();
        self
    }

    /// Calls the webhook for its [subresources](Hook::subresources) and not for the object itself.
    pub fn only_subresources(mut self) -> Self {
        self.settings.only_subresources = true;
        self
    }

    /// Calls the webhook for other resources too. The requests of a webhook with such a rule are
    /// not checked against its own resource, so its handler is best one of raw or dynamic objects.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.settings.rules.push(rule);
        self
    }

    /// Whether objects in namespaces, without one, or both match. Default: both.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.settings.scope = scope;
        self
    }

    /// Whether a request for another version of the resource is converted and matches. Default:
    /// `Equivalent`, it does.
    pub fn match_policy(mut self, policy: MatchPolicy) -> Self {
        self.settings.match_policy = policy;
        self
    }

    /// A CEL expression that must be true of a request, for the webhook to be called. Default:
    /// none.
    pub fn match_condition(
        mut self,
        name: impl Into<String>,
        expression: impl Into<String>,
    ) -> Self {
        let condition = MatchCondition { name: name.into(), expression: expression.into() };
        self.settings.match_conditions.push(condition);
        self
    }

    /// Does not call the webhook for the requests of a user, by a match condition. Default: it is
    /// called for everybody.
    ///
    /// With the operator's own service account, `system:serviceaccount:NAMESPACE:NAME`, the
    /// operator can write its objects while its webhook is down. What it writes is not checked.
    pub fn skip_user(self, username: &str) -> Self {
        let name = format!("skip-user-{}", self.settings.match_conditions.len());
        // A string of JSON is one of CEL.
        let username = serde_json::Value::from(username);
        self.match_condition(name, format!("request.userInfo.username != {username}"))
    }

    /// What happens to a request if the webhook cannot be called, panics, takes too long, is
    /// [undecided](crate::Verdict::undecided), or cannot decode the object. Default: `Fail`, it is
    /// refused.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.settings.failure_policy = policy;
        self
    }

    /// Whether the handler changes anything but the object. Default: it does not.
    pub fn side_effects(mut self, side_effects: SideEffects) -> Self {
        self.settings.side_effects = side_effects;
        self
    }

    /// Whether a mutating webhook is called again if a later one changed the object. Default:
    /// `Never`.
    pub fn reinvocation(mut self, policy: ReinvocationPolicy) -> Self {
        self.settings.reinvocation = policy;
        self
    }

    /// How long the server waits for an answer, 1 s to 30 s, in full seconds. Default: 10 s. The
    /// handler gets a tenth less.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Calls the webhook only for objects in namespaces with these labels. Default: all.
    pub fn namespace_selector(mut self, selector: LabelSelector) -> Self {
        self.settings.namespace_selector = Some(selector);
        self
    }

    /// Calls the webhook only for objects with these labels. Default: all. Whoever may write the
    /// object may change its labels.
    pub fn object_selector(mut self, selector: LabelSelector) -> Self {
        self.settings.object_selector = Some(selector);
        self
    }

    /// The path that the webhook is served at.
    pub fn path(&self) -> String {
        if let Some(path) = &self.settings.path {
            return path.clone();
        }
        let ApiResource { group, version, kind, .. } = &self.target;
        let verb = if self.is_mutating { "mutate" } else { "validate" };
        format!("/{verb}-{}-{version}-{}", group.replace('.', "-"), kind.to_lowercase())
    }

    /// The name in the configuration.
    pub(crate) fn full_name(&self) -> String {
        if let Some(name) = &self.settings.name {
            return name.clone();
        }
        let ApiResource { group, version, plural, .. } = &self.target;
        let verb = if self.is_mutating { "mutate" } else { "validate" };
        let group = if group.is_empty() { "core" } else { group };
        format!("{verb}-{version}.{plural}.{group}")
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("path", &self.path()).finish_non_exhaustive()
    }
}
