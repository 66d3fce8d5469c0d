//! Reviews: questions in the form of objects. They are answered, never stored.

use serde_json::{Map, Value, json};

use crate::auth::{Auth, User};
use crate::fields::metadata_mut;
use crate::request::RequestInfo;

/// Puts the answer into a review that was posted. `kind` is one of the review kinds.
pub(crate) fn answer(
    kind: &str,
    mut review: Map<String, Value>,
    auth: &Auth,
    user: &User,
) -> Map<String, Value> {
    let status = match kind {
        "TokenReview" => token_status(&review, auth),
        "SelfSubjectReview" => json!({"userInfo": user_info(user)}),
        "SelfSubjectRulesReview" => rules_status(),
        "SelfSubjectAccessReview" => access_status(&review, auth, user),
        _ => access_status(&review, auth, &subject(&review)),
    };
    metadata_mut(&mut review);
    review.insert("status".into(), status);
    review
}

/// Whose access a `SubjectAccessReview` asks about.
fn subject(review: &Map<String, Value>) -> User {
    let spec = review.get("spec");
    let name = spec.and_then(|spec| spec.get("user")).and_then(Value::as_str).unwrap_or_default();
    let groups = spec.and_then(|spec| spec.get("groups")).and_then(Value::as_array);
    let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    User { name: name.to_owned(), groups: groups.collect() }
}

fn access_status(review: &Map<String, Value>, auth: &Auth, user: &User) -> Value {
    let attributes = review.get("spec").and_then(|spec| spec.get("resourceAttributes"));
    let Some(attributes) = attributes else {
        return json!({"allowed": auth.allows(user, &RequestInfo::default())});
    };
    let text = |field: &str| attributes.get(field).and_then(Value::as_str).unwrap_or_default();
    let request = RequestInfo {
        verb: known_verb(text("verb")),
        group: text("group").to_owned(),
        resource: text("resource").to_owned(),
        subresource: text("subresource").to_owned(),
        namespace: text("namespace").to_owned(),
        name: text("name").to_owned(),
    };
    json!({"allowed": auth.allows(user, &request)})
}

fn token_status(review: &Map<String, Value>, auth: &Auth) -> Value {
    let token = review.get("spec").and_then(|spec| spec.get("token")).and_then(Value::as_str);
    match token.and_then(|token| auth.review(token)) {
        Some(user) => json!({"authenticated": true, "user": user_info(&user)}),
        None => json!({"user": {}, "error": "invalid bearer token"}),
    }
}

fn rules_status() -> Value {
    json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    })
}

fn user_info(user: &User) -> Value {
    json!({"username": user.name, "groups": user.groups})
}

/// Verbs are few, and rules compare them as they are written here; another one matches no rule.
fn known_verb(verb: &str) -> &'static str {
    const VERBS: [&str; 8] =
        ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    VERBS.into_iter().find(|known| *known == verb).unwrap_or_default()
}
