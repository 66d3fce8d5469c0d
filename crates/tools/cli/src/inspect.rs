//! `windlass why`, `runs`, `queue`, `informers` and `leader`: query a running operator.
//!
//! All of them read `/debug/windlass` of a manager. `-o json` prints its answer unchanged.

mod endpoint;
mod object;
mod story;
mod tables;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};

use endpoint::Endpoint;
use object::Object;
use story::Story;
use tables::Report;

/// The path that `runs`, `queue`, `informers` and `leader` read.
const REPORT: &str = "/debug/windlass";

/// The path that `why` reads.
const STORY: &str = "/debug/windlass/story";

/// All paths that are read; an account needs `get` for them.
#[cfg(test)]
pub(crate) const PATHS: [&str; 2] = [REPORT, STORY];

/// A question about a running operator.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Inspect {
    /// Why an object was reconciled: its runs, what woke them, what they wrote, and which runs
    /// that started
    Why {
        /// The kind, the plural or the short name, as in Website, websites or deploy. KIND/NAME
        /// names the object, too
        kind: String,
        /// The name, or NAMESPACE/NAME
        name: Option<String>,
        /// The namespace [default: default]
        #[arg(long, short)]
        namespace: Option<String>,
        /// The object has no namespace
        #[arg(long, conflicts_with = "namespace")]
        cluster_scoped: bool,
        /// At most this many runs
        #[arg(long, default_value_t = 30)]
        limit: usize,
        #[command(flatten)]
        options: QueryOptions,
    },
    /// The last runs of all controllers, or of one
    Runs {
        #[command(flatten)]
        of: OfController,
        #[command(flatten)]
        options: QueryOptions,
    },
    /// The keys that run, wait for a worker, or wait for their time
    Queue {
        #[command(flatten)]
        of: OfController,
        #[command(flatten)]
        options: QueryOptions,
    },
    /// The caches: how far they are, how old, how large
    Informers {
        #[command(flatten)]
        options: QueryOptions,
    },
    /// The leader, and its Lease
    Leader {
        #[command(flatten)]
        options: QueryOptions,
    },
}

/// Which controller, and how much of it.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfController {
    /// Only this controller
    #[arg(long, short)]
    controller: Option<String>,
    /// At most this many for each controller
    #[arg(long, default_value_t = 30)]
    limit: usize,
}

/// The endpoint, and the output format.
#[derive(Clone, Debug, Args)]
pub(crate) struct QueryOptions {
    #[command(flatten)]
    endpoint: Endpoint,
    /// How the answer is printed; json is the whole answer of the operator
    ///
    /// For `runs`, `queue`, `informers` and `leader` this is the same report with all its parts.
    /// `runs` and `queue` apply --limit and --controller to it, `informers` and `leader` leave out
    /// its runs and keys.
    #[arg(long, short, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// What the operator answers.
    Json,
}

impl Inspect {
    /// Queries the operator, and returns what to print.
    ///
    /// # Errors
    /// If the operator cannot be reached, or refuses the request. The error says what to do.
    pub(crate) fn answer(&self) -> Result<String> {
        match self {
            Self::Why { kind, name, namespace, cluster_scoped, limit, options } => {
                let (name, namespace) = (name.as_deref(), namespace.as_deref());
                let Object { kind, key } = Object::new(kind, name, namespace, *cluster_scoped)?;
                let limit = limit.to_string();
                let query = [("kind", kind.as_str()), ("key", &key), ("limit", &limit)];
                let answer = options.endpoint.ask(STORY, &query)?;
                match (answer.text(), options.standby()) {
                    (Ok(json), standby) => {
                        // On the standard error: another program may read the standard output.
                        if let Some(note) = standby {
                            eprintln!("note: {note}");
                        }
                        options.print(json, |story: Story| story.to_string())
                    }
                    (Err(error), Some(note)) => Err(anyhow!("{error:#}\n{note}")),
                    (Err(error), None) => Err(error),
                }
            }
            Self::Runs { of, options } => options.report(Some(of), Report::runs),
            Self::Queue { of, options } => options.report(Some(of), Report::queue),
            Self::Informers { options } => options.report(None, Report::informers),
            Self::Leader { options } => options.report(None, Report::leader),
        }
    }
}

impl QueryOptions {
    fn report(&self, of: Option<&OfController>, text: fn(&Report) -> String) -> Result<String> {
        let limit = of.map_or(0, |of| of.limit).to_string();
        let mut query = vec![("limit", limit.as_str())];
        query.extend(of.and_then(|of| of.controller.as_deref()).map(|name| ("controller", name)));
        let json = self.endpoint.ask(REPORT, &query)?.text()?;
        // A standby has no runs and no keys, so the note says why the table is empty.
        if of.is_some()
            && let Some(note) = standby_note(&json)
        {
            eprintln!("note: {note}");
        }
        self.print(json, |report: Report| text(&report))
    }

    /// Returns which replica to query instead, if this one does not lead. `None` also if there is
    /// no answer.
    fn standby(&self) -> Option<String> {
        let json = self.endpoint.ask(REPORT, &[("limit", "0")]).ok()?.text().ok()?;
        standby_note(&json)
    }

    fn print<T: serde::de::DeserializeOwned>(
        &self,
        json: String,
        text: impl FnOnce(T) -> String,
    ) -> Result<String> {
        if self.output == Output::Json {
            return Ok(json);
        }
        let answer = serde_json::from_str(&json).context(
            "the answer cannot be read: is the operator of another version of Windlass?",
        )?;
        Ok(printable(&text(answer)))
    }
}

/// Returns which replica to query instead of the one with this report.
fn standby_note(report: &str) -> Option<String> {
    let report: Report = serde_json::from_str(report).ok()?;
    report.standby().map(|note| printable(&note))
}

/// Replaces control characters other than line feeds and tabs. An operator's texts may come from
/// others, such as the error of a server, and a terminal would execute escape sequences.
fn printable(text: &str) -> String {
    let is_obeyed = |one: char| one.is_control() && !matches!(one, '\n' | '\t');
    text.replace(is_obeyed, "\u{fffd}")
}
