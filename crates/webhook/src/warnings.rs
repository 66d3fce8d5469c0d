//! Warnings, bounded as the API server bounds them.

/// Beyond this many bytes in total, the API server cuts each warning and drops the rest.
const TOTAL_MAX: usize = 4 * 1024;

/// What a warning is cut to when there are too many.
const CHARACTERS_MAX: usize = 256;

/// The warnings that the API server would pass on: each once, none empty, within the bounds.
pub(crate) fn bounded(warnings: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(warnings.len());
    for warning in warnings {
        // The server refuses a header with control characters, and the warning would be lost.
        let warning = warning.replace(char::is_control, " ");
        if !warning.is_empty() && !kept.contains(&warning) {
            kept.push(warning);
        }
    }
    if kept.iter().map(String::len).sum::<usize>() <= TOTAL_MAX {
        return kept;
    }
    let mut total = 0;
    let cut = kept.into_iter().map(|warning| warning.chars().take(CHARACTERS_MAX).collect());
    let fits = |warning: &String| {
        total += warning.len();
        total <= TOTAL_MAX
    };
    cut.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_long_warning_is_passed_on() {
        let long = "x".repeat(TOTAL_MAX);
        assert_eq!(bounded(vec![long.clone()]), vec![long]);
    }

    #[test]
    fn too_many_are_cut_and_dropped() {
        let many: Vec<String> = (0..100).map(|at| format!("{at:03}{}", "ü".repeat(1000))).collect();
        let kept = bounded(many);
        assert!(kept.iter().all(|warning| warning.chars().count() == CHARACTERS_MAX));
        assert!(kept.iter().map(String::len).sum::<usize>() <= TOTAL_MAX);
        assert!(kept.len() > 4, "only {} are left", kept.len());
    }

    #[test]
    fn empty_and_repeated_ones_are_dropped_and_line_breaks_replaced() {
        let warnings = ["", "a\nb", "a b", "c"].map(str::to_owned).to_vec();
        assert_eq!(bounded(warnings), ["a b", "c"]);
    }
}
