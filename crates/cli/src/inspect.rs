//! `windlass why`, `runs`, `queue`, `informers` and `leader`: what a running operator says about
//! itself.
//!
//! All of them read `/debug/windlass` of a manager. `-o json` prints what it answers.

mod endpoint;
mod story;
mod tables;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};

use endpoint::Endpoint;
use story::Story;
use tables::Report;

/// A question about a running operator.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Inspect {
    /// Why an object was reconciled: its runs, what woke them, what they wrote, and whom that woke
    Why {
        /// The kind or the plural, as in Website or websites
        kind: String,
        /// The name
        name: String,
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
        asked: Asked,
    },
    /// The last runs of all controllers, or of one
    Runs {
        #[command(flatten)]
        of: OfController,
        #[command(flatten)]
        asked: Asked,
    },
    /// The keys that run, wait for a worker, or wait for their time
    Queue {
        #[command(flatten)]
        of: OfController,
        #[command(flatten)]
        asked: Asked,
    },
    /// The caches: how far they are, how old, how large
    Informers {
        #[command(flatten)]
        asked: Asked,
    },
    /// Who leads
    Leader {
        #[command(flatten)]
        asked: Asked,
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

/// Whom to ask, and how to print the answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    endpoint: Endpoint,
    /// How the answer is printed
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
    /// Asks, and returns what to print.
    ///
    /// # Errors
    /// If nobody answers, or not to this question. The error says what to do.
    pub(crate) fn answer(&self) -> Result<String> {
        match self {
            Self::Why { kind, name, namespace, cluster_scoped, limit, asked } => {
                let namespace = namespace.as_deref().unwrap_or("default");
                let key =
                    if *cluster_scoped { name.clone() } else { format!("{namespace}/{name}") };
                let limit = limit.to_string();
                let query = [("kind", kind.as_str()), ("key", &key), ("limit", &limit)];
                let json = asked.endpoint.get("/debug/windlass/story", &query);
                let standby = asked.standby();
                match (json, standby) {
                    (Ok(json), standby) => {
                        // Not in the answer, which another program may read.
                        if let Some(note) = standby {
                            eprintln!("note: {note}");
                        }
                        asked.print(json, |story: Story| story.to_string())
                    }
                    (Err(error), Some(note)) => Err(anyhow!("{error:#}\n{note}")),
                    (Err(error), None) => Err(error),
                }
            }
            Self::Runs { of, asked } => asked.report(Some(of), Report::runs),
            Self::Queue { of, asked } => asked.report(Some(of), Report::queue),
            Self::Informers { asked } => asked.report(None, Report::informers),
            Self::Leader { asked } => asked.report(None, Report::leader),
        }
    }
}

impl Asked {
    fn report(&self, of: Option<&OfController>, text: fn(&Report) -> String) -> Result<String> {
        let limit = of.map_or(0, |of| of.limit).to_string();
        let mut query = vec![("limit", limit.as_str())];
        query.extend(of.and_then(|of| of.controller.as_deref()).map(|name| ("controller", name)));
        let json = self.endpoint.get("/debug/windlass", &query)?;
        self.print(json, |report: Report| text(&report))
    }

    /// Whom to ask instead, if the replica does not lead. `None` also if it does not say.
    fn standby(&self) -> Option<String> {
        let json = self.endpoint.get("/debug/windlass", &[("limit", "0")]).ok()?;
        let report: Report = serde_json::from_str(&json).ok()?;
        report.standby()
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
        Ok(text(answer))
    }
}
