//! The rules of a role as text, with their comments.
//!
//! Rules are changed one by one: a rule without changes is kept as it is, with its comments. A
//! comment with [`KEEP`] above a rule exempts it from changes, whatever is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::access::{Access, Scope, Target, Verb};
use super::difference::Excess;
use super::grant::granted;

/// A comment above a rule that contains this keeps the rule.
const KEEP: &str = "windlass: keep";

/// The indentation of the first rule of a role.
pub(super) const DEFAULT_INDENTATION: usize = 2;

/// A role in four parts.
struct Role<'a> {
    /// The lines up to and including `rules:`.
    head: Vec<&'a str>,
    rules: Vec<Rule<'a>>,
    /// The comments and empty lines after the last rule.
    comments: Vec<&'a str>,
    /// The fields after the rules.
    tail: Vec<&'a str>,
    /// The indentation of the rules.
    indentation: usize,
}

/// A rule.
struct Rule<'a> {
    /// The comments and empty lines above it.
    comments: Vec<&'a str>,
    body: Vec<&'a str>,
}

/// Returns for each rule of a role whether a comment keeps it.
pub(super) fn kept(role: &str) -> Vec<bool> {
    Role::of(role).map(|role| role.rules.iter().map(Rule::is_kept).collect()).unwrap_or_default()
}

/// Returns the text of a role without the rights in `excess`. A changed rule is rewritten: comments
/// above it are kept, those inside of it are lost.
///
/// A wildcard is narrowed to the rights in `wanted` that it includes in the same scope. They are
/// removed from `wanted`, so only the first of several such rules gets them.
pub(super) fn without(
    text: &str,
    scope: &Scope,
    excess: &[Excess],
    wanted: &mut BTreeSet<Access>,
) -> String {
    let Some(role) = Role::of(text) else { return text.to_owned() };
    let mut lines = owned(&role.head);
    for rule in &role.rules {
        if rule.is_kept() {
            lines.extend(owned(&rule.comments));
            lines.extend(owned(&rule.body));
            continue;
        }
        let grants = rule.grants(scope);
        let mut left: Vec<Access> = Vec::new();
        let mut is_changed = false;
        for grant in &grants {
            match excess.iter().find(|excess| excess.grant.access == *grant) {
                Some(excess) => {
                    is_changed = true;
                    let stays = |used: &&Access| {
                        used.is_within(grant) || (used.scope == *scope && wanted.remove(*used))
                    };
                    left.extend(excess.used.iter().filter(stays).cloned());
                }
                None => left.push(grant.clone()),
            }
        }
        if !is_changed {
            lines.extend(owned(&rule.comments));
            lines.extend(owned(&rule.body));
        } else if !left.is_empty() {
            lines.extend(owned(&rule.comments));
            lines.extend(rendered(&left, role.indentation));
        }
    }
    lines.extend(owned(&role.comments));
    lines.extend(owned(&role.tail));
    lines.join("\n") + "\n"
}

/// Returns the text of a role with rules for the missing rights after its last rule. Comments below
/// the last rule stay below the new rules: they are not about them, and one may contain [`KEEP`].
pub(super) fn with(text: &str, missing: &[Access]) -> String {
    let text = text.replace("rules: []\n", "rules:\n");
    let Some(role) = Role::of(&text) else { return text };
    let mut lines = owned(&role.head);
    for rule in &role.rules {
        lines.extend(owned(&rule.comments));
        lines.extend(owned(&rule.body));
    }
    lines.extend(rendered(missing, role.indentation));
    lines.extend(owned(&role.comments));
    lines.extend(owned(&role.tail));
    lines.join("\n") + "\n"
}

impl<'a> Role<'a> {
    /// Returns `None` if there is no line `rules:` with the rules in the lines below it.
    fn of(text: &'a str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let is_begin = |line: &&str| {
            let rest = line.strip_prefix("rules:").map(str::trim_start);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
        };
        let begin = lines.iter().position(is_begin)? + 1;
        let is_next = |line: &&str| !line.is_empty() && !line.starts_with([' ', '-', '#']);
        let length = lines[begin..].iter().position(is_next).unwrap_or(lines.len() - begin);
        let (head, rest) = lines.split_at(begin);
        let (rules, tail) = rest.split_at(length);
        let first = rules.iter().find(|line| line.trim_start().starts_with('-'));
        let indentation = first.map_or(DEFAULT_INDENTATION, |line| indentation_of(line));
        let (rules, comments) = rules_of(rules, indentation)?;
        Some(Self { head: head.to_vec(), rules, comments, tail: tail.to_vec(), indentation })
    }
}

impl Rule<'_> {
    fn is_kept(&self) -> bool {
        self.comments.iter().any(|comment| comment.contains(KEEP))
    }

    fn grants(&self, scope: &Scope) -> Vec<Access> {
        let parsed: Value = serde_saphyr::from_str(&self.body.join("\n")).unwrap_or_default();
        let rules = parsed.as_array().into_iter().flatten();
        rules.flat_map(|rule| granted(rule, scope)).collect()
    }
}

