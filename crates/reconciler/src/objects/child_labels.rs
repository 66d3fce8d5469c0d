//! The label of children.

/// The label of what a controller has made with [`Children`](crate::Children): the name of the
/// controller.
pub const CONTROLLER_LABEL: &str = "windlass.dev/controller";

/// Selects what the controller of this name has made with [`Children`](crate::Children). An
/// informer with this label selector caches nothing else.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_reconciler::{Watch, children_selector};
///
/// let ours = Watch::<ConfigMap>::new()
///     .options(|options| options.label_selector(children_selector("website")));
/// # drop(ours);
/// ```
pub fn children_selector(controller: &str) -> String {
    format!("{CONTROLLER_LABEL}={}", label_value(controller))
}

/// The name of a controller as the value of a label. One that no label can have is shortened, and
/// made unique by a hash.
pub(crate) fn label_value(controller: &str) -> String {
    const LENGTH_MAX: usize = 63;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = controller.as_bytes();
    let is_valid = bytes.len() <= LENGTH_MAX
        && bytes.iter().all(|byte| is_allowed(*byte))
        && is_edge(bytes.first())
        && is_edge(bytes.last());
    if is_valid {
        return controller.to_owned();
    }
    // FNV-1a: it is stored, so it must not change with the version of a library.
    let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = bytes.iter().fold(0x811c_9dc5, mix);
    let plain = bytes.iter().map(|byte| if is_allowed(*byte) { char::from(*byte) } else { '-' });
    let plain: String = plain.take(LENGTH_MAX - 10).collect();
    format!("c{plain}-{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_a_controller_becomes_a_label() {
        assert_eq!(label_value("website"), "website");
        assert_eq!(label_value("example.com/website"), "cexample.com-website-3bd5deb8");
        assert_ne!(label_value("example.com/website"), label_value("example.com-website"));
        let long = "x".repeat(200);
        assert_eq!(label_value(&long).len(), 63);
        assert!(label_value("ünïcode/").bytes().all(|byte| byte.is_ascii()));
        assert!(label_value("").starts_with("c-"));
    }
}
