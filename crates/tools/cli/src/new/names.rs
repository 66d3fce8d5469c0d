//! The names of an operator: which are allowed, and how others are derived.

use anyhow::{Result, bail, ensure};

use super::template;

/// The maximum length of a label in Kubernetes, less the suffix in the manifests (`-metrics`).
const PACKAGE_MAX: usize = 63 - "-metrics".len();

/// Leaves room in a DNS label (63) for the plural and for `hello-KIND`.
const KIND_MAX: usize = 50;

/// The maximum length of a group. `PLURAL.GROUP` is the name of the CRD, of 253 characters at most.
const GROUP_MAX: usize = 253 - 64;

/// Words that cannot be the name of a crate, a module or a variable.
const KEYWORDS: [&str; 52] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that are part of Rust.
const STANDARD: [&str; 5] = ["alloc", "core", "proc_macro", "std", "test"];

/// Files and folders of `src/` with a meaning for cargo.
const SOURCES: [&str; 3] = ["bin", "lib", "main"];

/// Checks the name of the operator: of its package, its namespace and its image.
///
/// # Errors
/// If it cannot be used for one of them.
pub(crate) fn check_package(name: &str) -> Result<()> {
    let is_label = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
        && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-');
    ensure!(
        is_label && name.len() <= PACKAGE_MAX,
        "{name:?} cannot be the name of an operator: it names a package, a namespace and an image. \
         Begin with a letter, and use at most {PACKAGE_MAX} lower-case letters, digits and '-', \
         such as shop-operator"
    );
    let crate_name = crate_name(name);
    let is_dependency = template::dependencies().any(|used| crate_name == used.replace('-', "_"));
    ensure!(
        !is_dependency
            && !KEYWORDS.contains(&crate_name.as_str())
            && !STANDARD.contains(&crate_name.as_str()),
        "{name:?} cannot be the name of an operator: Rust or a crate that it uses has this name. \
         Choose another one, such as {name}-operator"
    );
    Ok(())
}

/// Checks the kind, and that the template's code does not use the name.
///
/// # Errors
/// If it is not in `CamelCase`, or if the name is taken.
pub(crate) fn check_kind(kind: &str) -> Result<()> {
    let is_camel = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.chars().all(|one| one.is_ascii_alphanumeric());
    if !is_camel {
        let suggestion = camel(kind);
        let hint = if suggestion.is_empty() { "Shop".to_owned() } else { suggestion };
        bail!(
            "the kind {kind:?} is not in CamelCase: begin with an upper-case letter, and use \
             ASCII letters and digits only, such as {hint}"
        );
    }
    ensure!(kind.len() <= KIND_MAX, "the kind {kind:?} is too long: {KIND_MAX} letters at most");
    let (snake, plural) = (snake(kind), plural(kind));
    let is_taken = |name: &str| template::has_identifier(name);
    let spec = [format!("{kind}Spec"), format!("{kind}Status"), format!("{kind}Reconciler")];
    ensure!(
        !KEYWORDS.contains(&snake.as_str())
            && !SOURCES.contains(&snake.as_str())
            && !is_taken(kind)
            && !is_taken(&snake)
            && !is_taken(&plural)
            && !spec.iter().any(|name| is_taken(name)),
        "the kind {kind:?} would clash with another name in the generated code: choose another \
         one, such as Custom{kind}"
    );
    Ok(())
}

/// Checks the API group.
///
/// # Errors
/// If the API server would refuse it.
pub(crate) fn check_group(group: &str) -> Result<()> {
    let is_label = |label: &str| {
        let is_inner = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
        label.starts_with(is_inner)
            && label.ends_with(is_inner)
            && label.len() <= 63
            && label.chars().all(|one| is_inner(one) || one == '-')
    };
    ensure!(
        group.contains('.') && group.split('.').all(is_label) && group.len() <= GROUP_MAX,
        "the group {group:?} is not a DNS name: use a domain of yours with at least one dot, in \
         lower case, such as shop.example.com"
    );
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    ensure!(
        !is_protected,
        "the group {group:?} is reserved for Kubernetes: use a domain of yours, such as \
         shop.example.com"
    );
    Ok(())
}

/// Returns the kind that the name of an operator suggests: `Shop` for `shop-operator`.
pub(crate) fn kind_of_package(name: &str) -> String {
    let stem = name.strip_suffix("-operator").or_else(|| name.strip_suffix("-controller"));
    camel(stem.unwrap_or(name))
}

/// Returns the name of a package in code: `shop_operator`.
pub(crate) fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

/// Returns the name of a variable or a file: `blog_post` for `BlogPost`, `http_route` for
/// `HTTPRoute`.
pub(crate) fn snake(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut snake = String::new();
    for (index, &one) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| letters[before]);
        let begins_word = one.is_ascii_uppercase()
            && before.is_some_and(|before| {
                !before.is_ascii_uppercase()
                    || letters.get(index + 1).is_some_and(char::is_ascii_lowercase)
            });
        if begins_word {
            snake.push('_');
        }
        snake.push(one.to_ascii_lowercase());
    }
    snake
}

