//! The guarantees of the simulator, shown on small operators: what it finds, what it does not
//! complain of, and that the same seed gives the same story.

mod pages;

use pages::{Page, Way, simulation};
use windlass_sim::{Explore, Finding};

#[test]
fn operator_in_order_passes() {
    let report = simulation(Way::Apply).search();
    assert!(report.finding().is_none(), "{report}");
    assert!(report.runs() > 50, "{report}");
    assert_eq!(report.divergence(), None);
}

#[test]
fn child_with_a_generated_name_is_made_twice_when_an_answer_is_lost() {
    let report = simulation(Way::GenerateName).explore(Explore::nothing().writes()).search();
    assert!(matches!(report.finding(), Some(Finding::State { .. })), "{report}");
    assert_eq!(report.exploration(), Some("failed and lost writes"), "{report}");
    assert!(report.to_string().contains("configmaps default/hello-*"), "{report}");
}

#[test]
fn status_before_the_child_leaves_nothing_after_a_crash() {
    let report = simulation(Way::StatusFirst).explore(Explore::nothing().crashes()).search();
    assert_eq!(report.exploration(), Some("crash"), "{report}");
    assert!(report.story().iter().any(|line| line.contains("FAULT: crash")), "{report}");
}

#[test]
fn run_that_panics_is_a_finding_without_any_fault() {
    let report = simulation(Way::Panic).search();
    assert!(matches!(report.finding(), Some(Finding::Restless { .. } | Finding::Violation(_))));
    assert!(report.faults().is_empty(), "{report}");
}

#[test]
fn invariant_is_checked_inside_of_each_change() {
    // True at rest, and wrong in between.
    let report = simulation(Way::Apply)
        .always("every page has its file", |cluster| {
            let pages = cluster.list::<Page>().len();
            let files = cluster.list::<k8s_openapi::api::core::v1::ConfigMap>().len();
            if pages > files { Err(format!("{pages} pages, {files} files")) } else { Ok(()) }
        })
        .search();
    let found = report.finding().map(ToString::to_string);
    let expected = "the invariant every page has its file: 1 pages, 0 files";
    assert_eq!(found.as_deref(), Some(expected), "{report}");
}

#[test]
fn same_seed_gives_the_same_story_and_another_seed_another() {
    let story = |plan: &str| simulation(Way::Apply).story(plan);
    for plan in ["seed=1", "seed=1;faults=crash-after@0", "seed=3;faults=lost@0,crash-before@1"] {
        let (one, two) = (story(plan), story(plan));
        let differs = one.iter().zip(&two).find(|(one, two)| one != two);
        assert_eq!(differs, None, "{plan}");
        assert_eq!(one.len(), two.len(), "{plan}");
    }
    assert_ne!(story("seed=1"), story("seed=2"));
}

/// A fault of Windlass, not of the operator: `docs/simulation.md`, "Found". Once it is mended, the
/// deletion becomes a step of all of these stories.
#[test]
fn child_of_an_owner_that_is_gone_is_made_again_by_a_stale_view() {
    let story = || simulation(Way::Apply).step("delete", |user| user.delete::<Page>("hello"));
    let report = story().explore(Explore::nothing().stale()).search();
    assert!(
        matches!(report.finding(), Some(Finding::TooMany { verb: "creates", kind, .. }) if kind == "configmaps"),
        "{report}"
    );
    // A watch of the owner that is cut shows it, too.
    let others = Explore::nothing().crashes().writes().down();
    let report = story().explore(others).search();
    assert!(report.finding().is_none(), "{report}");
}

#[test]
fn replay_line_shows_the_same_again() {
    let report = simulation(Way::StatusFirst).explore(Explore::nothing().crashes()).search();
    let replay = report.replay().expect("something was found");
    assert_eq!(simulation(Way::StatusFirst).story(&replay), report.story());
}
