//! The object argument of `windlass why`, in the forms that kubectl accepts.

use anyhow::{Result, bail, ensure};

/// Short names of built-in kinds, as in kubectl, with the plurals that an operator knows. `job` is
/// not here: it is the kind itself.
const SHORT_NAMES: [(&str, &str); 15] = [
    ("cj", "cronjobs"),
    ("cm", "configmaps"),
    ("deploy", "deployments"),
    ("ds", "daemonsets"),
    ("ep", "endpoints"),
    ("ing", "ingresses"),
    ("no", "nodes"),
    ("ns", "namespaces"),
    ("po", "pods"),
    ("pv", "persistentvolumes"),
    ("pvc", "persistentvolumeclaims"),
    ("rs", "replicasets"),
    ("sa", "serviceaccounts"),
    ("sts", "statefulsets"),
    ("svc", "services"),
];

/// An object as named in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// The kind or the plural.
    pub(super) kind: String,
    /// `NAMESPACE/NAME`, or `NAME` if it has no namespace.
    pub(super) key: String,
}

impl Object {
    /// Parses `KIND NAME` and `KIND/NAME`, where `NAME` may be `NAMESPACE/NAME`.
    ///
    /// # Errors
    /// Returns an error if there is no name or more than one, or if there are two namespaces.
    pub(super) fn new(
        kind: &str,
        name: Option<&str>,
        namespace: Option<&str>,
        is_cluster_scoped: bool,
    ) -> Result<Self> {
        let (kind, key) = match (kind.split_once('/'), name) {
            (None, Some(name)) => (kind, name),
            (Some((kind, name)), None) => (kind, name),
            (None, None) => bail!("the name is missing: use {kind} NAME or {kind}/NAME"),
            (Some(_), Some(name)) => {
                bail!(
                    "{kind:?} has a name already, so leave out {name:?}: use KIND NAME or KIND/NAME"
                )
            }
        };
        let (own_namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, key),
        };
        ensure!(
            !kind.is_empty()
                && !name.is_empty()
                && !name.contains('/')
                && own_namespace != Some(""),
            "{kind:?} {key:?} is not an object: use KIND NAME or KIND NAMESPACE/NAME"
        );
        let key = match (own_namespace, namespace) {
            (Some(own), _) if is_cluster_scoped => bail!(
                "{key:?} has the namespace {own}, and --cluster-scoped says that there is none: \
                 leave one of them out"
            ),
            (Some(own), Some(other)) if own != other => bail!(
                "{key:?} has the namespace {own}, and --namespace says {other}: leave one of them \
                 out"
            ),
            _ if is_cluster_scoped => name.to_owned(),
            (own, other) => format!("{}/{name}", own.or(other).unwrap_or("default")),
        };
        Ok(Self { kind: full_name(kind).to_owned(), key })
    }
}

/// Returns the plural of a short name, and any other name unchanged.
fn full_name(kind: &str) -> &str {
    let known = SHORT_NAMES.iter().find(|(short, _)| short.eq_ignore_ascii_case(kind));
    known.map_or(kind, |(_, plural)| *plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str, name: Option<&str>, namespace: Option<&str>) -> Result<String> {
        let Object { kind, key } = Object::new(kind, name, namespace, false)?;
        Ok(format!("{kind} {key}"))
    }

    #[test]
    fn object_is_named_as_for_kubectl() {
        for (kind, name, namespace, expected) in [
            ("website", Some("hello"), None, "website default/hello"),
            ("website", Some("hello"), Some("shop"), "website shop/hello"),
            ("website", Some("shop/hello"), None, "website shop/hello"),
            ("website", Some("shop/hello"), Some("shop"), "website shop/hello"),
            ("Website/hello", None, None, "Website default/hello"),
            ("Website/hello", None, Some("shop"), "Website shop/hello"),
            ("Website/shop/hello", None, None, "Website shop/hello"),
        ] {
            assert_eq!(named(kind, name, namespace).expect("an object"), expected);
        }
        let object = Object::new("no/worker", None, None, true).expect("an object");
        assert_eq!(object, Object { kind: "nodes".to_owned(), key: "worker".to_owned() });
    }

    #[test]
    fn short_names_are_those_of_kubectl() {
        for (kind, expected) in [
            ("deploy", "deployments a/b"),
            ("Deploy/a/b", "deployments a/b"),
            ("PVC", "persistentvolumeclaims a/b"),
            ("Job", "Job a/b"),
            ("deployment", "deployment a/b"),
        ] {
            let name = (!kind.contains('/')).then_some("a/b");
            assert_eq!(named(kind, name, None).expect("an object"), expected);
        }
    }

    #[test]
    fn unclear_object_is_refused_with_what_to_use() {
        for (kind, name, namespace, expected) in [
            ("website", None, None, "the name is missing: use website NAME or website/NAME"),
            ("website/hello", Some("x"), None, "has a name already, so leave out \"x\""),
            ("website", Some("a/b/c"), None, "\"website\" \"a/b/c\" is not an object: use KIND"),
            ("website/", None, None, "\"website\" \"\" is not an object"),
            ("/hello", None, None, "is not an object"),
            ("website", Some("/hello"), None, "is not an object"),
            (
                "website",
                Some("shop/hello"),
                Some("blog"),
                "\"shop/hello\" has the namespace shop, and --namespace says blog: leave one of",
            ),
        ] {
            let error = named(kind, name, namespace).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = Object::new("node", Some("a/b"), None, true).expect_err("two forms");
        assert!(error.to_string().contains("--cluster-scoped says that there is none"), "{error}");
    }
}
