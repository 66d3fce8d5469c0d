//! Impersonation: the `Impersonate-*` headers, as `kubectl --as` sends them.
//!
//! With legacy impersonation, a sender who has the verb `impersonate` on a user, and on each of the
//! groups, the uid and the extra values, can make any request as that user. With constrained
//! impersonation (since 1.36), the sender needs the verb `impersonate-on:MODE:VERB` on the resource
//! of the request, and the verb `impersonate:MODE` on the user. The real server tries the
//! constrained modes first, so the message of a 403 is about the first mode that applies.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::access::{Access, forbidden};
use crate::failure::Failure;
use crate::field_error::go_quote;
use crate::metadata::NameRule;
use crate::rbac::MASTERS;
use crate::rbac::rule::{AccessTarget, Attributes};
use crate::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};

/// The group of users, uids and extra values, unless they are in the core group.
const GROUP: &str = "authentication.k8s.io";

/// The prefix of all impersonation headers, and that of the headers with extra values.
const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// For more than three groups or extra values, constrained impersonation first asks for the right
/// to all of them (`*`), and for each of them only if that is refused. The number is that of
/// kube-apiserver; it decides which right an error message names.
const WILDCARD_CHECK_MIN: usize = 4;

/// The user that the headers of a request ask for.
#[derive(Debug, Default)]
struct RequestedUser {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// A mode of impersonation. Each mode requires other rights of the sender.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// The sender is the service account of a pod, and impersonates the node of that pod.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// One right covers all requests of the user.
    Legacy,
}

impl Access<'_> {
    /// Returns the impersonated user if the headers name one and the sender may act as that user.
    pub(crate) fn impersonate(
        &self,
        sender: &User,
        headers: &HeaderMap,
        request: &Attributes<'_>,
    ) -> Result<Option<User>, Failure> {
        let Some(wanted) = RequestedUser::read(headers)? else { return Ok(None) };
        let mut first = None;
        for mode in [
            Mode::AssociatedNode,
            Mode::ArbitraryNode,
            Mode::ServiceAccount,
            Mode::UserInfo,
            Mode::Legacy,
        ] {
            if !mode.applies(&wanted, sender) {
                continue;
            }
            match self.try_mode(mode, sender, &wanted, request) {
                Ok(()) => return Ok(Some(wanted.user(mode))),
                Err(failure) => first = first.or(Some(failure)),
            }
        }
        Err(first.expect("legacy impersonation must always apply"))
    }

    fn try_mode(
        &self,
        mode: Mode,
        sender: &User,
        wanted: &RequestedUser,
        request: &Attributes<'_>,
    ) -> Result<(), Failure> {
        let verb = mode.verb();
        if let Some(name) = mode.constraint() {
            let verb = format!("impersonate-on:{name}:{}", request.verb);
            self.authorize(sender, &Attributes { verb: &verb, on: request.on })?;
        }
        let on = wanted.user_attributes(mode);
        self.authorize(sender, &Attributes { verb: &verb, on })?;
        if !wanted.uid.is_empty() {
            let on = values(GROUP, "uids", "", &wanted.uid);
            self.authorize(sender, &Attributes { verb: &verb, on })?;
        }
        self.check_groups(mode, sender, wanted)?;
        self.check_extra(mode, sender, wanted)
    }

    fn check_groups(
        &self,
        mode: Mode,
        sender: &User,
        wanted: &RequestedUser,
    ) -> Result<(), Failure> {
        let verb = mode.verb();
        let of = |name| Attributes { verb: &verb, on: values(mode.group(), "groups", "", name) };
        if mode.constraint().is_some() {
            if wanted.groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(forbidden(sender, &of(""), why));
            }
            if wanted.groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(sender, &of(MASTERS), why));
            }
            if wanted.groups.len() >= WILDCARD_CHECK_MIN && self.authorize(sender, &of("*")).is_ok()
            {
                return Ok(());
            }
        }
        wanted.groups.iter().try_for_each(|group| self.authorize(sender, &of(group)))
    }

    fn check_extra(
        &self,
        mode: Mode,
        sender: &User,
        wanted: &RequestedUser,
    ) -> Result<(), Failure> {
        let verb = mode.verb();
        let of =
            |key, value| Attributes { verb: &verb, on: values(GROUP, "userextras", key, value) };
        let count: usize = wanted.extra.values().map(Vec::len).sum();
        if mode.constraint().is_some() {
            if let Some(why) = wanted.invalid_extra_reason() {
                return Err(forbidden(sender, &of("", ""), &why));
            }
            if count >= WILDCARD_CHECK_MIN && self.authorize(sender, &of("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, list) in &wanted.extra {
            for value in list {
                self.authorize(sender, &of(key, value))?;
            }
        }
        Ok(())
    }
}

/// Returns a cluster-scoped resource that exists only for authorization.
fn values<'a>(
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    name: &'a str,
) -> AccessTarget<'a> {
    AccessTarget::Resource { group, resource, subresource, namespace: "", name }
}

