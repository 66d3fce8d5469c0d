//! Which kinds of children a controller makes, as its builder declares them.
//!
//! A prune looks at these kinds and at no others. So it costs a known number of requests, which
//! nobody can raise by editing an object, and it needs a known set of rights.

use windlass_informer::Resource;

use crate::error::Error;

/// The kinds of children of a controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChildKinds {
    /// Those that it makes, each in one version: the first that was declared.
    made: Vec<Resource>,
    /// Those that an earlier version of it made, and this one does not.
    retired: Vec<Resource>,
    /// Whether it may make children of undeclared kinds.
    is_any: bool,
}

impl ChildKinds {
    pub(crate) fn add_made(&mut self, resource: &Resource) {
        self.retired.retain(|retired| !is_same(retired, resource));
        add(&mut self.made, resource);
    }

    /// What is made is not retired.
    pub(crate) fn add_retired(&mut self, resource: &Resource) {
        if !self.is_made(resource) {
            add(&mut self.retired, resource);
        }
    }

    pub(crate) fn allow_any(&mut self) {
        self.is_any = true;
    }

    pub(crate) fn made(&self) -> &[Resource] {
        &self.made
    }

    pub(crate) fn retired(&self) -> &[Resource] {
        &self.retired
    }

    fn is_made(&self, resource: &Resource) -> bool {
        self.made.iter().any(|made| is_same(made, resource))
    }

    /// Returns an error if the controller does not declare that it makes this kind.
    pub(crate) fn check(&self, controller: &str, resource: &Resource) -> Result<(), Error> {
        if self.is_any || self.is_made(resource) {
            return Ok(());
        }
        let kind = resource.kind();
        let message = format!(
            "the controller {controller:?} does not declare that it makes children of the kind \
             {kind} ({resource}): add .makes::<{kind}>() to its builder, or \
             .owns(Watch::<{kind}>::new()), which also runs the owner when such a child changes; \
             for kinds that are only known at run time, .makes_of(resource) or .makes_any()"
        );
        Err(Error::msg(message).terminal())
    }
}

fn add(resources: &mut Vec<Resource>, resource: &Resource) {
    if !resources.iter().any(|one| is_same(one, resource)) {
        resources.push(resource.clone());
    }
}

/// Whether both are the same resource, in any version.
pub(crate) fn is_same(one: &Resource, other: &Resource) -> bool {
    one.plural() == other.plural() && one.group() == other.group()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::api::ApiResource;
    use kube::core::GroupVersionKind;

    use super::*;

    fn config_maps_in(version: &str) -> Resource {
        let kind = GroupVersionKind::gvk("", version, "ConfigMap");
        Resource::new(&ApiResource::from_gvk(&kind), true)
    }

    #[test]
    fn kind_is_declared_once_in_whichever_version() {
        let mut kinds = ChildKinds::default();
        kinds.add_made(&Resource::of::<ConfigMap>());
        kinds.add_made(&config_maps_in("v2"));
        assert_eq!(kinds.made(), [Resource::of::<ConfigMap>()]);
        assert!(kinds.check("shops", &config_maps_in("v3")).is_ok());
        let error = kinds.check("shops", &Resource::of::<Secret>()).expect_err("undeclared");
        assert!(error.to_string().contains("add .makes::<Secret>() to its builder"), "{error}");
        kinds.allow_any();
        assert!(kinds.check("shops", &Resource::of::<Secret>()).is_ok());
    }

    #[test]
    fn kind_that_is_made_is_not_retired() {
        let mut kinds = ChildKinds::default();
        kinds.add_retired(&Resource::of::<ConfigMap>());
        kinds.add_retired(&Resource::of::<Secret>());
        kinds.add_made(&Resource::of::<ConfigMap>());
        kinds.add_retired(&config_maps_in("v2"));
        assert_eq!(kinds.retired(), [Resource::of::<Secret>()]);
    }
}