/// Splits lines into rules, each with the comments before it, and the comments after the last.
/// Returns `None` if they do not begin with a rule.
fn rules_of<'a>(lines: &[&'a str], indentation: usize) -> Option<(Vec<Rule<'a>>, Vec<&'a str>)> {
    let mut rules: Vec<Rule<'a>> = Vec::new();
    let mut comments = Vec::new();
    for line in lines {
        let trimmed = line.trim_start();
        if trimmed.starts_with('#') || trimmed.is_empty() {
            comments.push(*line);
        } else if trimmed.starts_with('-') && indentation_of(line) == indentation {
            rules.push(Rule { comments: std::mem::take(&mut comments), body: vec![*line] });
        } else {
            let rule = rules.last_mut()?;
            rule.body.append(&mut comments);
            rule.body.push(*line);
        }
    }
    Some((rules, comments))
}

fn indentation_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Renders rules that grant this, as lines. Resources of a group with the same verbs share a rule.
/// URLs are ignored, because they are never needed.
pub(super) fn rendered(grants: &[Access], indentation: usize) -> Vec<String> {
    /// The group, the name if it is limited to one, the resources and the verbs.
    type Same<'a> = (&'a str, &'a Option<String>, Vec<&'a str>, Vec<&'a Verb>);

    let mut verbs: BTreeMap<(&str, &Option<String>, &str), Vec<&Verb>> = BTreeMap::new();
    for Access { target, name, verb, .. } in grants {
        if let Target::Resource { group, resource } = target {
            verbs.entry((group, name, resource)).or_default().push(verb);
        }
    }
    let mut rules: Vec<Same<'_>> = Vec::new();
    for ((group, name, resource), mut verbs) in verbs {
        verbs.sort();
        verbs.dedup();
        let same =
            rules.iter_mut().find(|rule| (rule.0, rule.1) == (group, name) && rule.3 == verbs);
        match same {
            Some(rule) => rule.2.push(resource),
            None => rules.push((group, name, vec![resource], verbs)),
        }
    }
    let mut lines = Vec::new();
    let space = " ".repeat(indentation);
    for (group, name, resources, verbs) in rules {
        lines.push(format!("{space}- apiGroups: {}", list(&[group])));
        lines.push(format!("{space}  resources: {}", list(&resources)));
        if let Some(name) = name {
            lines.push(format!("{space}  resourceNames: {}", list(&[name])));
        }
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.0.as_str()).collect();
        lines.push(format!("{space}  verbs: {}", list(&verbs)));
    }
    lines
}

/// Formats a YAML list on one line.
fn list(items: &[&str]) -> String {
    let is_plain = |item: &str| {
        item.starts_with(|first: char| first.is_ascii_alphabetic())
            && item.chars().all(|one| one.is_ascii_alphanumeric() || "-./".contains(one))
    };
    let mut text = String::from("[");
    for (index, item) in items.iter().enumerate() {
        let sign = if index == 0 { "" } else { ", " };
        // A Rust string literal without control characters is also a YAML string.
        let item = if is_plain(item) { (*item).to_owned() } else { format!("{item:?}") };
        let _ = write!(text, "{sign}{item}");
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As controller-gen writes it.
    const GENERATED: &str = "\
kind: ClusterRole
rules:
- apiGroups:
  - \"\"
  resources:
  - pods
  resourceNames:
  - system:a
  verbs:
  - get
# windlass: keep, creates RoleBindings
- apiGroups:
  - rbac.authorization.k8s.io
  resources:
  - roles
  verbs:
  - bind
metadata:
  name: shop
";

    #[test]
    fn rules_may_begin_in_the_first_column() {
        let role = Role::of(GENERATED).expect("a role");
        assert_eq!((role.rules.len(), role.indentation), (2, 0));
        assert_eq!(role.tail, ["metadata:", "  name: shop"]);
        let grants = role.rules[0].grants(&Scope::Cluster);
        assert_eq!(grants[0].to_string(), "get pods system:a");
        let written = with(GENERATED, &grants);
        let added = "- apiGroups: [\"\"]\n  resources: [pods]\n  resourceNames: [\"system:a\"]\n  \
                     verbs: [get]\nmetadata:";
        assert_eq!(written, GENERATED.replace("metadata:", added));
    }

    #[test]
    fn comment_above_a_rule_keeps_it() {
        assert_eq!(kept(GENERATED), [false, true]);
        let role = Role::of(GENERATED).expect("a role");
        let all = role.rules.iter().flat_map(|rule| rule.grants(&Scope::Cluster));
        let excess: Vec<_> =
            all.map(|access| Excess { grant: access.into(), used: Vec::new() }).collect();
        let left = without(GENERATED, &Scope::Cluster, &excess, &mut BTreeSet::new());
        assert_eq!(kept(&left), [true]);
        assert!(left.contains("rules:\n# windlass: keep, creates RoleBindings\n- api"), "{left}");
    }
}
