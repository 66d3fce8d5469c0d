//! The answers to what a run has written, by object. They are laid over the caches that it reads.
//!
//! Only the last answer about each object is held, so a run that writes one object again and again
//! holds one. Their number is bounded by the objects that one run writes, and they are dropped when
//! the run ends. An answer may be the object in another form, such as its scale or its metadata.
//! Some caches cannot use such an answer, so it does not replace one in another form.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use windlass_informer::Written;

use crate::writes::write::{TrackedWrite, WrittenObject};

/// The answers to the writes of a run.
#[derive(Default)]
pub(crate) struct Answers {
    /// Numbered in the order in which they came. A number is used once.
    by_number: BTreeMap<u64, Arc<Answered>>,
    /// Those about each object: of each form one, or its deletion alone.
    numbers: HashMap<WrittenObject, Vec<u64>, RandomState>,
    last: u64,
}

/// A write, and the body of the answer to it.
pub(crate) struct Answered {
    pub(crate) tracked: TrackedWrite,
    pub(crate) answer: Bytes,
}

impl Answers {
    /// Adds an answer, in the place of those about the same object. One that was made before what
    /// is held is dropped.
    pub(crate) fn put(&mut self, tracked: TrackedWrite, answer: Bytes) {
        let written = &tracked.written;
        let numbers = self.numbers.entry(tracked.write.object()).or_default();
        let held = |number: &u64| &self.by_number[number].tracked.written;
        if numbers.iter().map(held).any(|held| is_outdated(written, held)) {
            return;
        }
        let is_replaced = |number: &mut u64| !is_other_form(held(number), written);
        let replaced: Vec<u64> = numbers.extract_if(.., is_replaced).collect();
        self.last += 1;
        numbers.push(self.last);
        for number in replaced {
            self.by_number.remove(&number);
        }
        self.by_number.insert(self.last, Arc::new(Answered { tracked, answer }));
    }

    /// The answers after a number, and the last number.
    pub(crate) fn after(&self, number: u64) -> (Vec<Arc<Answered>>, u64) {
        let answers = self.by_number.range(number + 1..).map(|(_, answered)| Arc::clone(answered));
        (answers.collect(), self.last)
    }
}

/// Whether a write was made before one that is held, although its answer came later: a run may have
/// several requests under way. Versions are of the whole cluster, so they also compare objects that
/// had the same key one after the other.
fn is_outdated(written: &Written, held: &Written) -> bool {
    match (written, held) {
        (Written::Object(new), Written::Object(old)) => {
            new.resource_version() < old.resource_version() && !is_other_form(written, held)
        }
        (Written::Object(new), Written::Gone { uid, .. }) => new.uid() == uid,
        // There is another object of this name, which was created later.
        (Written::Gone { uid, .. }, Written::Object(old)) => old.uid() != uid,
        (Written::Gone { .. }, Written::Gone { .. }) => false,
    }
}

/// Whether both are of one object, in different forms.
fn is_other_form(written: &Written, other: &Written) -> bool {
    match (written, other) {
        (Written::Object(one), Written::Object(two)) => {
            one.uid() == two.uid()
                && (one.kind() != two.kind() || one.api_version() != two.api_version())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;
    use windlass_informer::client::RequestTarget;

    use super::*;
    use crate::writes::authorship::BeforeWrite;
    use crate::writes::write::Verb;

    fn put(answers: &mut Answers, verb: Verb, answer: &serde_json::Value) {
        let target = RequestTarget::of("/api/v1/namespaces/shop/pods/web").expect("a target");
        let answer = Bytes::from(answer.to_string());
        let tracked =
            TrackedWrite::of(verb, target, &BeforeWrite::default(), StatusCode::CREATED, &answer);
        answers.put(tracked.expect("a write"), answer);
    }

    fn object(uid: &str, version: u32) -> serde_json::Value {
        json!({"metadata": {
            "name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version.to_string(),
        }})
    }

    fn gone(uid: &str) -> serde_json::Value {
        json!({"kind": "Status", "details": {"uid": uid}})
    }

    fn left(answers: &Answers) -> Vec<String> {
        let (answers, _) = answers.after(0);
        answers.iter().map(|answered| answered.tracked.write.to_string()).collect()
    }

    #[test]
    fn one_object_has_one_answer_however_often_it_is_written() {
        let mut answers = Answers::default();
        for version in 1..=1_000 {
            put(&mut answers, Verb::Patch, &object("a", version));
        }
        // A write that changes nothing has the same version.
        put(&mut answers, Verb::Patch, &object("a", 1_000));
        assert_eq!(left(&answers), ["patch pods shop/web at 1000"]);
        assert_eq!(answers.after(1_000).0.len(), 1);
        assert_eq!(answers.after(1_001).0.len(), 0, "it was taken");
    }

    #[test]
    fn answer_in_another_form_leaves_the_object_as_it_is_known() {
        let scale = |version| {
            let mut scale = object("a", version);
            scale["kind"] = "Scale".into();
            scale
        };
        let mut answers = Answers::default();
        put(&mut answers, Verb::Create, &object("a", 1));
        put(&mut answers, Verb::Patch, &scale(2));
        put(&mut answers, Verb::Update, &scale(3));
        assert_eq!(left(&answers), ["create pods shop/web at 1", "update pods shop/web at 3"]);
        put(&mut answers, Verb::Delete, &gone("a"));
        assert_eq!(left(&answers), ["delete pods shop/web"]);
    }

    #[test]
    fn answers_that_come_in_another_order_do_not_bring_back_what_was_before() {
        let mut answers = Answers::default();
        put(&mut answers, Verb::Patch, &object("a", 5));
        put(&mut answers, Verb::Patch, &object("a", 4));
        assert_eq!(left(&answers), ["patch pods shop/web at 5"]);
        put(&mut answers, Verb::Delete, &gone("a"));
        put(&mut answers, Verb::Patch, &object("a", 6));
        assert_eq!(left(&answers), ["delete pods shop/web"]);
        put(&mut answers, Verb::Create, &object("b", 7));
        put(&mut answers, Verb::Delete, &gone("a"));
        assert_eq!(left(&answers), ["create pods shop/web at 7"]);
    }
}
