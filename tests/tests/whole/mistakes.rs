//! What the compiler says about the likeliest mistakes. A new compiler may put it in other words.

use std::fs;

use windlass_tests::mistakes;

#[test]
fn mistakes_are_explained_by_the_compiler() {
    for mistake in mistakes::all().expect("the folder must be readable") {
        let recording = mistake.recording();
        let said = mistake.explanation().unwrap_or_else(|error| panic!("{error:#}"));
        let recorded = fs::read_to_string(&recording).unwrap_or_default();
        assert!(
            said == recorded,
            "{} differs:\n{}\nIf this is as it should be: cargo xtask record mistakes",
            recording.display(),
            windlass_tests::diff::lines(&recorded, &said),
        );
    }
}
