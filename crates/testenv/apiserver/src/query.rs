//! Query parameters, parsed and checked as the real server does.

use std::time::Duration;

use crate::failure::Failure;
use crate::field_error::FieldError;

/// The parameters that this server knows. Others are ignored, as the real server does.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    /// Zero means no limit.
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) resource_version: Option<String>,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) allow_bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
    /// `includeObject`: how much of an object a row of a table includes.
    pub(crate) include_object: String,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: String,
    pub(crate) field_validation: FieldValidation,
    /// Only for apply.
    pub(crate) force: Option<bool>,
    // Delete options may be sent here instead of in a body.
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) grace_period: Option<i64>,
}

/// `resourceVersionMatch`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
    /// An unknown value. It is refused once the request is known to be a list or a watch.
    Other(String),
}

/// `fieldValidation`: how unknown fields are handled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
    Other(String),
}

/// The field that most errors of list options name.
const MATCH: &str = "resourceVersionMatch";

impl VersionMatch {
    fn name(&self) -> &str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
            Self::Other(other) => other,
        }
    }
}

impl Query {
    pub(crate) fn parse(query: &str) -> Result<Self, Failure> {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            parsed.set(&name, &value)?;
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let text = || value.to_owned();
        match name {
            "watch" => self.watch = flag(value)?,
            "labelSelector" => self.label_selector = text(),
            "fieldSelector" => self.field_selector = text(),
            // A negative limit means no limit.
            "limit" => self.limit = usize::try_from(integer(value)?).unwrap_or(0),
            "continue" => self.continue_token = text(),
            "resourceVersion" => self.resource_version = Some(text()).filter(|v| !v.is_empty()),
            "resourceVersionMatch" => self.version_match = version_match(value),
            "sendInitialEvents" => self.send_initial_events = Some(flag(value)?),
            "allowWatchBookmarks" => self.allow_bookmarks = flag(value)?,
            "timeoutSeconds" => {
                self.timeout = u64::try_from(integer(value)?).ok().map(Duration::from_secs);
            }
            "includeObject" => self.include_object = text(),
            "dryRun" => self.dry_run.push(text()),
            "fieldManager" => self.field_manager = text(),
            "fieldValidation" => self.field_validation = field_validation(value),
            "force" => self.force = Some(flag(value)?),
            "propagationPolicy" => self.propagation_policy = Some(text()),
            "orphanDependents" => self.orphan_dependents = Some(flag(value)?),
            "gracePeriodSeconds" => self.grace_period = Some(integer(value)?),
            _ => {}
        }
        Ok(())
    }

    /// Checks the rules of list and watch options that concern several parameters.
    pub(crate) fn check_list(&self) -> Result<(), Failure> {
        let errors = if self.watch { self.watch_errors() } else { self.list_errors() };
        if errors.is_empty() {
            return Ok(());
        }
        Err(Failure::invalid("meta.k8s.io", "ListOptions", "", &errors))
    }

    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(version_match) = &self.version_match {
            let mut forbid = |why: &str| errors.push(FieldError::forbidden(MATCH, why));
            if self.resource_version.is_none() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if *version_match == VersionMatch::Exact
                && self.resource_version.as_deref() == Some("0")
            {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if let VersionMatch::Other(other) = version_match {
                let known = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(MATCH, &other.as_str().into(), &known));
            }
        }
        if self.send_initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", why));
        }
        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let not_older = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if let Some(version_match) = &self.version_match {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(MATCH, why));
            }
            if !not_older {
                let given = version_match.name().into();
                errors.push(FieldError::not_supported(MATCH, &given, &["NotOlderThan"]));
            }
        }
        if !self.continue_token.is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        errors
    }

    /// Returns whether nothing may be stored. `options` names the options type in the error.
    pub(crate) fn is_dry_run(&self, options: &str) -> Result<bool, Failure> {
        is_dry_run(&self.dry_run, options)
    }

    /// Checks the options of a create, an update or a patch. Returns whether it is a dry run.
    pub(crate) fn check_write(&self, options: &str) -> Result<bool, Failure> {
        let dry_run = self.is_dry_run(options)?;
        if i64::try_from(self.field_manager.len()).is_ok_and(|length| length > MANAGER_MAX) {
            let error = FieldError::too_long("fieldManager", MANAGER_MAX);
            return Err(Failure::invalid_options(options, error));
        }
        if let FieldValidation::Other(other) = &self.field_validation {
            let error = FieldError::not_supported(
                "fieldValidation",
                &other.as_str().into(),
                &["", "Ignore", "Strict", "Warn"],
            );
            return Err(Failure::invalid_options(options, error));
        }
        Ok(dry_run)
    }
}

/// Checks of patch options that depend on the type of the patch.
impl Query {
    /// An apply must name its field manager, and only an apply may use force. Returns whether it is
    /// a dry run.
    pub(crate) fn check_patch(&self, applies: bool) -> Result<bool, Failure> {
        let error = if applies && self.field_manager.is_empty() {
            Some(FieldError::required("fieldManager", "is required for apply patch"))
        } else if !applies && self.force.is_some() {
            Some(FieldError::forbidden("force", "may not be specified for non-apply patch"))
        } else {
            None
        };
        match error {
            Some(error) => Err(Failure::invalid_options("PatchOptions", error)),
            None => self.check_write("PatchOptions"),
        }
    }
}

/// The maximum length of the name of a field manager, in bytes.
const MANAGER_MAX: i64 = 128;

/// Parses a requested version. The real server words the error differently for lists and watches.
pub(crate) fn version_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    })
}

pub(crate) fn is_dry_run(values: &[String], options: &str) -> Result<bool, Failure> {
    if values.iter().all(|value| value == "All") {
        return Ok(!values.is_empty());
    }
    let error = FieldError::not_supported("dryRun", &values.into(), &["All"]);
    Err(Failure::invalid_options(options, error))
}

fn version_match(value: &str) -> Option<VersionMatch> {
    match value {
        "" => None,
        "Exact" => Some(VersionMatch::Exact),
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        other => Some(VersionMatch::Other(other.to_owned())),
    }
}

fn field_validation(value: &str) -> FieldValidation {
    match value {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => FieldValidation::Other(other.to_owned()),
    }
}

/// Parses a boolean parameter as Go does: anything but "0" and "false" is true.
#[expect(clippy::unnecessary_wraps, reason = "all readers of parameters have one shape")]
fn flag(value: &str) -> Result<bool, Failure> {
    Ok(!matches!(value, "0" | "false" | "False" | "FALSE"))
}

fn integer(value: &str) -> Result<i64, Failure> {
    value.parse().map_err(|_| {
        Failure::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))
    })
}
