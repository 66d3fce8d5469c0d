//! The decisions in `deny.toml`.
//!
//! cargo-deny reads the same file. For most settings this side follows exactly one value, the strict
//! one, and refuses the file if it says something else or uses a setting that is unknown here: a rule
//! that only one of the two enforces would be a trap. `[advisories]` and `[output]` concern cargo-deny
//! alone and may say anything.

use anyhow::{Context, Result, ensure};
use cargo_metadata::semver::{Version, VersionReq};
use serde::Deserialize;
use serde::de::{self, IgnoredAny};

/// `deny.toml` as a whole.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) graph: GraphPolicy,
    pub(super) licenses: LicensePolicy,
    pub(super) bans: BanPolicy,
    pub(super) sources: SourcePolicy,
    #[serde(default, rename = "advisories")]
    _advisories: Option<IgnoredAny>,
    #[serde(default, rename = "output")]
    _output: Option<IgnoredAny>,
}

/// Which part of the graph is looked at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct GraphPolicy {
    /// The targets that we build for; dependencies of other platforms do not count.
    pub(super) targets: Vec<String>,
    all_features: bool,
}

/// `[licenses]`: what we may ship and build with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct LicensePolicy {
    /// Licences that are fine for any crate, each an SPDX identifier with an optional exception.
    pub(super) allow: Vec<String>,
    /// Licences that are fine for one crate only.
    #[serde(default)]
    pub(super) exceptions: Vec<LicenseException>,
    include_dev: bool,
    #[serde(rename = "unused-allowed-license")]
    _unused_allowed_license: OnlyAllow,
}

/// Licences that one crate may have beside the general list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LicenseException {
    #[serde(rename = "crate")]
    pub(super) spec: PackageSpec,
    pub(super) allow: Vec<String>,
}

/// `[bans]`: crates that must not occur, or not twice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct BanPolicy {
    /// Crates that must not occur at all.
    #[serde(default)]
    pub(super) deny: Vec<Ban>,
    /// Versions that do not count when duplicates are looked for.
    #[serde(default)]
    pub(super) skip: Vec<Skip>,
    multiple_versions_include_dev: bool,
    allow_wildcard_paths: bool,
    #[serde(rename = "multiple-versions")]
    _multiple_versions: OnlyDeny,
    #[serde(rename = "wildcards")]
    _wildcards: OnlyDeny,
}

/// A crate that must not occur, except directly below one of its wrappers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ban {
    #[serde(rename = "crate")]
    pub(super) spec: PackageSpec,
    #[serde(default)]
    pub(super) wrappers: Vec<String>,
    /// Shown with the finding; required, because a ban without a reason cannot be lifted with one.
    pub(super) reason: String,
}

/// A version that is allowed to be a duplicate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Skip {
    #[serde(rename = "crate")]
    pub(super) spec: PackageSpec,
    /// Required: it says when the entry can go.
    #[serde(rename = "reason")]
    _reason: String,
}

/// `[sources]`: where crates may come from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SourcePolicy {
    pub(super) allow_registry: Vec<String>,
    #[serde(default)]
    pub(super) allow_git: Vec<String>,
    #[serde(rename = "unknown-registry")]
    _unknown_registry: OnlyDeny,
    #[serde(rename = "unknown-git")]
    _unknown_git: OnlyDeny,
}

/// A crate and which versions of it: `name`, `name@1.2.3` or `name:>=1, <2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackageSpec {
    pub(super) name: String,
    pub(super) versions: VersionReq,
}

/// A lint level of which only `deny` is followed here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OnlyDeny {
    Deny,
}

/// A lint level of which only `allow` is followed here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OnlyAllow {
    Allow,
}

impl Policy {
    /// Reads the text of `deny.toml`.
    ///
    /// # Errors
    /// If the text is no TOML, or if it uses a setting or a value that the checks here do not follow.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let policy: Self = toml::from_str(text)?;
        let followed = [
            (policy.graph.all_features, "[graph] all-features = true"),
            (!policy.graph.targets.is_empty(), "[graph] targets with at least one target"),
            (policy.licenses.include_dev, "[licenses] include-dev = true"),
            (
                !policy.bans.multiple_versions_include_dev,
                "[bans] multiple-versions-include-dev = false",
            ),
            (policy.bans.allow_wildcard_paths, "[bans] allow-wildcard-paths = true"),
        ];
        for (holds, setting) in followed {
            ensure!(
                holds,
                "the checks in xtask follow only `{setting}`: keep it, or teach xtask/src/deps the other"
            );
        }
        Ok(policy)
    }
}

