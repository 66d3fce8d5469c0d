//! `cargo windlass add` as a program: its changes, and its refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::recorded::{self, FOLDERS, Files};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cargo-windlass");

fn windlass(folder: &Path, arguments: &[&str]) -> Output {
    recorded::windlass(Path::new(PROGRAM), folder, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Creates an operator.
fn shop() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let operator = recorded::new_shop(Path::new(PROGRAM), folder.path());
    (folder, operator)
}

/// Runs `add`, and returns its output.
fn add(operator: &Path, what: &[&str]) -> String {
    let output = windlass(operator, &[&["add"], what].concat());
    assert!(output.status.success(), "{what:?}: {output:?}");
    text(&output.stdout)
}

/// Returns the error of a refused `add`, and checks that nothing changed.
fn refused(operator: &Path, what: &[&str]) -> String {
    let before = files(operator);
    let output = windlass(operator, &[&["add"], what].concat());
    assert!(!output.status.success(), "{what:?}: {output:?}");
    assert!(files(operator) == before, "{what:?} has changed a file");
    text(&output.stderr)
}

fn files(operator: &Path) -> Files {
    recorded::files(operator, &FOLDERS)
}

/// The recording is a crate of the workspace, so that its tests run, too.
#[test]
fn operator_with_everything_added_is_as_recorded() {
    let made = recorded::shop_with_everything(Path::new(PROGRAM));
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("template-added");
    let mut recorded = files(&recording);
    let said = fs::read_to_string(recording.join("said.txt")).expect("a recording");
    recorded.insert(PathBuf::from("said.txt"), said);
    for (path, text) in &made {
        assert!(
            recorded.get(path) == Some(text),
            "{} differs. If this is as it should be: cargo xtask record template",
            path.display()
        );
    }
    assert_eq!(made.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>());
}

#[test]
fn added_lines_are_shown_with_their_places() {
    let (_folder, operator) = shop();
    let said = add(&operator, &["kind", "Customer", "--owns", "cm"]);
    for expected in [
        "Made:\n  deploy/example-customer.yaml\n  src/customer.rs\n",
        "Changed src/lib.rs:\n     8 + pub mod customer;\n    23 +         \
         customer::definition(),\n",
        "Next: `cargo test`.",
    ] {
        assert!(said.contains(expected), "no {expected:?} in {said}");
    }
}

#[test]
fn first_webhook_raises_the_memory_limit_unless_it_was_changed() {
    for what in [&["webhook", "Shop", "--default"][..], &["version", "Shop", "v2"]] {
        for (limit, expected) in [("128Mi", "704Mi"), ("1Gi", "1Gi")] {
            let (_folder, operator) = shop();
            let manifest = operator.join("deploy/operator.yaml");
            let text = fs::read_to_string(&manifest).expect("a manifest");
            assert!(text.contains("memory: 128Mi\n"), "{text}");
            fs::write(&manifest, text.replace("128Mi", limit)).expect("it is written");
            add(&operator, what);
            let text = fs::read_to_string(&manifest).expect("a manifest");
            assert!(text.contains(&format!("memory: {expected}\n")), "{what:?}: {text}");
        }
    }
}

#[test]
fn webhooks_come_with_what_they_need_outside_of_a_cluster() {
    let (_folder, operator) = shop();
    for what in [&["webhook", "Shop", "--default"][..], &["version", "Shop", "v2"]] {
        let said = add(&operator, what);
        let (_, next) = said.split_once("\nNext: ").expect("what to do next");
        assert!(
            next.contains("\n  cargo run -- run --webhook-url https://HOST:9443\n"),
            "{what:?}: {next}"
        );
    }
    let said = add(&operator, &["kind", "Customer"]);
    assert!(!said.contains("--webhook-url"), "{said}");
}

#[test]
fn what_is_there_or_invalid_is_refused() {
    let (_folder, operator) = shop();
    add(&operator, &["webhook", "shop", "--default"]);
    for (what, expected) in [
        (&["kind", "customer"][..], "is not in CamelCase"),
        (&["kind", "Shop"], "has the kind Shop already"),
        (&["kind", "Shops"], "the kind Shops would clash with Shop: in the group example.com, "),
        (&["kind", "Customer", "--owns", "pods"], "There are configmaps, deployments, "),
        (&["webhook", "Customer", "--default"], "has no kind \"Customer\" (it has: Shop)"),
        (&["webhook", "Shop"], "--validate"),
        (
            &["webhook", "Shop", "--validate"],
            "src/shop/admission.rs exists already: implement Validate there, add it to \
             src/webhooks.rs, and let `cargo windlass rbac --write` add its RBAC rules to \
             deploy/rbac.yaml",
        ),
        (&["webhook", "Shop", "--convert"], "`cargo windlass add version Shop v2` adds another"),
        (&["version", "Shop", "2"], "use one such as v1alpha2, v1beta1 or v2"),
        (&["version", "Shop", "v1alpha1"], "has the version v1alpha1 already"),
    ] {
        let error = refused(&operator, what);
        assert!(error.starts_with("error: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn missing_place_is_named_and_nothing_is_half_written() {
    let (_folder, operator) = shop();
    let tests = operator.join("tests/deployed.rs");
    let text = fs::read_to_string(&tests).expect("a file");
    fs::write(&tests, text.replace("// More kinds come here", "// Nothing")).expect("written");
    let error = refused(&operator, &["kind", "Customer"]);
    assert_eq!(
        error,
        "error: tests/deployed.rs has no line that begins with `// More kinds come here`, where \
         `common::customer::play(&cluster).await;` belongs: write one where it should be, and try \
         again\n"
    );
}

/// Changes a file of an operator.
fn edit(operator: &Path, path: &str, from: &str, to: &str) {
    let path = operator.join(path);
    let text = fs::read_to_string(&path).expect("a file");
    assert!(text.contains(from), "no {from:?} in {text}");
    fs::write(&path, text.replace(from, to)).expect("written");
}

#[test]
fn version_is_added_to_code_that_somebody_has_changed() {
    let (_folder, operator) = shop();
    let read = |path: &str| fs::read_to_string(operator.join(path)).expect("a file");
    let file = "src/shop.rs";
    let merge = "merge_crds(versions, \"v1alpha1\").expect(\"versions of one kind must merge\")";
    let long = "merge_crds(\n        versions,\n        \"v1alpha1\",\n    )\n    .expect(\"one\")";
    edit(&operator, file, merge, long);
    add(&operator, &["version", "Shop", "v1beta1"]);
    assert!(read(file).contains("\n    convert::by_webhook(definition)\n}\n"), "{}", read(file));

    // The existing block keeps its comment, and the new one calls the existing function.
    let convert = "src/shop/convert.rs";
    let block = "/// With a note.\nimpl Convert<v1alpha1::Shop> for Shop {";
    edit(&operator, convert, "impl Convert<v1alpha1::Shop> for Shop {", block);
    edit(&operator, convert, "fn same<", "fn alike<");
    edit(&operator, convert, "same(&", "alike(&");
    add(&operator, &["version", "Shop", "v2"]);
    let text = read(convert);
    assert!(text.contains(block), "{text}");
    assert_eq!(text.matches("\nfn same<").count(), 1, "{text}");
    let (before, after) = text.split_once("\nfn alike<").expect("a function");
    assert!(!before.contains("v1beta1::Shop for"), "{text}");
    assert!(after.contains("\nimpl Convert<super::v1beta1::Shop> for Shop {"), "{text}");
    // The next version calls the existing function, too.
    add(&operator, &["version", "Shop", "v3"]);
    assert_eq!(read(convert).matches("\nfn same<").count(), 1);
}

#[test]
fn version_names_the_line_that_it_needs() {
    let (_folder, operator) = shop();
    edit(&operator, "src/shop.rs", "    definition\n", "    definition.clone()\n");
    let error = refused(&operator, &["version", "Shop", "v2"]);
    assert_eq!(
        error,
        "error: src/shop.rs has no line `definition`, which would become \
         `convert::by_webhook(definition)`: write one where it should be, and try again\n"
    );
}

#[test]
fn plural_and_package_are_those_that_the_operator_says() {
    let (_folder, operator) = shop();
    let manifest = "[[bin]]\nname = \"tool\"\npath = \"src/main.rs\"\n\n[package]";
    edit(&operator, "Cargo.toml", "[package]", manifest);
    edit(&operator, "src/shop/v1alpha1.rs", "plural = \"shops\"", "plural = \"shoppen\"");
    add(&operator, &["version", "Shop", "v2"]);
    let rules = fs::read_to_string(operator.join("deploy/rbac.yaml")).expect("a file");
    assert!(rules.contains("resourceNames: [shoppen.example.com]"), "{rules}");
    assert!(rules.contains("name: shop-operator-shop-conversion"), "{rules}");
}

#[test]
fn missing_rustfmt_is_named() {
    let (_folder, operator) = shop();
    let mut command = Command::new(PROGRAM);
    command.args(["windlass", "add", "kind", "Customer"]).current_dir(&operator);
    let output = command.env("CARGO", "false").output().expect("the program must start");
    let said = text(&output.stdout);
    assert!(said.contains("\nrustfmt is missing, so the code is not formatted: "), "{output:?}");

    fs::write(operator.join("src/customer.rs"), "fn  f () {}").expect("written");
    let said = add(&operator, &["webhook", "Shop", "--default"]);
    assert!(said.contains("The code was not formatted before, so it is not now"), "{said}");
}

#[test]
fn folder_without_an_operator_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = refused(folder.path(), &["kind", "Customer"]);
    assert!(error.contains("go to the folder that `cargo windlass new` has made"), "{error}");
}

#[test]
fn operator_without_kinds_lists_none() {
    let (_folder, operator) = shop();
    fs::remove_dir_all(operator.join("src/shop")).expect("removed");
    let error = refused(&operator, &["version", "Book", "v2"]);
    assert_eq!(
        error,
        "error: this operator has no kind \"Book\": `cargo windlass add kind` adds one\n"
    );
}

#[test]
fn example_of_another_version_stays_as_it_is() {
    let example = "deploy/example-shop.yaml";
    let line = "apiVersion: example.com/v1alpha1\n";
    for other in [
        "apiVersion: example.com/v1alpha12\n",
        "# Not apiVersion: example.com/v1alpha1\napiVersion: example.com/v2\n",
    ] {
        let (_folder, operator) = shop();
        edit(&operator, example, line, other);
        let before = fs::read_to_string(operator.join(example)).expect("a file");
        let said = add(&operator, &["version", "Shop", "v3"]);
        assert_eq!(fs::read_to_string(operator.join(example)).expect("a file"), before);
        assert!(!said.contains(example), "{said}");
    }
}

#[test]
fn example_gets_the_new_version_beside_comments_and_quotes() {
    let example = "deploy/example-shop.yaml";
    let (_folder, operator) = shop();
    let line = "apiVersion: example.com/v1alpha1\n";
    let with = |version: &str| {
        format!(
            "# Not apiVersion: example.com/v1alpha1\napiVersion: \"example.com/{version}\" # The \
             newest.\n"
        )
    };
    edit(&operator, example, line, &with("v1alpha1"));
    add(&operator, &["version", "Shop", "v2"]);
    let text = fs::read_to_string(operator.join(example)).expect("a file");
    assert!(text.contains(&with("v2")), "{text}");
}
