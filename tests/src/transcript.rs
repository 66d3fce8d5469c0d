//! The requests and answers of a case, step by step, in comparable form.
//!
//! Everything passes through the [`Normaliser`] when it happens, so that numbers follow the order
//! of the script. A step is a small JSON object; only this module decides which fields it has.

use http::header::HeaderName;
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::normalise::Normaliser;
use crate::request::Request;

/// The steps so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    normaliser: Normaliser,
    steps: Vec<Value>,
}

/// Which part of an answer's body a step shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown<'a> {
    /// All of it.
    Whole,
    /// The values at these JSON pointers.
    Parts(&'a [&'a str]),
    /// Nothing.
    Nothing,
}

impl Transcript {
    /// Records a request and its answer.
    pub(crate) fn exchange(&mut self, request: &Request, answer: &Answer, shown: Shown<'_>) {
        let mut step = self.asked(request);
        self.answered(&mut step, answer);
        let body = match shown {
            Shown::Whole => answer.body.clone(),
            Shown::Parts(pointers) => pointers
                .iter()
                .map(|pointer| ((*pointer).to_owned(), answer.at(pointer)))
                .collect::<Map<_, _>>()
                .into(),
            Shown::Nothing => Value::Null,
        };
        if !body.is_null() {
            step.insert("body".to_owned(), self.normaliser.value(&body));
        }
        self.push(step);
    }

    /// Records a request that was repeated until its answer met a condition, or until the time was
    /// up.
    pub(crate) fn waited(
        &mut self,
        request: &Request,
        condition: &str,
        answer: &Answer,
        shown: Shown<'_>,
        fulfilled: bool,
    ) {
        self.exchange(request, answer, shown);
        if let Some(Value::Object(step)) = self.steps.last_mut() {
            step.insert("until".to_owned(), json!(condition));
            if !fulfilled {
                step.insert("in vain".to_owned(), json!(true));
            }
        }
    }

    /// Records an object that is only a precondition: one line, without the answer.
    pub(crate) fn given(&mut self, request: &Request, answer: &Answer) {
        // The whole answer is still normalised, so that its uid and version get their numbers.
        let body = self.normaliser.value(&answer.body);
        let line = self.normaliser.text(&format!("{} {}", request.path, answer.name()));
        self.push(Map::from_iter([("given".to_owned(), json!(line))]));
        if !answer.is_success() {
            self.note("not given", &body);
        }
    }

    /// Records the opening of a watch.
    pub(crate) fn watch_opened(&mut self, watch: usize, request: &Request, answer: &Answer) {
        let mut step = self.asked(request);
        step.insert("watch".to_owned(), json!(watch));
        self.answered(&mut step, answer);
        if !answer.is_success() {
            step.insert("body".to_owned(), self.normaliser.value(&answer.body));
        }
        self.push(step);
    }

    /// Records the outcome of reading a watch: an event, or a text for its end or silence.
    pub(crate) fn watched(&mut self, watch: usize, event: &Value) {
        let event = self.normaliser.event(event);
        self.push(Map::from_iter([
            ("watch".to_owned(), json!(watch)),
            ("event".to_owned(), event),
        ]));
    }

    /// Records a value that the case computed.
    pub(crate) fn note(&mut self, label: &str, value: &Value) {
        let value = self.normaliser.value(value);
        self.push(Map::from_iter([("note".to_owned(), json!(label)), ("value".to_owned(), value)]));
    }

    /// Returns all steps.
    pub(crate) fn into_steps(self) -> Vec<Value> {
        self.steps
    }

    fn asked(&mut self, request: &Request) -> Map<String, Value> {
        let mut step = Map::new();
        step.insert("request".to_owned(), json!(self.normaliser.text(&request.line())));
        for (name, value) in request.extras() {
            step.insert(name.to_owned(), self.normaliser.value(&value));
        }
        step
    }

    fn answered(&mut self, step: &mut Map<String, Value>, answer: &Answer) {
        let headers = |name: HeaderName| {
            let values = answer.headers.get_all(name).iter();
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let content_type = headers(http::header::CONTENT_TYPE).collect::<Vec<_>>().join(", ");
        let line = format!("{} {content_type}", answer.status);
        step.insert("answer".to_owned(), json!(line.trim_end()));
        for name in [http::header::RETRY_AFTER, http::header::WARNING, http::header::ALLOW] {
            let mut values: Vec<_> =
                headers(name.clone()).map(|value| self.normaliser.text(&value)).collect();
            // The real server visits the fields of an object in random order, and warns in that
            // order.
            values.sort_unstable();
            if !values.is_empty() {
                step.insert(name.to_string(), json!(values));
            }
        }
    }

    fn push(&mut self, step: Map<String, Value>) {
        self.steps.push(Value::Object(step));
    }
}
