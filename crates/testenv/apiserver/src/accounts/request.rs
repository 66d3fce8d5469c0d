//! `serviceaccounts/NAME/token`: issues a token for an account.

use serde_json::{Map, Value, json};

use super::Signer;
use super::claims::{Claims, ISSUER, Reference, texts};
use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::{metadata_mut, text};
use crate::state::State;
use crate::target::Target;
use crate::write::create::fit_namespace;

/// The group of the body; it differs from that of the resource.
const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// Bounds and default of `expirationSeconds`.
const SECONDS_MIN: i64 = 10 * 60;
const SECONDS_MAX: i64 = 1 << 32;
const SECONDS_DEFAULT: i64 = 60 * 60;

/// The kubelet asks for this lifetime when it mounts a token into a pod. As upstream, such a token
/// is valid for a year, because old clients never read the file again; the claim `warnafter` has
/// the end of the requested lifetime.
const MOUNTED_SECONDS: i64 = 60 * 60 + 7;
const MOUNTED_SECONDS_EXTENDED: i64 = 365 * 24 * 60 * 60;

type Object = Map<String, Value>;

/// The object that a token is bound to. All fields are `None` if there is none.
struct Bound {
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
}

impl State {
    /// Issues a token for the account that `target` names, and returns the completed request.
    pub(crate) fn issue_token(
        &mut self,
        target: &Target,
        mut request: Object,
        dry_run: bool,
        signer: &Signer,
    ) -> Result<Value, Failure> {
        check_place(target, &mut request)?;
        let account = self.existing(target)?.value();
        let uid = text(&account, "uid").to_owned();
        let given = text(&request, "uid");
        if !given.is_empty() && given != uid {
            let why = format!(
                "the UID in the token request ({given}) does not match the UID of the service \
                 account ({uid})"
            );
            return Err(Failure::conflict(GROUP, KIND, &target.name, &why));
        }
        complete(&mut request, target, &uid, &self.clock.now());
        let spec = &request["spec"];
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(SECONDS_DEFAULT);
        check_seconds(seconds)?;
        let Bound { pod, secret, node } = self.bound_object(target, &spec["boundObjectRef"])?;

        let audiences = texts(&spec["audiences"]);
        let extended =
            pod.is_some() && seconds == MOUNTED_SECONDS && audiences.iter().all(|a| a == ISSUER);
        let now = self.clock.seconds();
        let claims = Claims {
            audiences,
            issued: now,
            not_before: now,
            expires: now + if extended { MOUNTED_SECONDS_EXTENDED } else { seconds },
            warn_after: extended.then_some(now + seconds),
            id: self.ids.uid(),
            namespace: target.namespace.clone(),
            account: Reference { name: target.name.clone(), uid },
            pod,
            secret,
            node,
        };
        let token = if dry_run { String::new() } else { signer.key().sign(&claims.payload()) };
        let status = json!({"token": token, "expirationTimestamp": self.clock.after(seconds)});
        request.insert("status".into(), status);
        Ok(Value::Object(request))
    }

    fn bound_object(&self, target: &Target, reference: &Value) -> Result<Bound, Failure> {
        let mut bound = Bound { pod: None, secret: None, node: None };
        if !reference.is_object() {
            return Ok(bound);
        }
        let field = |name: &str| reference[name].as_str().unwrap_or_default();
        let (api_version, kind, name) = (field("apiVersion"), field("kind"), field("name"));
        let plural = match (api_version.contains('/'), kind) {
            (false, "Pod") => "pods",
            (false, "Secret") => "secrets",
            (false, "Node") => "nodes",
            _ => {
                let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
                let shown = format!("{group}/{version}, Kind={kind}");
                return Err(Failure::bad_request(format!(
                    "cannot bind token to object of type {shown}"
                )));
            }
        };
        let namespace = if plural == "nodes" { "" } else { &target.namespace };
        let object = self.core_object(plural, namespace, name)?;
        let found = Reference { name: name.to_owned(), uid: text(&object, "uid").to_owned() };
        if plural == "pods" {
            let spec = |field: &str| object["spec"][field].as_str().unwrap_or_default();
            if spec("serviceAccountName") != target.name {
                return Err(Failure::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different \
                     serviceaccount name.",
                    target.name
                )));
            }
            bound.node = self.node_of(spec("nodeName"));
        }
        let given = field("uid");
        if !given.is_empty() && given != found.uid {
            let why = format!(
                "the UID in the bound object reference ({given}) does not match the UID in \
                 record. The object might have been deleted and then recreated"
            );
            return Err(Failure::conflict("", kind, name, &why));
        }
        match plural {
            "pods" => bound.pod = Some(found),
            "secrets" => bound.secret = Some(found),
            _ => bound.node = Some(found),
        }
        Ok(bound)
    }

    /// Returns the node that a pod is on. It need not exist.
    fn node_of(&self, name: &str) -> Option<Reference> {
        let node = self.core_object("nodes", "", name).unwrap_or_default();
        let uid = text(&node, "uid").to_owned();
        (!name.is_empty()).then(|| Reference { name: name.to_owned(), uid })
    }

    fn core_object(&self, plural: &str, namespace: &str, name: &str) -> Result<Object, Failure> {
        let kind = self.registry.by_plural("", plural);
        let target = Target {
            kind: kind.expect("the kind must be built in").clone(),
            version: 0,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        };
        self.existing(&target).map(|object| object.value())
    }
}

/// Checks that a body that names an account names the one in the path.
fn check_place(target: &Target, request: &mut Object) -> Result<(), Failure> {
    fit_namespace(target, request)?;
    let given = text(request, "name");
    if given.is_empty() || given == target.name {
        return Ok(());
    }
    let detail = "must match the service account name if specified";
    let error = FieldError::invalid_str("metadata.name", given, detail);
    Err(Failure::invalid(GROUP, KIND, &target.name, &[error]))
}

fn check_seconds(seconds: i64) -> Result<(), Failure> {
    let detail = match seconds {
        ..SECONDS_MIN => "may not specify a duration less than 10 minutes",
        SECONDS_MIN..=SECONDS_MAX => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", &seconds.into(), detail);
    Err(Failure::invalid(GROUP, KIND, "", &[error]))
}

/// Fills in the fields that the request leaves out.
fn complete(request: &mut Object, target: &Target, uid: &str, now: &str) {
    request.insert("kind".into(), KIND.into());
    request.insert("apiVersion".into(), format!("{GROUP}/v1").into());
    let metadata = metadata_mut(request);
    for (field, value) in [
        ("name", target.name.as_str()),
        ("namespace", &target.namespace),
        ("uid", uid),
        ("creationTimestamp", now),
    ] {
        metadata.insert(field.into(), value.into());
    }
    let mut spec = json!({
        "audiences": [ISSUER],
        "expirationSeconds": SECONDS_DEFAULT,
        "boundObjectRef": null,
    });
    let given = request.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    for (field, value) in given {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !empty && spec.get(&field).is_some() {
            spec[field] = value;
        }
    }
    request.insert("spec".into(), spec);
}
