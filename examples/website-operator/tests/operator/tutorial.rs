//! The code of docs/tutorial.md is the code of the steps, which are compiled as examples.

/// The steps that have code.
const STEPS: [&str; 5] = [
    include_str!("../../tutorial/step1.rs"),
    include_str!("../../tutorial/step2.rs"),
    include_str!("../../tutorial/step3.rs"),
    include_str!("../../tutorial/step4.rs"),
    include_str!("../../tutorial/step5.rs"),
];

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");

/// The code blocks of a language.
fn blocks<'a>(text: &'a str, language: &'a str) -> impl Iterator<Item = &'a str> {
    let begin = format!("```{language}\n");
    let parts: Vec<&str> = text.split(begin.as_str()).skip(1).collect();
    parts.into_iter().map(|part| part.split("```").next().unwrap_or_default())
}

#[test]
fn code_of_each_step_is_in_its_program() {
    let chapters: Vec<&str> = TUTORIAL.split("\n## Step ").skip(1).collect();
    for (number, (chapter, program)) in chapters.iter().zip(STEPS).enumerate() {
        let mut found = 0;
        for block in blocks(chapter, "rust") {
            assert!(program.contains(block), "not in step {}:\n{block}", number + 1);
            found += 1;
        }
        assert!(found > 0, "step {} shows no code", number + 1);
    }
}

#[test]
fn each_step_builds_on_the_one_before() {
    // What a step does not show, it takes over. So a reader who adds what is shown has all of it.
    let shown: String = blocks(TUTORIAL, "rust").collect();
    for program in STEPS {
        for line in program.lines().filter(|line| !line.starts_with("//!") && !line.is_empty()) {
            assert!(shown.contains(line.trim()), "nowhere in the tutorial: {line}");
        }
    }
}

#[test]
fn versions_are_those_of_the_workspace() {
    let workspace = include_str!("../../../../Cargo.toml");
    let listed = blocks(TUTORIAL, "toml").next().expect("dependencies");
    for line in listed.lines().filter(|line| line.contains(" = ") && !line.contains("path")) {
        let name = line.split(" = ").next().expect("a name");
        let version = line.split('"').nth(1).expect("a version");
        let ours = workspace.lines().find(|ours| ours.starts_with(&format!("{name} = ")));
        let ours = ours.and_then(|ours| ours.split('"').nth(1)).expect("a dependency of ours");
        assert!(ours.starts_with(version), "{name}: {version} here, and {ours} in the workspace");
    }
}
