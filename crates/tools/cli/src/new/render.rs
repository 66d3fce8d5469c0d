//! Turns the template into the files of an operator: omits unneeded parts, and replaces names.

use super::names::{article, crate_name, plural, snake};
use super::owned::KINDS;
use super::template::{FILES, File, Part};

/// The webhooks that `if` lines of the template may name, besides the kinds.
const MARKER_WEBHOOKS: [&str; 2] = ["default", "validate"];

/// The replacement of each name in the template. If two names begin at the same place, the first in
/// the list is replaced.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pairs: Vec<(String, String)>,
    /// The replacement of `gadget` in Rust code, and in other files.
    singular: [String; 2],
    /// The replacement of `gadgets` in Rust code, and in other files.
    plural: [String; 2],
}

impl Names {
    /// The names of a kind of an operator.
    pub(crate) fn new(package: &str, group: &str, kind: &str) -> Self {
        let (lower, snake) = (kind.to_ascii_lowercase(), snake(kind));
        let with_article = format!("{} {kind}", article(kind));
        let pairs = [
            ("gadget-operator", package.to_owned()),
            ("gadget_operator", crate_name(package)),
            // Files of code are named like modules, everything else as Kubernetes names it.
            ("src/gadget", format!("src/{snake}")),
            ("tests/common/gadget", format!("tests/common/{snake}")),
            ("_gadget.rs", format!("_{snake}.rs")),
            ("hello-gadget", format!("hello-{lower}")),
            ("example-gadget", format!("example-{lower}")),
            ("\"gadget\"", format!("\"{lower}\"")),
            ("Gadgets", plural(kind)),
            // Not within a word such as `via`.
            (" a Gadget", format!(" {with_article}")),
            ("\"a Gadget", format!("\"{with_article}")),
            ("A Gadget", format!("A{}", &with_article[1..])),
            ("Gadget", kind.to_owned()),
            ("group.example", group.to_owned()),
            // Tests of the template run in `template-check/`, and reach its files by this path.
            ("../template/", String::new()),
        ];
        let pairs = pairs.map(|(from, to)| (from.to_owned(), to)).to_vec();
        let plural = plural(&lower);
        Self { pairs, singular: [snake, lower], plural: [plural.clone(), plural] }
    }

    /// Sets the plural in manifests, if it differs from the derived one. Code keeps the derived one
    /// as the name of variables.
    pub(crate) fn plural(mut self, plural: &str) -> Self {
        plural.clone_into(&mut self.plural[1]);
        self
    }

    /// Sets the owned kinds, where the template lists all kinds.
    pub(crate) fn owns(mut self, owns: &[&str]) -> Self {
        let all = KINDS.map(|kind| kind.plural);
        self.pairs.push((all.join(","), owns.join(",")));
        self.pairs.push((all.join(", "), owns.join(", ")));
        self
    }

    /// Sets the path of the clone of Windlass.
    pub(crate) fn windlass(mut self, clone: &str) -> Self {
        self.pairs.push(("/path/to/windlass".to_owned(), clone.to_owned()));
        self
    }

    /// Sets the version that replaces `v1alpha1`.
    pub(crate) fn version(mut self, version: &str) -> Self {
        self.pairs.push(("v1alpha1".to_owned(), version.to_owned()));
        self
    }

