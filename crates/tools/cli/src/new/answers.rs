//! The properties of the new operator: from flags, from a terminal, or by default.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use super::names::{article, check_group, check_kind, kind_of_package};
use super::owned;

/// The default group. This domain is reserved for examples, so users must replace it one day.
const GROUP: &str = "example.com";

/// The values of the flags.
#[derive(Clone, Debug, Default)]
pub(super) struct Input {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) owns: Option<String>,
}

/// The validated answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) package: String,
    pub(super) group: String,
    pub(super) kind: String,
    /// Plural names of [`owned::KINDS`].
    pub(super) owns: Vec<&'static str>,
}

/// Returns an error that says what is wrong with an answer.
type Check<'a> = &'a dyn Fn(&str) -> Result<()>;

impl Answers {
    /// Asks for missing flags, and asks again if an answer is invalid. An empty line selects the
    /// default.
    ///
    /// # Errors
    /// If a flag is invalid, if the input ends (Ctrl-D), or if the terminal cannot be read or
    /// written.
    pub(super) fn asked(
        package: &str,
        input: Input,
        mut next_line: impl FnMut() -> Option<io::Result<String>>,
        terminal: &mut impl io::Write,
    ) -> Result<Self> {
        // An answer has no flag to name, so only this error names it.
        input.owns.as_deref().map(owned::parse).transpose().context("--owns")?;
        let mut ask = |given: Option<String>, question: &str, default: &str, check: Check<'_>| {
            if let Some(given) = given {
                return check(&given).map(|()| given);
            }
            loop {
                write!(terminal, "{question} [{default}]: ")?;
                terminal.flush()?;
                let Some(line) = next_line().transpose().context("cannot read the answer")? else {
                    // The error gets a line of its own.
                    writeln!(terminal)?;
                    bail!(
                        "the input has ended, and nothing was written: answer the questions, or \
                         use --kind, --group and --owns"
                    );
                };
                let answer = Some(line.trim()).filter(|line| !line.is_empty()).unwrap_or(default);
                match check(answer) {
                    Ok(()) => return Ok(answer.to_owned()),
                    Err(error) => writeln!(terminal, "  {error}")?,
                }
            }
        };
        let kind = ask(input.kind, "Kind", &kind_of_package(package), &check_kind)?;
        let group = ask(input.group, "API group", GROUP, &check_group)?;
        let question = format!("Which objects does the kind {kind} own? ({})", owned::all());
        let check = |list: &str| owned::parse(list).map(drop);
        let owns = ask(input.owns, &question, owned::DEFAULT, &check)?;
        Ok(Self { package: package.to_owned(), group, kind, owns: owned::parse(&owns)? })
    }

    /// Uses the defaults of missing flags, and prints them.
    ///
    /// # Errors
    /// If a flag is invalid.
    pub(super) fn with_defaults(
        package: &str,
        input: Input,
        output: &mut impl io::Write,
    ) -> Result<Self> {
        let is_suggested = input.kind.is_none();
        let mut take = |given: Option<String>, flag: &str, default: String| {
            given.unwrap_or_else(|| {
                // Nobody may read the output.
                drop(writeln!(output, "--{flag} {default}   (default: stdin is not a terminal)"));
                default
            })
        };
        let kind = take(input.kind, "kind", kind_of_package(package));
        let group = take(input.group, "group", GROUP.to_owned());
        let owns = take(input.owns, "owns", owned::DEFAULT.to_owned());
        check_kind(&kind).map_err(|error| {
            let hint = "The name suggests this kind: give another one by --kind";
            if is_suggested { anyhow!("{error}. {hint}") } else { error }
        })?;
        check_group(&group)?;
        let owns = owned::parse(&owns).context("--owns")?;
        Ok(Self { package: package.to_owned(), group, kind, owns })
    }

    /// Returns a summary of the new operator, and what to do next.
    pub(super) fn summary(&self, folder: &Path, is_formatted: bool) -> String {
        let Self { package, group, kind, owns } = self;
        let (article, owns) = (article(kind), owns.join(", "));
        let mut text =
            format!("Made {package}: {article} {kind} ({group}/v1alpha1) owns {owns}.\n\n");
        if !is_formatted {
            text.push_str(
                "rustfmt is missing, so some lines are longer or shorter than they should be:\n  \
                 rustup component add rustfmt && cargo fmt\n\n",
            );
        }
        let _ = write!(
            text,
            "Next:\n  \
             cd {}\n  \
             cargo test    # its tests, on a cluster in their own process; the first build takes \
             minutes\n  \
             cargo run     # the operator on such a cluster; Ctrl-C ends it\n\n\
             README.md says what to change first, and how it gets to a cluster.\n",
            folder.display()
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(input: Input, lines: &[&str]) -> (Result<Answers>, String) {
        let mut lines = lines.iter().map(|line| Ok((*line).to_owned()));
        let mut terminal = Vec::new();
        let answers = Answers::asked("shop-operator", input, || lines.next(), &mut terminal);
        (answers, String::from_utf8(terminal).expect("text"))
    }

    #[test]
    fn empty_lines_take_the_defaults() {
        let answers = asked(Input::default(), &["", "", ""]).0.expect("answers");
        assert_eq!(answers.kind, "Shop");
        assert_eq!(answers.group, "example.com");
        assert_eq!(answers.owns, ["configmaps", "deployments", "services"]);
    }

    #[test]
    fn end_of_the_input_is_an_error() {
        for lines in [&[][..], &["Page"], &["", ""]] {
            let (answers, shown) = asked(Input::default(), lines);
            let error = answers.expect_err("a question is open").to_string();
            assert!(error.starts_with("the input has ended, and nothing was written"), "{error}");
            assert!(shown.ends_with("]: \n"), "{shown:?}");
        }
    }

    #[test]
    fn invalid_answer_is_explained_and_asked_for_again() {
        let lines = ["shop", "BlogPost", "blog.example.org", "pods", "cm"];
        let (answers, shown) = asked(Input::default(), &lines);
        let answers = answers.expect("answers");
        assert_eq!(answers.kind, "BlogPost");
        assert_eq!(answers.group, "blog.example.org");
        assert_eq!(answers.owns, ["configmaps"]);
        assert_eq!(shown.matches("Kind [Shop]: ").count(), 2, "{shown}");
        assert!(shown.contains("not in CamelCase"), "{shown}");
        assert!(shown.contains("\"pods\" is unknown") && !shown.contains("--owns"), "{shown}");
        assert!(shown.contains("Which objects does the kind BlogPost own? "), "{shown}");
    }

    #[test]
    fn flags_are_not_asked_for_and_an_invalid_one_is_an_error() {
        let (group, owns) = (Some("a.b".to_owned()), Some("services".to_owned()));
        let input = Input { kind: Some("Page".to_owned()), group, owns };
        let (answers, shown) = asked(input, &[]);
        assert_eq!(answers.expect("answers").kind, "Page");
        assert_eq!(shown, "");
        let input = Input { kind: Some("page".to_owned()), ..Input::default() };
        asked(input, &["Page"]).0.expect_err("the flag is invalid");
        let input = Input { owns: Some("pods".to_owned()), ..Input::default() };
        let error = asked(input, &["", ""]).0.expect_err("the flag is invalid");
        assert!(format!("{error:#}").starts_with("--owns: the kind \"pods\" is"), "{error:#}");
    }

    #[test]
    fn kind_that_the_name_suggests_leads_to_the_flag_if_it_is_invalid() {
        let refused = |kind: Option<&str>| {
            let input = Input { kind: kind.map(str::to_owned), ..Input::default() };
            let answers = Answers::with_defaults("operator", input, &mut Vec::new());
            answers.expect_err("the kind is taken").to_string()
        };
        let error = refused(None);
        let hint = "The name suggests this kind: give another one by --kind";
        assert!(error.ends_with(&format!("such as CustomOperator. {hint}")), "{error}");
        assert!(refused(Some("Operator")).ends_with("such as CustomOperator"));
    }

    #[test]
    fn defaults_are_shown_where_nobody_can_be_asked() {
        let mut output = Vec::new();
        let input = Input { kind: Some("Page".to_owned()), ..Input::default() };
        let answers = Answers::with_defaults("shop-operator", input, &mut output);
        assert_eq!(answers.expect("answers").group, "example.com");
        let shown = String::from_utf8(output).expect("text");
        assert!(shown.starts_with("--group example.com   (default: stdin"), "{shown}");
        assert_eq!(shown.lines().count(), 2, "{shown}");
    }
}
