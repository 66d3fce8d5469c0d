//! Records which rights a program uses, in files from which `cargo windlass rbac` derives Roles.
//!
//! The variable [`Evidence::VARIABLE`] names their folder. Without it there is no [`Evidence`], and
//! nothing here runs. A [`ClientStack`](super::client::ClientStack) that has one records each
//! request before it is sent, so a request that the server refuses is recorded, too. A request may
//! carry more information in an extension, [`SentBy`].
//!
//! Each process has a file of its own, with one JSON object in a line, and writes each distinct
//! entry once. Clients without evidence, such as those that tests themselves use, record nothing.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use http::{Request, StatusCode};
use serde::Serialize;

use crate::lock::lock;
use crate::resource::Resource;
use crate::transport::client::request_info::{RequestInfo, RequestTarget};

/// A right as RBAC has it: a verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Right {
    /// As in `list`.
    pub verb: &'static str,
    /// The group; empty for the core group.
    pub group: String,
    /// As in `deployments`.
    pub plural: String,
    /// As in `status`.
    pub subresource: Option<String>,
    /// Where it is needed.
    pub place: RightScope,
    /// The object; `None` for all, and for verbs that RBAC cannot limit to a name.
    pub name: Option<String>,
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RightScope {
    /// In the whole cluster.
    Cluster,
    /// In the namespaces that the program watches, which may be all of them.
    Watched,
    /// In the namespace that the program runs in.
    Own,
}

/// A right, and what it is needed for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Need {
    /// The right.
    #[serde(flatten)]
    pub right: Right,
    /// What needs it, as in "controller website watches deployments.apps".
    pub reason: String,
    /// The condition under which it is needed, as `cargo windlass rbac` knows it; `None` if it
    /// always is.
    pub when: Option<String>,
    /// Whether it comes from a request that was sent. Then the name in the right is an example:
    /// other objects may need it as well. Otherwise it is declared, and needed for that object
    /// alone.
    pub observed: bool,
}

/// Who sends a request, and which rights go with it: an extension of a request. Set it only if
/// [`Evidence::is_on`].
#[derive(Clone, Debug)]
pub struct SentBy {
    /// The name of a controller.
    pub controller: Arc<str>,
    /// Rights that the same code may need in another case, each with the reason.
    pub also: Vec<(Right, &'static str)>,
}

/// Records which rights a part of a program uses. See the [variable](Self::VARIABLE).
#[derive(Clone, Debug)]
pub struct Evidence {
    test: Option<Arc<str>>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    need: &'a Need,
    test: Option<&'a str>,
    /// The folder of the package whose test this is.
    package: Option<&'a str>,
}

/// The file of this process.
struct Notes {
    file: File,
    package: Option<String>,
    /// The entries that were written: the right, and the reason up to the quoted request.
    seen: BTreeSet<(Right, String)>,
}

static NOTES: OnceLock<Option<Mutex<Notes>>> = OnceLock::new();

impl Evidence {
    /// The environment variable that names the folder.
    pub const VARIABLE: &str = "WINDLASS_RBAC_EVIDENCE";

    /// `None` if the variable is not set. Call it in the thread of the test: its name is recorded.
    pub fn from_environment() -> Option<Self> {
        Self::is_on().then(|| Self { test: test_name().map(Into::into) })
    }

    /// Whether the variable is set, and the folder can be written.
    pub fn is_on() -> bool {
        notes().is_some()
    }

    /// Records a right that the program needs.
    pub fn note(&self, need: &Need) {
        if let Some(notes) = notes() {
            let written = lock(notes).write(need, self);
            if let Err(error) = written {
                tracing::error!("the evidence for `cargo windlass rbac` is lost: {error}");
            }
        }
    }

    /// Records the right that a request needs, and those that go with it. Returns the need, which
    /// the answer may change.
    pub(crate) fn note_request<B>(&self, info: &RequestInfo, request: &Request<B>) -> Option<Need> {
        let target = info.target.as_ref()?;
        let sent_by = request.extensions().get::<SentBy>();
        let sender = match sent_by {
            Some(SentBy { controller, .. }) => format!("controller {controller}"),
            None => "the operator".to_owned(),
        };
        let did = match info.verb {
            "get" | "list" | "watch" => "read",
            "other" => return None,
            _ => "wrote",
        };
        let reason = format!("{sender} {did} `{info}`");
        for (right, why) in sent_by.iter().flat_map(|sent_by| &sent_by.also) {
            let reason = format!("{reason}, {why}");
            self.note(&Need { right: right.clone(), reason, when: None, observed: true });
        }
        let right = Right::of_target(info.verb, target);
        let need = Need { right, reason, when: None, observed: true };
        self.note(&need);
        Some(need)
    }

