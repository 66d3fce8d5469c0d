//! Writes each distinct entry once to the file of this process.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::entry::{Entry, Fact};

/// The file of a process.
#[derive(Debug)]
pub struct Recorder {
    package: Option<String>,
    notes: Mutex<Notes>,
}

#[derive(Debug)]
struct Notes {
    file: File,
    /// What was written, without what makes no difference. It grows with the distinct requests of
    /// the tests of one process.
    seen: BTreeSet<Fact>,
}

impl Recorder {
    /// Opens the file of this process in a folder, which is made if it is missing. `program` begins
    /// the name of the file, and `package` is the folder of the package whose tests run.
    ///
    /// # Errors
    /// If the folder or the file cannot be made.
    pub fn open(folder: &Path, program: &str, package: Option<String>) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let name = format!("{program}-{}.jsonl", std::process::id());
        let file = OpenOptions::new().create(true).append(true).open(folder.join(name))?;
        Ok(Self { package, notes: Mutex::new(Notes { file, seen: BTreeSet::new() }) })
    }

    /// Writes a fact, unless it was written before. Of requests that differ only in what needs no
    /// other right, the first one is enough.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&self, fact: Fact, test: Option<&str>) -> io::Result<()> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.seen.insert(essence(&fact)) {
            return Ok(());
        }
        let entry = Entry::new(fact, test.map(str::to_owned), self.package.clone());
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        // One write, so that a process that is killed leaves whole lines.
        notes.file.write_all(&line)
    }
}

/// What distinguishes a fact from others: not which namespace it was, nor which object, if RBAC
/// cannot limit the verb to a name.
fn essence(fact: &Fact) -> Fact {
    let mut fact = fact.clone();
    if let Fact::Request(request) = &mut fact {
        if let Some(namespace) = &mut request.target.namespace {
            namespace.clear();
        }
        if !request.has_named_verb() {
            request.target.name = None;
        }
    }
    fact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Outcome, Request, Sender, Target, Written};

    fn request(verb: &str, namespace: &str, name: &str, sender: &Sender, status: u16) -> Fact {
        let target = Target {
            group: "apps".to_owned(),
            plural: "deployments".to_owned(),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            subresource: None,
        };
        Fact::Request(Request {
            verb: verb.to_owned(),
            target,
            sender: sender.clone(),
            outcome: Outcome::Answered(status),
            written: Written::default(),
        })
    }

    #[test]
    fn request_is_written_once_for_each_sender_and_outcome() {
        let folder = tempfile::tempdir().expect("a folder");
        let recorder = Recorder::open(folder.path(), "tests", None).expect("a file");
        // The text of a name decides nothing: not even one with quotes in it.
        let one = Sender::Controller("`website` wrote `".to_owned());
        for fact in [
            request("patch", "a", "web", &one, 200),
            request("patch", "b", "web", &one, 200),
            request("patch", "a", "other", &one, 200),
            request("patch", "a", "web", &one, 201),
            request("patch", "a", "web", &Sender::Operator, 200),
            request("create", "a", "web", &one, 201),
            request("create", "a", "other", &one, 201),
        ] {
            recorder.note(fact, Some("a test")).expect("written");
        }
        let entries = crate::read(folder.path()).expect("entries");
        assert_eq!(entries.len(), 5, "{entries:#?}");
        assert_eq!(entries[0].fact, request("patch", "a", "web", &one, 200));
        assert!(entries.iter().all(|entry| entry.test.as_deref() == Some("a test")));
    }
}
