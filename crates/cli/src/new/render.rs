//! Turns the template into the files of an operator: parts that are not needed are left out, and
//! names are replaced.

use super::answers::Answers;
use super::names::{crate_name, plural, snake};
use super::owned::KINDS;
use super::template::FILES;

/// What each name of the template becomes. Of two names that begin at the same place, the first in
/// the list counts.
#[derive(Debug)]
pub(super) struct Names {
    pairs: Vec<(String, String)>,
    /// What `gadget` becomes in code, and elsewhere.
    singular: [String; 2],
}

impl Names {
    /// `clone` is the path of the clone of Windlass.
    pub(super) fn new(answers: &Answers, clone: &str) -> Self {
        let Answers { package, group, kind, owns } = answers;
        let lower = kind.to_ascii_lowercase();
        let all = KINDS.map(|kind| kind.plural);
        let pairs = [
            ("gadget-operator", package.clone()),
            ("gadget_operator", crate_name(package)),
            ("src/gadget.rs", format!("src/{}.rs", snake(kind))),
            ("\"gadget\"", format!("\"{lower}\"")),
            ("Gadgets", plural(kind)),
            ("gadgets", plural(&lower)),
            ("Gadget", kind.clone()),
            ("group.example", group.clone()),
            (&all.join(","), owns.join(",")),
            (&all.join(", "), owns.join(", ")),
            ("/path/to/windlass", clone.to_owned()),
            // The folder from which tests of the template run is another one.
            ("../template/", String::new()),
        ];
        let pairs = pairs.map(|(from, to)| (from.to_owned(), to)).to_vec();
        Self { pairs, singular: [snake(kind), lower] }
    }

