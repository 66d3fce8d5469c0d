//! Warnings for every request that uses a deprecated version.

use serde_json::Value;

use crate::state::State;
use crate::target::Target;

/// Returns the warning if the version of the target is deprecated.
pub(crate) fn warning(state: &State, target: &Target) -> Option<String> {
    let kind = &target.kind;
    if kind.is("", "endpoints") {
        let instead = "use discovery.k8s.io/v1 EndpointSlice";
        return Some(format!("v1 Endpoints is deprecated in v1.33+; {instead}"));
    }
    if kind.is_builtin() {
        return None;
    }
    let definition = state.served.get(&format!("{}.{}", kind.plural, kind.group))?;
    let name = target.version().name.as_str();
    let mut versions = definition["versions"].as_array()?.iter();
    let version = versions.find(|version| version["name"] == name)?;
    if version["deprecated"] != true {
        return None;
    }
    let words = version.get("deprecationWarning").and_then(Value::as_str).map(str::to_owned);
    Some(words.unwrap_or_else(|| format!("{}/{name} {} is deprecated", kind.group, kind.kind)))
}
