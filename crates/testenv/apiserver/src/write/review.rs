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
pub(crate) struct ReviewContext<'a> {
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
    context: &ReviewContext<'_>,
) -> Result<Object, Failure> {
    metadata_mut(&mut review);
    let kind = &target.kind;
    let mut review = match kind.kind.as_str() {
        "TokenReview" => token::answer(review, context)?,
        "SelfSubjectReview" => self_review(context),
        "SelfSubjectRulesReview" => rules::answer(&review, context)?,
        _ => access::answer(target, review, context)?,
    };
    review.insert("kind".into(), kind.kind.as_str().into());
    review.insert("apiVersion".into(), kind.api_version(&target.version().name).into());
    Ok(review)
}

/// Answers a `SelfSubjectReview`: returns the user who sent it.
fn self_review(context: &ReviewContext<'_>) -> Object {
    let review = json!({
        "metadata": {"creationTimestamp": context.state.clock.now()},
        "status": {"userInfo": user_info(context.user)},
    });
    review.as_object().cloned().unwrap_or_default()
}