impl PackageSpec {
    /// Reads one of the three forms.
    ///
    /// # Errors
    /// If the part after the name is no version, or no version requirement.
    fn parse(text: &str) -> Result<Self> {
        let (name, versions) = if let Some((name, version)) = text.split_once('@') {
            let version: Version =
                version.parse().with_context(|| format!("`{text}` names no exact version"))?;
            (name, VersionReq::parse(&format!("={version}"))?)
        } else if let Some((name, versions)) = text.split_once(':') {
            let versions =
                versions.parse().with_context(|| format!("`{text}` names no version range"))?;
            (name, versions)
        } else {
            (text, VersionReq::STAR)
        };
        ensure!(!name.is_empty(), "`{text}` names no crate");
        Ok(Self { name: name.to_owned(), versions })
    }

    /// Whether this version of this crate is meant.
    pub(super) fn matches(&self, name: &str, version: &Version) -> bool {
        let any = self.versions == VersionReq::STAR;
        self.name == name && (any || self.versions.matches(version))
    }
}

impl<'de> Deserialize<'de> for PackageSpec {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| de::Error::custom(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        all-features = true
        [advisories]
        anything = ["goes", 1]
        [licenses]
        include-dev = true
        unused-allowed-license = "allow"
        allow = ["MIT"]
        [bans]
        multiple-versions = "deny"
        multiple-versions-include-dev = false
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [{ crate = "bad", reason = "it is bad" }]
        skip = [{ crate = "old@1.2.3", reason = "new is not out yet" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        allow-registry = ["https://example.com/index"]
    "#;

    fn refusal(from: &str, to: &str) -> String {
        assert!(STRICT.contains(from), "the test must change something");
        let error = Policy::parse(&STRICT.replace(from, to)).expect_err("it must be refused");
        format!("{error:#}")
    }

    #[test]
    fn strict_policy_is_understood() {
        let policy = Policy::parse(STRICT).expect("the strict policy must be understood");
        assert_eq!(policy.licenses.allow, ["MIT"]);
        assert_eq!(policy.bans.deny[0].spec.name, "bad");
        assert!(policy.bans.skip[0].spec.matches("old", &Version::new(1, 2, 3)));
    }

    #[test]
    fn the_projects_own_policy_is_understood() {
        Policy::parse(include_str!("../../../deny.toml")).expect("deny.toml must be understood");
    }

    #[test]
    fn unknown_setting_is_refused_by_name() {
        let error = refusal("all-features = true", "all-features = true\nexclude = []");
        assert!(error.contains("unknown field `exclude`"), "{error}");
    }

    #[test]
    fn laxer_level_is_refused() {
        let error = refusal("multiple-versions = \"deny\"", "multiple-versions = \"warn\"");
        assert!(error.contains("unknown variant `warn`, expected `deny`"), "{error}");
    }

    #[test]
    fn narrower_graph_is_refused() {
        let error = refusal("include-dev = true", "include-dev = false");
        assert!(error.contains("follow only `[licenses] include-dev = true`"), "{error}");
    }

    #[test]
    fn exception_without_a_reason_is_refused() {
        let error = refusal(", reason = \"new is not out yet\"", "");
        assert!(error.contains("missing field `reason`"), "{error}");
    }

    #[test]
    fn spec_has_three_forms() {
        let spec = |text| PackageSpec::parse(text).expect("the form must be understood");
        let (old, new) = (Version::new(1, 2, 3), Version::new(1, 3, 0));
        assert!(spec("a").matches("a", &old) && spec("a").matches("a", &new));
        assert!(spec("a@1.2.3").matches("a", &old) && !spec("a@1.2.3").matches("a", &new));
        assert!(spec("a:<1.3").matches("a", &old) && !spec("a:<1.3").matches("a", &new));
        assert!(!spec("a").matches("b", &old));
    }

    #[test]
    fn spec_without_a_version_after_the_sign_is_refused() {
        let error = PackageSpec::parse("a@one").expect_err("`one` is no version");
        assert_eq!(error.to_string(), "`a@one` names no exact version");
    }
}
