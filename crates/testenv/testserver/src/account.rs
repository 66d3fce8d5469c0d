//! Service accounts with limited rights, on either cluster: to run code with the rights that it
//! will have.

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::{Error, TestServer};

/// How often to check for new rights. A real server takes a moment to apply them.
const POLL_PERIOD: std::time::Duration = std::time::Duration::from_millis(20);

/// How long to wait for them.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// A service account of a [`TestServer`], with a token.
///
/// Where roles decide, it has only the rights that it is granted: on the real cluster, and on a
/// [`TestServer::embedded_with_roles`].
///
/// ```
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kube::api::{Api, ListParams};
/// use serde_json::json;
/// use windlass_testserver::TestServer;
///
/// let cluster = TestServer::embedded_with_roles();
/// let namespace = cluster.namespace("docs").await?;
/// let operator = cluster.account(&namespace, "operator").await?;
/// let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
/// operator.grant(&[rule]).await?;
///
/// let client = operator.client()?;
/// let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
/// assert!(maps.list(&ListParams::default()).await.is_ok());
/// let secrets: Api<Secret> = Api::namespaced(client, &namespace);
/// assert!(secrets.list(&ListParams::default()).await.is_err());
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(test()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Account {
    cluster: TestServer,
    namespace: String,
    name: String,
    token: Token,
}

/// Hides the token, which is a secret.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl TestServer {
    /// Returns the service account of this name with a new token. Creates it if it does not exist.
    ///
    /// # Errors
    /// If the cluster refuses it.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<Account, Error> {
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
        });
        let client = self.client()?;
        match post(&client, &accounts, &account).await {
            Err(Error::Client(error)) if already_exists(&error) => {}
            made => drop(made?),
        }
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
        });
        let issued = post(&client, &format!("{accounts}/{name}/token"), &request).await?;
        let token = Token(issued["status"]["token"].as_str().unwrap_or_default().to_owned());
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(Account { cluster: self.clone(), namespace, name, token })
    }
}

impl Account {
    /// Returns the user name that it authenticates as.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns the token.
    pub fn token(&self) -> &str {
        &self.token.0
    }

    /// Creates a client for this account. It belongs to the calling runtime.
    ///
    /// # Errors
    /// If the TLS configuration for the real server cannot be created.
    pub fn client(&self) -> Result<Client, Error> {
        match (self.cluster.server(), self.cluster.control_plane()) {
            (Some(server), _) => {
                Ok(Client::new(server.service_with_token(self.token()), self.namespace.clone()))
            }
            (None, Some(cluster)) => cluster.client_as(self.token()),
            (None, None) => unreachable!("a cluster is embedded or real"),
        }
    }

    /// Grants the account these rules in its namespace: creates a Role and a `RoleBinding` of its
    /// name. Returns when the server applies them.
    ///
    /// # Errors
    /// If the cluster refuses them, or does not apply them in time.
    pub async fn grant(&self, rules: &[Value]) -> Result<(), Error> {
        let group = "rbac.authorization.k8s.io";
        let place = format!("/apis/{group}/v1/namespaces/{}", self.namespace);
        let metadata = json!({"name": self.name});
        let role = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": self.name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name}],
        });
        let client = self.cluster.client()?;
        post(&client, &format!("{place}/roles"), &role).await?;
        post(&client, &format!("{place}/rolebindings"), &binding).await?;
        self.wait_for_rights(rules).await
    }

    async fn wait_for_rights(&self, rules: &[Value]) -> Result<(), Error> {
        let client = self.client()?;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": self.namespace},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = post(&client, path, &review).await?;
            let seen = answer["status"]["resourceRules"].as_array().cloned().unwrap_or_default();
            let same = |one: &Value, rule: &Value| {
                ["verbs", "apiGroups", "resources", "resourceNames"]
                    .iter()
                    .all(|field| one.get(field) == rule.get(field) || one[field] == json!(["*"]))
            };
            if rules.iter().all(|rule| seen.iter().any(|one| same(one, rule))) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                return Err(Error::NoRights { user: self.user(), waited: PATIENCE });
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }
}

fn already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, Error> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    Ok(client.request(request).await?)
}
