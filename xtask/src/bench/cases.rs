//! Which of a suite's cases a run is about.

use anyhow::{Result, ensure};

/// Those of the cases that have one of `parts` in their names; all, if there are no parts.
///
/// # Errors
/// If a part is in no name.
pub(super) fn chosen<T>(
    all: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> &'static str,
    parts: &[String],
) -> Result<Vec<T>> {
    let all: Vec<T> = all.into_iter().collect();
    for part in parts {
        ensure!(
            all.iter().any(|case| name(case).contains(part)),
            "--case {part}: no case has this in its name; the cases are {}",
            all.iter().map(&name).collect::<Vec<_>>().join(", ")
        );
    }
    let is_asked =
        |case: &T| parts.is_empty() || parts.iter().any(|part| name(case).contains(part));
    Ok(all.into_iter().filter(is_asked).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: [&str; 3] = ["sync", "sync-read", "burst"];

    fn parts(parts: &[&str]) -> Result<Vec<&'static str>> {
        let parts: Vec<_> = parts.iter().map(|&part| part.to_owned()).collect();
        chosen(CASES, |&case| case, &parts)
    }

    #[test]
    fn cases_are_chosen_by_parts_of_their_names() {
        assert_eq!(parts(&[]).expect("all"), CASES);
        assert_eq!(parts(&["sync"]).expect("two"), ["sync", "sync-read"]);
        assert_eq!(parts(&["burst", "read"]).expect("two"), ["sync-read", "burst"]);
    }

    #[test]
    fn unknown_case_is_refused_with_the_known_ones() {
        let error = parts(&["sync", "stop"]).expect_err("there is no such case");
        assert_eq!(
            error.to_string(),
            "--case stop: no case has this in its name; the cases are sync, sync-read, burst"
        );
    }
}