    /// Records what the answer to a request tells: an apply that created the object needs `create`.
    pub(crate) fn note_answer(&self, mut need: Need, status: StatusCode) {
        if need.right.verb == "patch" && status == StatusCode::CREATED {
            need.right.verb = "create";
            need.right.name = None;
            need.reason.push_str(", which created the object");
            self.note(&need);
        }
    }
}

impl Right {
    /// A verb on all objects of a resource, in the namespaces that are watched.
    pub fn on(verb: &'static str, resource: &Resource) -> Self {
        Self {
            verb,
            group: resource.group().to_owned(),
            plural: resource.plural().to_owned(),
            subresource: None,
            place: if resource.is_namespaced() { RightScope::Watched } else { RightScope::Cluster },
            name: None,
        }
    }

    /// A verb on the object of a request, or on all objects if it has none, or if RBAC cannot limit
    /// the verb to a name.
    pub fn of_target(verb: &'static str, target: &RequestTarget) -> Self {
        let has_name = matches!(verb, "get" | "update" | "patch" | "delete");
        Self {
            verb,
            group: target.group.clone(),
            plural: target.plural.clone(),
            subresource: target.subresource.clone(),
            place: if target.namespace.is_some() {
                RightScope::Watched
            } else {
                RightScope::Cluster
            },
            name: target.name.clone().filter(|_| has_name),
        }
    }
}

impl Notes {
    fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let name = format!("{}-{}.jsonl", program(), std::process::id());
        let file = OpenOptions::new().create(true).append(true).open(folder.join(name))?;
        let package = std::env::var("CARGO_MANIFEST_DIR").ok();
        Ok(Self { file, package, seen: BTreeSet::new() })
    }

    fn write(&mut self, need: &Need, evidence: &Evidence) -> io::Result<()> {
        // Of requests that need the same right, the first of each sender is enough.
        let sender = need.reason.split('`').next().unwrap_or_default().to_owned();
        if !self.seen.insert((need.right.clone(), sender)) {
            return Ok(());
        }
        let test = evidence.test.as_deref();
        let package = self.package.as_deref();
        let mut line = serde_json::to_vec(&Line { need, test, package })?;
        line.push(b'\n');
        // One write, so that a process that is killed leaves whole lines.
        self.file.write_all(&line)
    }
}

fn notes() -> Option<&'static Mutex<Notes>> {
    let open = || {
        let folder = std::env::var_os(Evidence::VARIABLE).filter(|folder| !folder.is_empty())?;
        match Notes::open(Path::new(&folder)) {
            Ok(notes) => Some(Mutex::new(notes)),
            Err(error) => {
                let folder = folder.display();
                tracing::error!("{} is {folder}, but: {error}", Evidence::VARIABLE);
                None
            }
        }
    };
    NOTES.get_or_init(open).as_ref()
}

/// The test that runs in this thread, with its program: `reconcile website_becomes_ready`.
fn test_name() -> Option<String> {
    let thread = std::thread::current();
    let name = thread.name()?;
    match name {
        "main" => None,
        name if name.starts_with("tokio-") => None,
        name => Some(format!("{} {name}", program())),
    }
}

/// The name of this program, without the hash that cargo adds to that of a test.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match name.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 => name.to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_noted_without_the_variable() {
        assert!(std::env::var_os(Evidence::VARIABLE).is_none(), "not in an ordinary test run");
        assert!(Evidence::from_environment().is_none() && !Evidence::is_on());
    }

    #[test]
    fn entry_is_written_once_with_its_test() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut notes = Notes::open(folder.path()).expect("a file");
        let evidence = Evidence { test: test_name().map(Into::into) };
        let target = RequestTarget::of("/apis/apps/v1/namespaces/a/deployments/web").expect("one");
        for namespace in ["a", "b"] {
            let right = Right::of_target("patch", &target);
            let reason =
                format!("controller website wrote `patch deployments.apps {namespace}/web`");
            let need = Need { right, reason, when: None, observed: true };
            notes.write(&need, &evidence).expect("written");
        }
        let files: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
        let path = files[0].as_ref().expect("a file").path();
        let text = fs::read_to_string(path).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(line["verb"], "patch");
        assert_eq!(line["plural"], "deployments");
        assert_eq!((&line["place"], &line["name"]), (&"watched".into(), &"web".into()));
        assert_eq!(line["observed"], true);
        let name = line["test"].as_str().expect("a test");
        assert!(name.ends_with("entry_is_written_once_with_its_test"), "{name}");
    }
}
