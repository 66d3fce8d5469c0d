//! Replaces what differs between any two clusters. This is the complete list:
//!
//! - uids, versions of objects, times, ages, addresses of the server, paths;
//! - the hash of a pod template, and the random end of a generated name;
//! - the width of columns, which depends on these;
//! - lines that only report the progress of a rollout: their number depends on its speed.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// The patterns, and their replacements.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "<time>"),
        // Times in the format of `kubectl describe`.
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r#"(resourceVersion"?: )"\d+""#, "$1<version>"),
        (r"(Resource Version: +)\d+", "$1<version>"),
        (r"https?://(127\.0\.0\.1|localhost):\d+", "<server>"),
        // The hash of a pod template, followed by the end of the name of a pod.
        (r"-[bcdf-hj-np-tv-xz2456789]{8,10}-[bcdf-hj-np-tv-xz2456789]{5}\b", "-<hash>-<end>"),
        (r"-[bcdf-hj-np-tv-xz2456789]{8,10}\b", "-<hash>"),
        (r"(pod-template-hash\S?[=:]\s?)\S+", "$1<hash>"),
        (r"(?m)(^|[ (])(\d+d)?(\d+h)?(\d+m)?\d+(s|m|h|d)( ago\)|[ )]|$)", "$1<age>$6"),
    ]
    .map(|(pattern, instead)| (Regex::new(pattern).expect("a pattern"), instead))
    .into()
});

/// Returns the output of a step in comparable form.
pub(crate) fn normalise(text: &str, folder: &Path) -> String {
    let mut text = text.replace(&*folder.to_string_lossy(), "<folder>");
    for (pattern, instead) in RULES.iter() {
        text = pattern.replace_all(&text, *instead).into_owned();
    }
    let is_progress = |line: &str| line.starts_with("Waiting for ");
    let lines = text.lines().filter(|line| !is_progress(line));
    lines.map(|line| collapse(line) + "\n").collect()
}

/// Reduces runs of spaces after the indentation to one space.
fn collapse(line: &str) -> String {
    let rest = line.trim_start();
    let indentation = &line[..line.len() - rest.len()];
    format!("{indentation}{}", rest.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_the_width_of_columns_are_replaced() {
        let text =
            normalise("web-5d69f8cbf4-x2x9z   1/1     Running   0     12s\n", Path::new("/x"));
        assert_eq!(text, "web-<hash>-<end> 1/1 Running 0 <age>\n");
    }

    #[test]
    fn indentation_stays() {
        assert_eq!(normalise("    a:   b\n", Path::new("/x")), "    a: b\n");
    }
}
