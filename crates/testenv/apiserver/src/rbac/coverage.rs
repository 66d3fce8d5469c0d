//! Compares rights: finds the rights of the wanted rules that no held rule grants.
//!
//! A rule grants every combination of its verbs, groups, resources and names; one such combination
//! is a *piece*. For each text of a wanted rule, a bit set says which held rules contain this text.
//! A piece is held if one rule is in the sets of all its texts. Each text is looked up once; the
//! rest are operations on bit sets.

use std::collections::{BTreeMap, HashMap};

use super::rule::{ALL, PolicyRule, quoted_list, url_covers};

/// The maximum size of the listed lines, in bytes. The real server lists everything, so its refusal
/// of a role of a few kilobytes can have gigabytes.
const LISTED_BYTES_MAX: usize = 64 * 1024;

/// The missing rights, one line for each resource and name, with all its verbs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingRights {
    /// Sorted.
    pub(crate) lines: Vec<String>,
    /// The number of lines that are left out because there are too many.
    pub(crate) unlisted: usize,
}

impl MissingRights {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.unlisted == 0
    }

    /// Returns the lines as one text.
    pub(crate) fn describe(&self) -> String {
        let more = (self.unlisted > 0).then(|| format!("and {} more", self.unlisted));
        let lines: Vec<&str> = self.lines.iter().chain(&more).map(String::as_str).collect();
        lines.join("\n")
    }

    fn list(&mut self, parts: &[(&str, &[&str])], left: &mut usize) {
        let size: usize =
            parts.iter().flat_map(|(_, texts)| *texts).map(|text| text.len() + 3).sum();
        if size > *left {
            self.unlisted += 1;
            return;
        }
        *left -= size;
        let filled = parts.iter().filter(|(_, texts)| !texts.is_empty());
        let shown: Vec<String> =
            filled.map(|(name, texts)| format!("{name}:{}", quoted_list(texts))).collect();
        self.lines.push(format!("{{{}}}", shown.join(", ")));
    }
}

/// Returns an upper bound for the steps that [`missing`] takes.
pub(crate) fn steps(held: &[PolicyRule], wanted: &[PolicyRule]) -> usize {
    let patterns: usize = held.iter().map(|rule| 1 + rule.non_resource_urls.len()).sum();
    let of_rule = |rule: &PolicyRule| {
        let lists = [&rule.verbs, &rule.api_groups, &rule.resources, &rule.resource_names];
        let texts: usize = lists.into_iter().map(Vec::len).sum();
        pieces(rule).saturating_add(texts + rule.non_resource_urls.len())
    };
    let wanted = wanted.iter().map(of_rule).fold(0, usize::saturating_add);
    wanted.saturating_mul(patterns)
}

/// Returns the number of pieces of a rule: one for each verb, group, resource and name.
pub(crate) fn pieces(rule: &PolicyRule) -> usize {
    let names = rule.resource_names.len().max(1);
    let resources = [rule.api_groups.len(), rule.resources.len(), names];
    let objects = resources.into_iter().fold(1, usize::saturating_mul);
    rule.verbs.len().saturating_mul(objects.saturating_add(rule.non_resource_urls.len()))
}

/// Returns the rights of `wanted` that are not in `held`.
pub(crate) fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> MissingRights {
    let held = RuleLookup::new(held);
    // Verbs by group, resource and name.
    let mut objects: BTreeMap<[Option<&str>; 3], Vec<&str>> = BTreeMap::new();
    let mut urls: Vec<[&str; 2]> = Vec::new();
    for rule in wanted {
        let verbs: Vec<_> = rule.verbs.iter().map(|verb| (&**verb, held.verb(verb))).collect();
        held.missing_objects(rule, &verbs, &mut objects);
        for url in &rule.non_resource_urls {
            let covering = held.url(url);
            let lacking = verbs.iter().filter(|(_, verb)| !covering.intersects(&[verb]));
            urls.extend(lacking.map(|(verb, _)| [&**url, *verb]));
        }
    }
    urls.sort_unstable();
    urls.dedup();
    let mut shortfall = MissingRights::default();
    let mut left = LISTED_BYTES_MAX;
    for ([group, resource, name], verbs) in &objects {
        let parts = [
            ("APIGroups", group.as_slice()),
            ("Resources", resource.as_slice()),
            ("ResourceNames", name.as_slice()),
            ("Verbs", verbs.as_slice()),
        ];
        shortfall.list(&parts, &mut left);
    }
    for [url, verb] in &urls {
        shortfall.list(&[("NonResourceURLs", &[url]), ("Verbs", &[verb])], &mut left);
    }
    shortfall.lines.sort_unstable();
    shortfall
}

/// A set of held rules: bit n stands for the rule at index n.
struct RuleSet(Vec<u64>);

impl RuleSet {
    /// Returns whether some rule is in this set and in all of the others.
    fn intersects(&self, others: &[&Self]) -> bool {
        let common = |(at, word): (usize, &u64)| {
            others.iter().fold(*word, |common, other| common & other.0[at]) != 0
        };
        self.0.iter().enumerate().any(common)
    }
}

