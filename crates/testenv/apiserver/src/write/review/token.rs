//! `TokenReview`: returns the user of a token.

use serde_json::{Value, json};

use super::{Object, ReviewContext, user_info};
use crate::accounts::{self, Authenticated, Claims, ISSUER, Signer};
use crate::failure::Failure;

/// The error for an unknown token.
const INVALID: &str = "invalid bearer token";

pub(super) fn answer(mut review: Object, context: &ReviewContext<'_>) -> Result<Object, Failure> {
    let spec = review.get("spec").cloned().unwrap_or_default();
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = audiences.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let status = match review_token(token, audiences, context) {
        Ok(found) => json!({
            "authenticated": true,
            "user": user_info(&found.user),
            "audiences": found.audiences,
        }),
        Err(why) => json!({"user": {}, "error": why}),
    };
    review.insert("status".into(), status);
    Ok(review)
}

fn review_token(
    token: &str,
    audiences: Vec<String>,
    context: &ReviewContext<'_>,
) -> Result<Authenticated, String> {
    let auth = context.access.auth;
    match &context.claims {
        Some(claims) if !auth.accepts_every_request() || claims.is_ok() => {
            let claims = claims.as_ref().map_err(Clone::clone);
            let found = claims.and_then(|claims| context.state.account_of(claims, &audiences));
            found.map_err(|why| format!("[{INVALID}, {why}]"))
        }
        _ => {
            // The server's own tokens are valid for every audience.
            let user = auth.review(token).ok_or_else(|| INVALID.to_owned())?;
            Ok(Authenticated { user, audiences })
        }
    }
}

/// Verifies the token of a review, if it names this server as its issuer.
pub(crate) fn open_token(review: &Object, signer: &Signer) -> Option<Result<Claims, String>> {
    let token = review.get("spec")?.get("token")?.as_str()?;
    accounts::claims_our_issuer(token).then(|| signer.open(token))
}