    /// Replaces all names at once, so that no replacement is replaced again.
    pub(crate) fn replace(&self, text: &str, is_code: bool) -> String {
        let place = usize::from(!is_code);
        let last =
            [("gadgets", self.plural[place].as_str()), ("gadget", self.singular[place].as_str())];
        let pairs = self.pairs.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        let pairs: Vec<(&str, &str)> = pairs.chain(last).collect();
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

/// Renders some parts of the template, in its order, with their paths. `has` are the owned kinds
/// and the webhooks of a kind.
pub(crate) fn render(parts: &[Part], has: &[&str], names: &Names) -> Vec<(String, String)> {
    let is_needed = |needs: &[&str]| needs.is_empty() || has_any(has, needs);
    let files = FILES.iter().filter(|file| parts.contains(&file.part) && is_needed(file.needs));
    files.map(|file| render_file(file, has, names)).collect()
}

/// Renders one file of the template, with its path.
pub(crate) fn render_path(path: &str, has: &[&str], names: &Names) -> (String, String) {
    let file = FILES.iter().find(|file| file.path == path);
    render_file(file.expect("the template must have this file"), has, names)
}

fn render_file(file: &File, has: &[&str], names: &Names) -> (String, String) {
    let path = file.path.strip_suffix(".in").unwrap_or(file.path);
    (names.replace(path, true), names.replace(&select(file.text, has), file.is_code()))
}

/// Omits parts for kinds that are not owned or webhooks that are not wanted, and the lines that
/// mark parts. Parts may be nested.
fn select(text: &str, has: &[&str]) -> String {
    let mut selected = String::new();
    // For each open part, whether it is omitted.
    let mut open: Vec<bool> = Vec::new();
    for line in text.split_inclusive('\n') {
        match marker(line) {
            Some(Marker::If(words)) => open.push(!has_any(has, &words)),
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
    /// The part is kept if one of these is present.
    If(Vec<&'a str>),
    End,
}

/// Parses `// if deployments services` or `# end`. Comments that only look like it have other
/// words.
fn marker(line: &str) -> Option<Marker<'_>> {
    let line = line.trim();
    let comment = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?;
    if comment == "end" {
        return Some(Marker::End);
    }
    let words: Vec<&str> = comment.strip_prefix("if ")?.split(' ').collect();
    let is_known = |name: &&str| {
        MARKER_WEBHOOKS.contains(name) || KINDS.iter().any(|kind| kind.plural == *name)
    };
    words.iter().all(is_known).then_some(Marker::If(words))
}

fn has_any(has: &[&str], words: &[&str]) -> bool {
    words.iter().any(|word| has.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: &str) -> Names {
        Names::new("blog-operator", "blog.example.com", kind)
    }

    #[test]
    fn parts_of_other_kinds_are_left_out_also_within_parts() {
        let text = "a\n// if services deployments\nb\n  # if deployments\nc\n  # end\n// end\nd\n";
        let selected = |owns: &[&str]| select(text, owns);
        assert_eq!(selected(&["configmaps"]), "a\nd\n");
        assert_eq!(selected(&["services"]), "a\nb\nd\n");
        assert_eq!(selected(&["deployments"]), "a\nb\nc\nd\n");
        let prose = "// if a test needs it\n";
        assert_eq!(select(prose, &["services"]), prose);
    }

    #[test]
    fn names_are_replaced_in_the_form_that_their_place_needs() {
        let names = names("BlogPost").owns(&["services", "statefulsets"]).windlass("/clone");
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
        let both = "include_str!(\"deploy/example-gadget.yaml\"), tests/reconcile_gadget.rs";
        for is_code in [true, false] {
            assert_eq!(
                names.replace(both, is_code),
                "include_str!(\"deploy/example-blogpost.yaml\"), tests/reconcile_blog_post.rs"
            );
        }
        let all = KINDS.map(|kind| kind.plural).join(",");
        assert_eq!(names.replace(&all, true), "services,statefulsets");
    }

    #[test]
    fn article_is_that_of_the_kind() {
        let text = "/// A Gadget is a Gadget via Gadget: expect(\"a Gadget\")";
        assert_eq!(
            names("Invoice").replace(text, true),
            "/// An Invoice is an Invoice via Invoice: expect(\"an Invoice\")"
        );
        assert_eq!(names("Gadget").replace(text, true), text);
    }

    #[test]
    fn plural_of_the_operator_is_that_of_its_manifests() {
        let names = names("Fox").plural("foxen");
        assert_eq!(names.replace("gadgets.group.example", false), "foxen.blog.example.com");
        assert_eq!(names.replace("let gadgets: Api<Gadget>", true), "let foxes: Api<Fox>");
    }

    /// `use cache::…` would be the module of the kind, where there is one.
    #[test]
    fn tests_name_the_crate_as_one_also_if_a_kind_has_its_name() {
        let names = Names::new("cache", "example.com", "Cache").owns(&["services"]);
        let parts = [Part::Operator, Part::Kind, Part::Webhooks, Part::Admission, Part::Conversion];
        let files = render(&parts, &["services", "validate"], &names);
        let tests: Vec<_> = files.iter().filter(|(path, _)| path.starts_with("tests/")).collect();
        assert!(
            tests.iter().any(|(_, text)| text.contains("\nuse ::cache::{definitions, manager};"))
        );
        for (path, text) in tests {
            assert!(!text.contains("use cache::"), "{path}");
        }
    }

    #[test]
    fn readers_of_the_metrics_may_read_what_inspect_asks_for() {
        let (_, rules) = render_path("deploy/rbac.yaml", &[], &names("Shop"));
        for path in crate::inspect::PATHS {
            let is_granted = |line: &str| {
                let urls = line.trim().strip_prefix("- nonResourceURLs: [")?;
                urls.strip_suffix(']').map(|urls| urls.split(", ").any(|url| url == path))
            };
            assert!(rules.lines().filter_map(is_granted).any(|it| it), "{path}");
        }
    }

    #[test]
    fn replacement_is_not_replaced_again() {
        let names = names("GadgetGroup").windlass("/clone/gadgets");
        assert_eq!(names.replace("Gadget /path/to/windlass", true), "GadgetGroup /clone/gadgets");
    }

    #[test]
    fn nothing_of_the_template_is_left_whatever_is_owned() {
        let all = KINDS.map(|kind| kind.plural);
        for bits in 1..1 << all.len() {
            let owns = all.iter().enumerate().filter(|(index, _)| bits & (1 << index) != 0);
            let owns: Vec<&'static str> = owns.map(|(_, kind)| *kind).collect();
            let names = names("Shop").owns(&owns).windlass("/clone");
            for file in FILES {
                let (path, text) = render_file(file, &owns, &names);
                let whole = format!("{path}\n{text}").to_lowercase();
                for left in ["gadget", "group.example", "/path/to", "../template/"] {
                    assert!(!whole.contains(left), "{left} is left in {path}");
                }
                assert!(!text.lines().any(|line| marker(line).is_some()), "{path}");
            }
        }
    }
}
