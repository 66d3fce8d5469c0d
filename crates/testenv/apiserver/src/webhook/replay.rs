//! Connects writes, which run without waiting, with webhooks, which take time.
//!
//! An attempt at a write asks its questions with [`State::ask`](crate::state::State::ask). A
//! question without an answer is recorded, and the attempt ends with an error that no client sees.
//! Then the webhook is called without the lock ([`Replay::answer`]), and the write is attempted
//! again. All attempts draw the same names and uids and read the same time, so that they ask the
//! same questions.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::backend::Webhooks;
use super::caller::Caller;
use super::convert;
use super::dispatch::{self, AdmissionOutcome, Write};
use crate::clock::WallClock;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::kinds::Registered;
use crate::user::User;

/// The maximum number of attempts at a write whose object keeps changing. The real server repeats a
/// patch five times; here every phase of a write needs an attempt of its own.
const ATTEMPTS_MAX: usize = 30;

/// A question that only a webhook can answer.
#[derive(Clone)]
pub(crate) enum Question {
    Mutate(Write),
    Validate(Write),
    /// Converts an object, which includes its type, to another version.
    Convert {
        of: Arc<Registered>,
        to: String,
        object: Value,
    },
}

/// Objects may be secrets: only the numbers of answers and questions are shown.
impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({} answers, {} questions)", self.answers.len(), self.waiting.len())
    }
}

/// Questions are equal if a webhook would be asked the same.
impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mutate(a), Self::Mutate(b)) | (Self::Validate(a), Self::Validate(b)) => {
                a.attributes == b.attributes
            }
            (
                Self::Convert { of, to, object },
                Self::Convert { of: other_of, to: other_to, object: other_object },
            ) => of.id == other_of.id && to == other_to && object == other_object,
            _ => false,
        }
    }
}

/// One request with its questions and answers, over all attempts.
pub(crate) struct Replay {
    pub(crate) user: User,
    /// The options of a create or an update, without their type.
    pub(crate) options: Value,
    /// Set while the write runs as a part of another write, whose webhooks have been called
    /// already.
    pub(crate) is_admitted: bool,
    pub(crate) ids: Ids,
    review_ids: Ids,
    pub(crate) clock: WallClock,
    answers: Vec<(Question, Result<Option<Value>, Failure>)>,
    waiting: Vec<Question>,
    attempts: usize,
    warnings: Vec<String>,
}

impl Replay {
    /// Prepares the first attempt of a request.
    pub(crate) fn new(ids: &mut Ids, clock: &WallClock, user: User, options: Value) -> Self {
        Self {
            user,
            options,
            is_admitted: false,
            ids: ids.fork(),
            review_ids: ids.fork(),
            clock: WallClock::fixed(clock.timestamp()),
            answers: Vec::new(),
            waiting: Vec::new(),
            attempts: 0,
            warnings: Vec::new(),
        }
    }

    /// Returns the answer to a question if it is known; otherwise an error that ends this attempt.
    pub(crate) fn ask(&mut self, question: Question) -> Result<Option<Value>, Failure> {
        if let Some((_, answer)) = self.answers.iter().find(|(known, _)| *known == question) {
            return answer.clone();
        }
        self.waiting.push(question);
        Err(Failure::unanswered())
    }

    /// Returns whether the attempt ended because of a question.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Calls the webhooks for the open questions of the last attempt.
    ///
    /// # Errors
    /// A 409 after too many attempts.
    pub(crate) async fn answer(&mut self, webhooks: &Webhooks) -> Result<(), Failure> {
        self.attempts += 1;
        if self.attempts > ATTEMPTS_MAX {
            return Err(Failure::changes_too_often());
        }
        for question in std::mem::take(&mut self.waiting) {
            let caller = Caller { webhooks, ids: &mut self.review_ids };
            let AdmissionOutcome { result, warnings } = match question.clone() {
                Question::Mutate(write) => dispatch::mutate(write, caller).await,
                Question::Validate(write) => dispatch::validate(write, caller).await,
                Question::Convert { of, to, object } => {
                    let mut caller = caller;
                    let converted = convert::object(&of, &to, object, &mut caller).await;
                    let result = converted.map(Some).map_err(Failure::internal);
                    AdmissionOutcome { result, warnings: Vec::new() }
                }
            };
            self.warnings.extend(warnings);
            self.answers.push((question, result));
        }
        Ok(())
    }

    /// Returns the warnings of the webhooks.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the caller for conversions of the answer.
    pub(crate) fn caller<'a>(&'a mut self, webhooks: &'a Webhooks) -> Caller<'a> {
        Caller { webhooks, ids: &mut self.review_ids }
    }
}
