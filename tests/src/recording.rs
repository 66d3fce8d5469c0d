//! The recordings: transcripts of the real server, one file per area in `tests/recordings`.
//!
//! A file has the cases of its area by name, and the version of the recorded server. It is written
//! by `cargo xtask record cases`, never by hand.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::cases;
use crate::render::render;

/// Cases are recorded concurrently, and several share a file.
static WRITING: Mutex<()> = Mutex::new(());

/// The transcript of each recorded case of an area, by name.
pub(crate) type Recorded = BTreeMap<String, Vec<Value>>;

/// Reads the recording of an area; an area that was never recorded is empty.
pub(crate) fn read(area: &str) -> Recorded {
    let path = path(area);
    let Ok(text) = fs::read_to_string(&path) else { return Recorded::new() };
    let mut file: Map<String, Value> = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{} must be JSON: {error}", path.display()));
    let cases = file.remove("cases").unwrap_or_default();
    serde_json::from_value(cases)
        .unwrap_or_else(|error| panic!("{} must hold cases: {error}", path.display()))
}

/// Writes the transcript of one case into the file of its area, and drops cases that no longer
/// exist.
pub(crate) fn write(area: &str, case: &str, steps: Vec<Value>, server: &str) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut recorded = read(area);
    recorded.insert(case.to_owned(), steps);
    recorded.retain(|name, _| cases::ALL.iter().any(|c| c.area == area && c.name == name));
    let file = json!({"server": server, "cases": recorded});
    let path = path(area);
    fs::write(&path, render(&file) + "\n")
        .unwrap_or_else(|error| panic!("{} must be writable: {error}", path.display()));
}

/// Returns the areas with a file.
pub(crate) fn areas() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("tests/recordings must be readable");
    let paths = entries.map(|entry| entry.expect("tests/recordings must be readable").path());
    paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}

fn path(area: &str) -> PathBuf {
    folder().join(format!("{area}.json"))
}

/// Cargo passes the folder of the package when it runs the tests; a path that is fixed at compile
/// time would be wrong as soon as the folder moves.
fn folder() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("the tests must be run by cargo");
    PathBuf::from(package).join("recordings")
}