/// The held rules, by the texts that they contain.
struct RuleLookup<'a> {
    count: usize,
    verbs: RulesByText<'a>,
    groups: RulesByText<'a>,
    resources: RulesByText<'a>,
    names: RulesByText<'a>,
    /// The rules without resource names, which apply to every name.
    unnamed: Vec<usize>,
    /// The path patterns with their rules.
    urls: Vec<(&'a str, usize)>,
}

/// The indices of the rules that contain a text.
type RulesByText<'a> = HashMap<&'a str, Vec<usize>>;

impl<'a> RuleLookup<'a> {
    fn new(rules: &'a [PolicyRule]) -> Self {
        let named = |list: fn(&PolicyRule) -> &Vec<String>| {
            let mut named = RulesByText::new();
            for (place, rule) in rules.iter().enumerate() {
                for text in list(rule) {
                    named.entry(&**text).or_default().push(place);
                }
            }
            named
        };
        let places = rules.iter().enumerate();
        Self {
            count: rules.len(),
            verbs: named(|rule| &rule.verbs),
            groups: named(|rule| &rule.api_groups),
            resources: named(|rule| &rule.resources),
            names: named(|rule| &rule.resource_names),
            unnamed: places
                .clone()
                .filter(|(_, rule)| rule.resource_names.is_empty())
                .map(|(place, _)| place)
                .collect(),
            urls: places
                .flat_map(|(place, rule)| {
                    rule.non_resource_urls.iter().map(move |url| (&**url, place))
                })
                .collect(),
        }
    }

    /// Returns the set of the rules at these indices.
    fn set(&self, places: impl IntoIterator<Item = usize>) -> RuleSet {
        let mut words = vec![0; self.count.div_ceil(64)];
        for place in places {
            words[place / 64] |= 1 << (place % 64);
        }
        RuleSet(words)
    }

    /// Returns the rules that contain one of these texts.
    fn rules_with_any(&self, named: &RulesByText<'_>, texts: &[&str]) -> RuleSet {
        let places = texts.iter().filter_map(|text| named.get(text));
        self.set(places.flatten().copied())
    }

    fn verb(&self, verb: &str) -> RuleSet {
        self.rules_with_any(&self.verbs, &[ALL, verb])
    }

    fn group(&self, group: &str) -> RuleSet {
        self.rules_with_any(&self.groups, &[ALL, group])
    }

    /// Returns the rules that cover a resource: `*` covers all, and `*/scale` one subresource of
    /// all.
    fn resource(&self, resource: &str) -> RuleSet {
        match resource.split_once('/') {
            None => self.rules_with_any(&self.resources, &[ALL, resource]),
            Some((_, part)) => {
                self.rules_with_any(&self.resources, &[ALL, resource, &format!("*/{part}")])
            }
        }
    }

    /// Returns the rules that cover a name. A request without a name is only covered by rules
    /// without names.
    fn name(&self, name: Option<&str>) -> RuleSet {
        let named = name.and_then(|name| self.names.get(name));
        self.set(self.unnamed.iter().chain(named.into_iter().flatten()).copied())
    }

    /// Returns the rules that cover a path. Rules with resource names cover no path.
    fn url(&self, path: &str) -> RuleSet {
        let covering = self.urls.iter().filter(|(pattern, _)| url_covers(pattern, path));
        let covering = self.set(covering.map(|(_, place)| *place));
        let unnamed = self.name(None);
        let both = covering.0.iter().zip(&unnamed.0).map(|(a, b)| a & b);
        RuleSet(both.collect())
    }

    /// Adds the verbs of a rule that are not held, by group, resource and name.
    fn missing_objects<'b>(
        &self,
        rule: &'b PolicyRule,
        verbs: &[(&'b str, RuleSet)],
        missing: &mut BTreeMap<[Option<&'b str>; 3], Vec<&'b str>>,
    ) {
        let names: Vec<Option<&str>> = match rule.resource_names.as_slice() {
            [] => vec![None],
            names => names.iter().map(|name| Some(&**name)).collect(),
        };
        let names: Vec<_> = names.into_iter().map(|name| (name, self.name(name))).collect();
        let resources =
            rule.resources.iter().map(|resource| (&**resource, self.resource(resource)));
        let resources: Vec<(&str, RuleSet)> = resources.collect();
        for group in &rule.api_groups {
            let in_group = self.group(group);
            for (resource, on_resource) in &resources {
                for (name, of_name) in &names {
                    let lacking = verbs
                        .iter()
                        .filter(|(_, verb)| !in_group.intersects(&[on_resource, of_name, verb]))
                        .map(|(verb, _)| *verb);
                    let mut lacking = lacking.peekable();
                    if lacking.peek().is_some() {
                        let object = [Some(&**group), Some(resource), *name];
                        missing.entry(object).or_default().extend(lacking);
                    }
                }
            }
        }
    }
}
