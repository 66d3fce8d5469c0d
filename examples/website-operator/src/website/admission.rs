//! What happens when somebody writes a Website, in either version: the server converts it to `v2`
//! first.
//!
//! These are checks and corrections that a schema and CEL cannot express.

use windlass::webhook::{
    Admission, Defaulter, FieldError, FieldPath, Operation, Validate, Verdict,
};

use super::v2::Website;

/// What a `ConfigMap` holds: the server refuses more.
const FILES_BYTES_MAX: usize = 1024 * 1024;

/// Corrects and checks Websites.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admit;

/// Host names are case-insensitive. They are stored in lower case, so that the pattern of the
/// schema and the list of hosts need not care.
impl Defaulter<Website> for Admit {
    fn default(&self, site: &mut Website, _: &Admission) {
        site.spec.host.make_ascii_lowercase();
    }
}

impl Validate<Website> for Admit {
    async fn validate(&self, operation: Operation<'_, Website>, _: &Admission) -> Verdict {
        let Some(new) = operation.new_object() else { return Verdict::allow() };
        let old = operation.old_object();
        let verdict = Verdict::from(errors(new, old));
        match warning(new, old) {
            Some(warning) => verdict.warn(warning),
            None => verdict,
        }
    }
}

/// What is wrong with a Website. What was there before is not judged again: otherwise a Website
/// that is older than this rule could not even lose its finalizer.
fn errors(new: &Website, old: Option<&Website>) -> Vec<FieldError> {
    let files = &new.spec.files;
    if old.is_some_and(|old| old.spec.files == *files) {
        return Vec::new();
    }
    let bytes: usize = files.values().map(String::len).sum();
    if bytes <= FILES_BYTES_MAX {
        return Vec::new();
    }
    let path = FieldPath::new("spec").child("files");
    vec![FieldError::too_long(&path, FILES_BYTES_MAX)]
}

/// What is allowed, but probably a mistake.
fn warning(new: &Website, old: Option<&Website>) -> Option<String> {
    let image = new.spec.server.image();
    if has_tag(image) || old.is_some_and(|old| old.spec.server.image() == image) {
        return None;
    }
    Some(format!("the image {image} has no tag: pods that start later may run another version"))
}

/// Whether the name of an image ends with a tag or a digest. A `:` before the last `/` is that of a
/// port.
fn has_tag(image: &str) -> bool {
    image.rsplit('/').next().is_some_and(|name| name.contains([':', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::website::v2::WebsiteSpec;

    fn site(bytes: usize) -> Website {
        Website::new("blog", WebsiteSpec::new("a.example.com", "x".repeat(bytes)))
    }

    #[test]
    fn files_fit_into_a_config_map() {
        assert_eq!(errors(&site(FILES_BYTES_MAX), None), []);
        let refused = errors(&site(FILES_BYTES_MAX + 1), Some(&site(1)));
        let told: Vec<String> = refused.iter().map(FieldError::to_string).collect();
        assert_eq!(told, ["spec.files: Too long: may not be more than 1048576 bytes"]);
    }

    #[test]
    fn website_that_is_older_than_the_rule_can_be_changed_elsewhere() {
        let old = site(FILES_BYTES_MAX + 1);
        let mut new = old.clone();
        new.metadata.finalizers = None;
        new.spec.replicas = Some(3);
        assert_eq!(errors(&new, Some(&old)), []);
    }

    #[test]
    fn image_without_a_tag_is_warned_about_once() {
        let with_image = |image: &str| {
            let mut site = site(1);
            site.spec.server.image = Some(image.to_owned());
            site
        };
        for image in ["nginx", "localhost:5000/nginx"] {
            let site = with_image(image);
            let told = warning(&site, None).unwrap_or_default();
            assert!(told.starts_with(&format!("the image {image} has no tag")), "{told}");
            assert_eq!(warning(&site, Some(&site)), None);
        }
        for image in ["nginx:1.29", "localhost:5000/nginx:1", "nginx@sha256:0123"] {
            assert_eq!(warning(&with_image(image), None), None, "{image}");
        }
        assert_eq!(warning(&site(1), None), None);
    }
}
