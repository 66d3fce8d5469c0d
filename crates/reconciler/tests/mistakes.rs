//! The likeliest mistakes, and what the compiler says about them: it has to fit on a screen, and to
//! name what to do.
//!
//! A new compiler may put it in other words: `TRYBUILD=overwrite cargo test -p windlass-reconciler
//! --test mistakes`, then look at what it says now.

#[test]
fn mistakes_are_explained_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
