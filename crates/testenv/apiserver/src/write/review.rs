//! Reviews: questions in the form of objects. They are answered and never stored.

mod access;
mod rules;
mod token;

use serde_json::{Map, Value, json};

use crate::access::Access;
use crate::accounts::Claims;
use crate::failure::Failure;
use crate::fields::metadata_mut;
use crate::state::State;
use crate::target::Target;
use crate::user::User;
use crate::webhook::attributes::user_info;

pub(crate) use self::token::open_token;

type Object = Map<String, Value>;

/// The user who sent a review, and the data to answer it with.
pub(crate) struct Asked<'a> {
    pub(crate) access: Access<'a>,
    pub(crate) state: &'a State,
    pub(crate) user: &'a User,
    /// The claims of the token in a `TokenReview`, or why its signature is invalid. `None` if the
    /// token does not name this server as its issuer.
    pub(crate) claims: Option<Result<Claims, String>>,
}

/// Answers a review that was posted to `target`.
pub(crate) fn answer(
    target: &Target,
    mut review: Object,
    asked: &Asked<'_>,
) -> Result<Object, Failure> {
    metadata_mut(&mut review);
    let kind = &target.kind;
    let mut review = match kind.kind.as_str() {
        "TokenReview" => token::answer(review, asked)?,
        "SelfSubjectReview" => self_review(asked),
        "SelfSubjectRulesReview" => rules::answer(&review, asked)?,
        _ => access::answer(target, review, asked)?,
    };
    review.insert("kind".into(), kind.kind.as_str().into());
    review.insert("apiVersion".into(), kind.api_version(&target.version().name).into());
    Ok(review)
}

/// Answers a `SelfSubjectReview`: returns the user who sent it.
fn self_review(asked: &Asked<'_>) -> Object {
    let review = json!({
        "metadata": {"creationTimestamp": asked.state.clock.now()},
        "status": {"userInfo": user_info(asked.user)},
    });
    review.as_object().cloned().unwrap_or_default()
}
