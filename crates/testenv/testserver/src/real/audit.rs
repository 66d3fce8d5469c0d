//! kube-apiserver's audit log: writes with their users and times, by the server's clock.
//!
//! The server logs a line when it receives a request, and another one before it answers, so the log
//! is complete for every answered request.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ControlPlane;
use crate::Error;

/// The file name of the policy, in the cluster's folder.
const POLICY: &str = "audit-policy.json";

/// The file name of the log, in the cluster's folder.
const LOG: &str = "audit.log";

/// One line of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRecord {
    /// The request's id, on all lines of one request.
    pub id: String,
    /// Whether the line was written on receipt or on the answer.
    pub stage: AuditStage,
    /// The name of the requesting user.
    pub user: String,
    /// The user agent of the request.
    pub agent: String,
    /// The verb, such as `patch`.
    pub verb: String,
    /// The path and the query of the request.
    pub uri: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the resource, such as `configmaps`.
    pub resource: String,
    /// The subresource, or an empty string.
    pub subresource: String,
    /// The namespace, or an empty string.
    pub namespace: String,
    /// The name of the object, or an empty string, as for a `create` before its answer.
    pub name: String,
    /// When the server received the request.
    pub received: Timestamp,
    /// When the server wrote this line.
    pub time: Timestamp,
    /// The status code of the answer.
    pub code: Option<u16>,
    /// The object in the answer; only for Leases.
    pub answer: Option<Value>,
}

/// The stage of a request at which a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub enum AuditStage {
    /// The request was received.
    #[default]
    RequestReceived,
    /// The answer was sent.
    ResponseComplete,
    /// The server panicked.
    Panic,
}

impl ControlPlane {
    /// Returns the audit log so far: all writes, in the order in which the server logged them.
    /// Empty unless [`ControlPlaneOptions::audit_log`](super::ControlPlaneOptions::audit_log)
    /// turned it on.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn audit_log(&self) -> Result<Vec<AuditRecord>, Error> {
        let log = match fs::read_to_string(self.folder().join(LOG)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            log => log.map_err(Error::system("read the audit log"))?,
        };
        parsed(&log)
    }
}

/// Writes the policy, and returns the flags that turn the log on.
pub(super) fn prepare(folder: &Path) -> Result<Vec<String>, Error> {
    fs::write(folder.join(POLICY), policy().to_string())
        .map_err(Error::system(format!("write {POLICY}")))?;
    Ok(vec![
        format!("--audit-policy-file={POLICY}"),
        format!("--audit-log-path={LOG}"),
        // The server answers only after the line is written.
        "--audit-log-mode=blocking".to_owned(),
        // One file, in megabytes: a log that is rotated in the middle of a test would lack lines.
        "--audit-log-maxsize=100000".to_owned(),
    ])
}

/// Only writes: reads would be most of the log. The answers for Leases show their holders.
fn policy() -> Value {
    let leases = json!([{ "group": "coordination.k8s.io", "resources": ["leases"] }]);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["ResponseStarted"],
        "rules": [
            { "level": "None", "verbs": ["get", "list", "watch"] },
            { "level": "RequestResponse", "resources": leases },
            { "level": "Metadata" },
        ],
    })
}

/// Returns the records of a log. The last line may be incomplete.
fn parsed(log: &str) -> Result<Vec<AuditRecord>, Error> {
    let whole = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let parse = |line: &str| serde_json::from_str::<Line>(line).map(AuditRecord::from);
    let records: Result<_, _> = whole.lines().map(parse).collect();
    records.map_err(|error| Error::system("understand the audit log")(error.into()))
}

/// A line as the server writes it: the fields of `audit.k8s.io/v1` that we use.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: AuditStage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: UserInfo,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
    response_object: Option<Value>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl From<Line> for AuditRecord {
    fn from(line: Line) -> Self {
        Self {
            id: line.audit_id,
            stage: line.stage,
            user: line.user.username,
            agent: line.user_agent,
            verb: line.verb,
            uri: line.request_uri,
            group: line.object_ref.api_group,
            resource: line.object_ref.resource,
            subresource: line.object_ref.subresource,
            namespace: line.object_ref.namespace,
            name: line.object_ref.name,
            received: line.request_received_timestamp,
            time: line.stage_timestamp,
            code: line.response_status.and_then(|status| status.code),
            answer: line.response_object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_records_and_half_a_line_is_left_out() {
        let line = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": "a", "stage": "ResponseComplete", "verb": "patch",
            "requestURI": "/api/v1/namespaces/shop/configmaps/a?force=true",
            "user": { "username": "replica-1", "groups": ["system:authenticated"] },
            "userAgent": "windlass",
            "objectRef": { "resource": "configmaps", "namespace": "shop", "name": "a" },
            "responseStatus": { "metadata": {}, "code": 409 },
            "requestReceivedTimestamp": "2026-01-02T03:04:05.000006Z",
            "stageTimestamp": "2026-01-02T03:04:05.100000Z",
        });
        let log = format!("{line}\n{{\"kind\":\"Ev");
        let records = parsed(&log).expect("it is a log");
        let [record] = records.as_slice() else { panic!("one line: {records:?}") };
        assert_eq!(record.stage, AuditStage::ResponseComplete);
        assert_eq!((record.user.as_str(), record.code), ("replica-1", Some(409)));
        assert_eq!(record.agent, "windlass");
        assert_eq!((record.group.as_str(), record.resource.as_str()), ("", "configmaps"));
        assert!(record.received < record.time);
        assert!(parsed("nonsense\n").is_err());
        assert_eq!(parsed("").expect("an empty log"), []);
    }
}
