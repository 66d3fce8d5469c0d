//! Checks that `docs/coming-from.md` has a row for every export of controller-runtime and
//! kube-runtime, and shows only code of ours that is compiled.
//!
//! The lists are in `docs/coming-from`; `cargo xtask identifiers` writes them. The code on the page
//! is compiled as a documentation test: see `src/lib.rs`.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use windlass::manager::Options;

const PAGE: &str = include_str!("../../../docs/coming-from.md");
const CONTROLLER_RUNTIME: &str = include_str!("../../../docs/coming-from/controller-runtime.txt");
const KUBE_RUNTIME: &str = include_str!("../../../docs/coming-from/kube-runtime.txt");

/// A line of a table. Cells are texts with code in backticks.
struct Row {
    controller_runtime: String,
    kube_runtime: String,
    ours: String,
}

fn rows() -> Vec<Row> {
    let lines = PAGE.lines().filter(|line| line.starts_with('|'));
    let cells = lines.map(|line| {
        // A bar in code is escaped.
        let line = line.trim_matches('|').replace(r"\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect::<Vec<_>>()
    });
    let rows = cells.filter(|cells| !cells[0].starts_with("---") && cells[2] != "Windlass");
    rows.map(|cells| match <[String; 3]>::try_from(cells) {
        Ok([controller_runtime, kube_runtime, ours]) => {
            Row { controller_runtime, kube_runtime, ours }
        }
        Err(cells) => panic!("a row must have three cells: {cells:?}"),
    })
    .collect()
}

/// The code in a cell.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The identifiers in a cell, where `a.{b, c}` stands for `a.b` and `a.c`.
fn identifiers(cell: &str) -> impl Iterator<Item = String> {
    code(cell).flat_map(|code| match code.split_once('{') {
        Some((prefix, names)) => {
            let names = names.trim_end_matches('}').split(',');
            names.map(|name| format!("{prefix}{}", name.trim())).collect()
        }
        None => vec![code.to_owned()],
    })
}

fn assert_complete(list: &str, cell: impl Fn(&Row) -> &str) {
    let exported: BTreeSet<String> = list.lines().skip(1).map(str::to_owned).collect();
    let shown: BTreeSet<String> = rows().iter().flat_map(|row| identifiers(cell(row))).collect();
    let missing: Vec<_> = exported.difference(&shown).collect();
    assert!(missing.is_empty(), "without a row in docs/coming-from.md: {missing:#?}");
    let gone: Vec<_> = shown.difference(&exported).collect();
    assert!(gone.is_empty(), "docs/coming-from.md shows what does not exist: {gone:#?}");
}

#[test]
fn everything_that_controller_runtime_exports_has_a_row() {
    assert_complete(CONTROLLER_RUNTIME, |row| &row.controller_runtime);
}

#[test]
fn everything_that_kube_runtime_exports_has_a_row() {
    assert_complete(KUBE_RUNTIME, |row| &row.kube_runtime);
}

#[test]
fn lists_are_of_the_versions_that_our_benchmarks_use() {
    let go = include_str!("../../../bench/controller-go/go.mod");
    let rust = include_str!("../../../Cargo.lock");
    // `name = "x"` and `version = "1"`, on separate lines.
    let rust = rust.replace("\"\nversion = \"", " ").replace('"', " ");
    for (list, pinned) in [(CONTROLLER_RUNTIME, go), (KUBE_RUNTIME, &*rust)] {
        let version = list.lines().next().and_then(|line| line.strip_prefix("# "));
        let version = version.expect("the first line has the version");
        let is_pinned = pinned.lines().any(|line| line.contains(version));
        assert!(is_pinned, "{version} is not used any more: run `cargo xtask identifiers`");
    }
}

#[test]
fn every_row_has_our_code_or_says_why_there_is_none() {
    for Row { controller_runtime, kube_runtime, ours } in rows() {
        let is_answer = code(&ours).next().is_some() || ours.starts_with("no");
        assert!(is_answer, "no answer to {controller_runtime} {kube_runtime}: {ours}");
    }
}

#[test]
fn our_code_in_rows_is_compiled_in_a_block_above_or_below() {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    let blocks = PAGE.split("\n```").filter_map(|block| {
        let (language, code) = block.split_once('\n')?;
        let is_compiled = matches!(language, "rust" | "rust,no_run");
        let is_ours = is_compiled && !code.contains("use kube_runtime::");
        is_ours.then(|| squeeze(code))
    });
    let compiled: Vec<String> = blocks.collect();
    let command = Options::command();
    let flags: Vec<_> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
    let rows = rows();
    let missing: Vec<_> = rows
        .iter()
        .flat_map(|row| code(&row.ours))
        .filter(|code| match code.strip_prefix("--") {
            Some(flag) => !flags.contains(&flag),
            None => !compiled.iter().any(|block| block.contains(&squeeze(code))),
        })
        .collect();
    assert!(missing.is_empty(), "not in a block of code on the page: {missing:#?}");
}
