//! Buggy webhooks of an operator, written with `windlass-webhook`.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::webhook::{
    Admission, Conversion, Convert, ConvertError, FailurePolicy, Hook, Operation, Validate,
    Verdict, Webhooks,
};

use kinds::{v1, v2};

/// A kind with two versions.
mod kinds {
    #![expect(
        unreachable_pub,
        reason = "kube's derive writes a copy of the struct into a function"
    )]

    pub mod v1 {
        use kube::CustomResource;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
        #[kube(group = "panics.example.com", version = "v1", kind = "Website", namespaced)]
        #[kube(schema = "disabled")]
        pub struct WebsiteSpec {
            pub host: String,
        }
    }

    pub mod v2 {
        use kube::CustomResource;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
        #[kube(group = "panics.example.com", version = "v2", kind = "Website", namespaced)]
        #[kube(schema = "disabled")]
        pub struct WebsiteSpec {
            pub hosts: Vec<String>,
        }
    }
}

impl Convert<v1::Website> for v2::Website {
    fn from_spoke(_: v1::Website) -> Result<Self, ConvertError> {
        panic!("as the test wants it")
    }

    fn into_spoke(self) -> Result<v1::Website, ConvertError> {
        panic!("as the test wants it")
    }
}

struct Panics;

impl Validate<ConfigMap> for Panics {
    async fn validate(&self, _: Operation<'_, ConfigMap>, _: &Admission) -> Verdict {
        panic!("as the test wants it")
    }
}

struct Hangs;

impl Validate<ConfigMap> for Hangs {
    async fn validate(&self, _: Operation<'_, ConfigMap>, _: &Admission) -> Verdict {
        std::future::pending().await
    }
}

/// Returns all of them, by path.
pub(crate) fn webhooks() -> Webhooks {
    let mut webhooks = Webhooks::new();
    let policies = [("fail", FailurePolicy::Fail), ("ignore", FailurePolicy::Ignore)];
    for (name, policy) in policies {
        let panics = Hook::validating(Panics).at(format!("/panic/{name}"));
        let hangs = Hook::validating(Hangs).at(format!("/hang/{name}"));
        webhooks = webhooks.hook(panics.failure_policy(policy)).hook(hangs.failure_policy(policy));
    }
    webhooks.convert(Conversion::hub::<v2::Website>().spoke::<v1::Website>())
}