/// Returns the English plural of a word, in its case: `Policies`, `shops`, `boxes`.
pub(crate) fn plural(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let is_vowel = |one: char| "aeiou".contains(one);
    if ["s", "x", "z", "ch", "sh"].iter().any(|end| lower.ends_with(end)) {
        return format!("{word}es");
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.is_empty() && !stem.ends_with(is_vowel) => {
            format!("{}ies", &word[..word.len() - 1])
        }
        _ => format!("{word}s"),
    }
}

/// Returns the article of a kind: `an` Invoice, `a` Shop. Most kinds with a `U` are pronounced as
/// in User.
pub(crate) fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O']) || kind.starts_with("Up") { "an" } else { "a" }
}

/// Joins words that are separated by other characters, in `CamelCase`. Leading digits are dropped.
fn camel(words: &str) -> String {
    let words = words.split(|one: char| !one.is_ascii_alphanumeric());
    let begin = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    let joined: String = words.map(begin).collect();
    let camel = joined.trim_start_matches(|one: char| one.is_ascii_digit());
    begin(camel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_leads_to_the_names_of_files_and_to_a_plural() {
        for (kind, file, plural_name) in [
            ("Shop", "shop", "shops"),
            ("BlogPost", "blog_post", "blogposts"),
            ("HTTPRoute", "http_route", "httproutes"),
            ("Policy", "policy", "policies"),
            ("Gateway", "gateway", "gateways"),
            ("Box", "box", "boxes"),
            ("Branch", "branch", "branches"),
            ("Redis", "redis", "redises"),
            ("S3Bucket", "s3_bucket", "s3buckets"),
        ] {
            assert_eq!(snake(kind), file);
            assert_eq!(plural(&kind.to_ascii_lowercase()), plural_name);
        }
        assert_eq!(plural("Policy"), "Policies");
    }

    #[test]
    fn article_is_that_of_the_first_letter() {
        for kind in ["App", "Event", "Invoice", "Order", "Upload"] {
            assert_eq!(article(kind), "an", "{kind}");
        }
        for kind in ["Shop", "User", "Unit"] {
            assert_eq!(article(kind), "a", "{kind}");
        }
    }

    #[test]
    fn name_of_the_operator_suggests_a_kind() {
        assert_eq!(kind_of_package("shop-operator"), "Shop");
        assert_eq!(kind_of_package("blog-post-controller"), "BlogPost");
        assert_eq!(kind_of_package("cache"), "Cache");
        assert_eq!(crate_name("shop-operator"), "shop_operator");
    }

    #[test]
    fn name_that_is_no_package_or_no_label_is_refused() {
        for fine in ["shop-operator", "s3", "operator"] {
            check_package(fine).expect(fine);
        }
        let long = "a".repeat(56);
        for wrong in ["", "Shop", "2nd", "shop_operator", "shop-", "-shop", "a.b", &long, ".."] {
            let error = check_package(wrong).expect_err(wrong).to_string();
            assert!(error.contains("such as shop-operator"), "{error}");
        }
        for taken in ["fn", "test", "kube", "windlass-testing", "serde-json"] {
            let error = check_package(taken).expect_err(taken).to_string();
            assert!(error.contains(&format!("such as {taken}-operator")), "{error}");
        }
    }

    #[test]
    fn kind_that_is_not_in_camel_case_is_refused_with_a_suggestion() {
        for fine in ["Shop", "BlogPost", "S3Bucket", "HTTPRoute", "Website", "Database", "VPC"] {
            check_kind(fine).expect(fine);
        }
        // Only fields and methods of the generated code have these names.
        for fine in ["Dashboard", "Task"] {
            check_kind(fine).expect(fine);
        }
        for (wrong, suggestion) in [
            ("shop", "Shop"),
            ("blog-post", "BlogPost"),
            ("Blog_Post", "BlogPost"),
            ("2Shop", "Shop"),
            ("", "Shop"),
            ("Größe", "Gr"),
        ] {
            let error = check_kind(wrong).expect_err(wrong).to_string();
            assert!(error.contains(&format!("such as {suggestion}")), "{error}");
            assert!(error.contains("ASCII letters and digits"), "{error}");
        }
    }

    #[test]
    fn kind_that_the_generated_code_uses_already_is_refused() {
        for taken in [
            "Type",
            "Action",
            "Error",
            "Deployment",
            "Cluster",
            "Options",
            "Children",
            "Lib",
            "Bin",
            "Main",
            "Mod",
            "Common",
            "Webhooks",
            "Demo",
        ] {
            let error = check_kind(taken).expect_err(taken).to_string();
            assert!(error.contains(&format!("such as Custom{taken}")), "{error}");
        }
    }

    #[test]
    fn group_that_is_no_domain_is_refused() {
        for fine in ["example.com", "shop.example.com", "a-b.c1"] {
            check_group(fine).expect(fine);
        }
        for wrong in ["", "example", "Example.com", "example..com", ".com", "a_b.c", "-a.b", "a.b-"]
        {
            let error = check_group(wrong).expect_err(wrong).to_string();
            assert!(error.contains("is not a DNS name"), "{error}");
        }
        for reserved in ["k8s.io", "shop.k8s.io", "shop.kubernetes.io"] {
            let error = check_group(reserved).expect_err(reserved).to_string();
            assert!(error.contains("is reserved for Kubernetes"), "{error}");
        }
    }
}