    /// Replaces all names at once, so that no replacement is replaced again.
    fn replace(&self, text: &str, is_code: bool) -> String {
        let singular = &self.singular[usize::from(!is_code)];
        let last = ("gadget", singular.as_str());
        let pairs = self.pairs.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        let pairs: Vec<(&str, &str)> = pairs.chain([last]).collect();
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some(next) = rest.chars().next() {
            if let Some((from, to)) = pairs.iter().find(|(from, _)| rest.starts_with(from)) {
                replaced.push_str(to);
                rest = &rest[from.len()..];
            } else {
                replaced.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        replaced
    }
}

/// The files of the operator with their paths, in the order of the template.
pub(super) fn render(answers: &Answers, names: &Names) -> Vec<(String, String)> {
    let is_needed = |needs: &[&str]| needs.is_empty() || owns_any(answers, needs);
    let files = FILES.iter().filter(|file| is_needed(file.needs));
    let rendered = files.map(|file| {
        let is_code = file.is_code();
        let path = file.path.strip_suffix(".in").unwrap_or(file.path);
        (names.replace(path, true), names.replace(&select(file.text, answers), is_code))
    });
    rendered.collect()
}

/// Leaves out the parts that are for kinds that the operator does not own, and the lines that mark
/// such parts. They may be nested.
fn select(text: &str, answers: &Answers) -> String {
    let mut selected = String::new();
    // For each part that is open, whether it is left out.
    let mut open: Vec<bool> = Vec::new();
    for line in text.split_inclusive('\n') {
        match marker(line) {
            Some(Marker::If(kinds)) => open.push(!owns_any(answers, &kinds)),
            Some(Marker::End) => {
                open.pop().expect("every `end` of the template must have an `if`");
            }
            None if open.contains(&true) => {}
            None => selected.push_str(line),
        }
    }
    assert!(open.is_empty(), "every `if` of the template must have an `end`");
    selected
}

enum Marker<'a> {
    /// The part stays if one of these is owned.
    If(Vec<&'a str>),
    End,
}

/// `// if deployments services` or `# end`. Comments that only look like it name no kinds.
fn marker(line: &str) -> Option<Marker<'_>> {
    let line = line.trim();
    let comment = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?;
    if comment == "end" {
        return Some(Marker::End);
    }
    let kinds: Vec<&str> = comment.strip_prefix("if ")?.split(' ').collect();
    let is_kind = |name: &&str| KINDS.iter().any(|kind| kind.plural == *name);
    kinds.iter().all(is_kind).then_some(Marker::If(kinds))
}

fn owns_any(answers: &Answers, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| answers.owns.contains(kind))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn answers(kind: &str, owns: &[&'static str]) -> Answers {
        Answers {
            package: "blog-operator".to_owned(),
            group: "blog.example.com".to_owned(),
            kind: kind.to_owned(),
            owns: owns.to_vec(),
        }
    }

    #[test]
    fn parts_of_other_kinds_are_left_out_also_within_parts() {
        let text = "a\n// if services deployments\nb\n  # if deployments\nc\n  # end\n// end\nd\n";
        let selected = |owns: &[&'static str]| select(text, &answers("Page", owns));
        assert_eq!(selected(&["configmaps"]), "a\nd\n");
        assert_eq!(selected(&["services"]), "a\nb\nd\n");
        assert_eq!(selected(&["deployments"]), "a\nb\nc\nd\n");
        let prose = "// if a test needs it\n";
        assert_eq!(select(prose, &answers("Page", &["services"])), prose);
    }

    #[test]
    fn names_are_replaced_in_the_form_that_their_place_needs() {
        let answers = answers("BlogPost", &["services", "statefulsets"]);
        let names = Names::new(&answers, "/clone");
        let code = "use gadget_operator::Gadget; // Gadgets\nlet gadget = \"gadget\"; // gadgets";
        assert_eq!(
            names.replace(code, true),
            "use blog_operator::BlogPost; // BlogPosts\n\
             let blog_post = \"blogpost\"; // blogposts"
        );
        let text = "kind: Gadget, gadget, src/gadget.rs, group.example/v1, /path/to/windlass";
        assert_eq!(
            names.replace(text, false),
            "kind: BlogPost, blogpost, src/blog_post.rs, blog.example.com/v1, /clone"
        );
        let all = KINDS.map(|kind| kind.plural).join(",");
        assert_eq!(names.replace(&all, true), "services,statefulsets");
    }

    #[test]
    fn replacement_is_not_replaced_again() {
        let answers = answers("GadgetGroup", &["services"]);
        let names = Names::new(&answers, "/clone/gadgets");
        assert_eq!(names.replace("Gadget /path/to/windlass", true), "GadgetGroup /clone/gadgets");
    }

    #[test]
    fn nothing_of_the_template_is_left_whatever_is_owned() {
        let all = KINDS.map(|kind| kind.plural);
        for bits in 1..1 << all.len() {
            let owns = all.iter().enumerate().filter(|(index, _)| bits & (1 << index) != 0);
            let owns: Vec<&'static str> = owns.map(|(_, kind)| *kind).collect();
            let answers = answers("Shop", &owns);
            for (path, text) in render(&answers, &Names::new(&answers, "/clone")) {
                let whole = format!("{path}\n{text}").to_lowercase();
                for left in ["gadget", "group.example", "/path/to", "../template"] {
                    assert!(!whole.contains(left), "{left} is left in {path}");
                }
                assert!(!text.lines().any(|line| marker(line).is_some()), "{path}");
            }
        }
    }
    /// One text with all files, as it is before rustfmt has been over it.
    #[test]
    fn blog_operator_is_as_recorded() {
        let answers = answers("BlogPost", &["configmaps"]);
        let files = render(&answers, &Names::new(&answers, "/home/you/windlass"));
        let shown = files.iter().map(|(path, text)| format!("==> {path} <==\n{text}"));
        let shown = shown.collect::<Vec<_>>().join("\n");
        let recording =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/blog-operator.txt");
        if std::env::var_os("WINDLASS_RECORD").is_some() {
            fs::write(&recording, &shown).expect("the recording must be writable");
        }
        let recorded = fs::read_to_string(&recording).expect("a recording");
        let differing = shown.lines().zip(recorded.lines()).find(|(now, then)| now != then);
        assert!(
            shown == recorded,
            "the first line that differs: {differing:?}. If this is as it should be: \
             WINDLASS_RECORD=1 cargo test -p windlass-cli --lib recorded"
        );
    }
}