impl Mode {
    fn constraint(self) -> Option<&'static str> {
        match self {
            Self::AssociatedNode => Some("associated-node"),
            Self::ArbitraryNode => Some("arbitrary-node"),
            Self::ServiceAccount => Some("serviceaccount"),
            Self::UserInfo => Some("user-info"),
            Self::Legacy => None,
        }
    }

    fn verb(self) -> String {
        let constraint = self.constraint();
        constraint.map_or_else(|| "impersonate".to_owned(), |name| format!("impersonate:{name}"))
    }

    /// Returns the group of the resources `users` and `groups`.
    fn group(self) -> &'static str {
        if self.constraint().is_some() { GROUP } else { "" }
    }

    /// Returns whether the mode can impersonate this user at all.
    fn applies(self, wanted: &RequestedUser, sender: &User) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (wanted.node(), wanted.account());
        match self {
            Self::AssociatedNode => {
                let own = sender.extra.get("authentication.kubernetes.io/node-name");
                let own = own.and_then(|names| names.first()).map(String::as_str);
                let is_account = sender.name.starts_with("system:serviceaccount:");
                only_name && is_account && node.is_some() && own == node
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

impl RequestedUser {
    /// Reads the headers. Returns `None` if they ask for nothing.
    fn read(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(None);
        }
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let one = |name: &str| headers.get(name).map(text).unwrap_or_default();
        let mut wanted = Self {
            name: one("impersonate-user"),
            uid: one("impersonate-uid"),
            groups: headers.get_all("impersonate-group").iter().map(text).collect(),
            extra: BTreeMap::new(),
        };
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                // A key with an invalid encoding is used as it is.
                let decoded = percent_decode_str(key).decode_utf8();
                let key = decoded.map_or_else(|_| key.to_owned(), std::borrow::Cow::into_owned);
                wanted.extra.entry(key).or_default().push(text(value));
            }
        }
        if !wanted.name.is_empty() {
            return Ok(Some(wanted));
        }
        if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
            return Ok(None);
        }
        Err(Failure::bad_request(format!(
            "requested {} without impersonating a user name",
            wanted.as_go()
        )))
    }

    /// Returns the name of the node if the user is a node.
    fn node(&self) -> Option<&str> {
        let name = self.name.strip_prefix("system:node:")?;
        NameRule::Subdomain.check(name).is_empty().then_some(name)
    }

    /// Returns namespace and name if the user is a service account.
    fn account(&self) -> Option<(&str, &str)> {
        let (namespace, name) =
            self.name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let valid = NameRule::Label.check(namespace).is_empty()
            && NameRule::Subdomain.check(name).is_empty();
        valid.then_some((namespace, name))
    }

    fn user_attributes(&self, mode: Mode) -> AccessTarget<'_> {
        let group = mode.group();
        match (self.node(), self.account()) {
            // The right to act for the node of one's own pod covers every node.
            (Some(_), _) if matches!(mode, Mode::AssociatedNode) => values(group, "nodes", "", "*"),
            (Some(name), _) if mode.constraint().is_some() => values(group, "nodes", "", name),
            (_, Some((namespace, name))) => AccessTarget::Resource {
                group,
                resource: "serviceaccounts",
                subresource: "",
                namespace,
                name,
            },
            _ => values(group, "users", "", &self.name),
        }
    }

    /// Returns why constrained impersonation refuses the extra values, if it does.
    fn invalid_extra_reason(&self) -> Option<String> {
        for (key, list) in &self.extra {
            if key.is_empty() {
                return Some("impersonating the empty string key in extra is not allowed".into());
            }
            if list.iter().any(String::is_empty) {
                let why = "impersonating the empty string value in extra is not allowed";
                return Some(why.into());
            }
        }
        None
    }

    /// Returns the user with its implied groups.
    fn user(self, mode: Mode) -> User {
        let mut groups = self.groups.clone();
        if mode.constraint().is_some() && self.node().is_some() {
            groups = vec!["system:nodes".to_owned()];
        } else if let (true, Some((namespace, _))) = (groups.is_empty(), self.account()) {
            groups = vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
            ];
        }
        let mut ensure = |group: &str| {
            if !groups.iter().any(|one| one == group) {
                groups.push(group.to_owned());
            }
        };
        if self.name == ANONYMOUS {
            ensure(UNAUTHENTICATED);
        } else if !self.groups.iter().any(|group| group == UNAUTHENTICATED) {
            ensure(AUTHENTICATED);
        }
        User { name: self.name, groups, uid: self.uid, extra: self.extra }
    }

    /// Renders the struct as Go's `%#v` does.
    fn as_go(&self) -> String {
        let list = |list: &[String]| {
            let quoted: Vec<String> = list.iter().map(|text| go_quote(text)).collect();
            quoted.join(", ")
        };
        let mut groups = "[]string(nil)".to_owned();
        if !self.groups.is_empty() {
            groups = format!("[]string{{{}}}", list(&self.groups));
        }
        let mut extra = "map[string][]string(nil)".to_owned();
        if !self.extra.is_empty() {
            let each = self.extra.iter();
            let shown: Vec<String> = each
                .map(|(key, values)| format!("{}:[]string{{{}}}", go_quote(key), list(values)))
                .collect();
            extra = format!("map[string][]string{{{}}}", shown.join(", "));
        }
        format!(
            "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
            go_quote(&self.name),
            go_quote(&self.uid)
        )
    }
}
