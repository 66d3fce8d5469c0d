//! Reviews: objects that the API server answers when they are created.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use tokio::time::timeout;
use windlass_informer::client::safe_message;
use windlass_serve::LogLimit;

/// How long a review may take. As in controller-runtime.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer: the review, and a user with many groups.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// One kind of reviews.
pub(super) struct Reviews {
    client: kube::Client,
    group: &'static str,
    plural: &'static str,
    /// The failure that was logged last, until a review succeeds.
    logged: Mutex<Option<String>>,
    log: LogLimit,
}

/// Why a review failed.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error(
        "the API server does not let this program create {plural} ({message}): bind the \
         ClusterRole system:auth-delegator to its service account, or a ClusterRole with these \
         rules: {{apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}} \
         and {{apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: \
         [create]}}"
    )]
    Forbidden { plural: &'static str, message: String },
    #[error("{plural} could not be created at the API server ({message}): check the connection")]
    Failed { plural: &'static str, message: String },
    #[error(
        "the API server did not answer within {} s when {plural} were created: check the \
         connection", REVIEW_TIMEOUT.as_secs()
    )]
    TookTooLong { plural: &'static str },
    /// The answer is not shown: it repeats the token.
    #[error("what answers {plural} is not an API server: check the address and proxies")]
    Unreadable { plural: &'static str },
}

/// A review failed. It was logged.
#[derive(Clone, Copy)]
pub(super) struct Unavailable;

impl ReviewError {
    /// For the [`LogLimit`].
    fn kind(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "forbidden",
            Self::Failed { .. } => "failed",
            Self::TookTooLong { .. } => "took too long",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

impl Reviews {
    pub(super) fn of_tokens(client: kube::Client) -> Self {
        Self::new(client, "authentication.k8s.io", "tokenreviews")
    }

    pub(super) fn of_access(client: kube::Client) -> Self {
        Self::new(client, "authorization.k8s.io", "subjectaccessreviews")
    }

    fn new(client: kube::Client, group: &'static str, plural: &'static str) -> Self {
        Self { client, group, plural, logged: Mutex::default(), log: LogLimit::new() }
    }

    /// Sends a review, and logs a failure, unless the same one was logged last. Whoever reaches the
    /// port can cause reviews, also ones that fail and succeed in turn.
    pub(super) async fn create<T>(&self, review: &T) -> Result<T, Unavailable>
    where
        T: Serialize + DeserializeOwned,
    {
        let result = self.send(review).await;
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match &result {
            Ok(_) => *logged = None,
            Err(error) => {
                let failure = Some(error.to_string());
                if failure != *logged
                    && let Some(line) = self.log.line(error.kind())
                {
                    let left_out = line.left_out;
                    tracing::error!(left_out, "requests are answered with 503, because {error}");
                    *logged = failure;
                }
            }
        }
        result.map_err(|_| Unavailable)
    }

    async fn send<T>(&self, review: &T) -> Result<T, ReviewError>
    where
        T: Serialize + DeserializeOwned,
    {
        let &Self { group, plural, .. } = self;
        let body = serde_json::to_vec(review).expect("a review must be JSON");
        let request = http::Request::post(format!("/apis/{group}/v1/{plural}"))
            .header(CONTENT_TYPE, "application/json")
            .body(kube::client::Body::from(body))
            .expect("the path of a review must be valid");
        let answer = timeout(REVIEW_TIMEOUT, answer(&self.client, request)).await;
        let answer = answer.map_err(|_| ReviewError::TookTooLong { plural })?;
        let (status, body) = answer.map_err(|message| ReviewError::Failed { plural, message })?;
        match status {
            status if status.is_success() => {
                serde_json::from_slice(&body).map_err(|_| ReviewError::Unreadable { plural })
            }
            StatusCode::FORBIDDEN => {
                let message = serde_json::from_slice::<kube::core::Status>(&body);
                let message = message.map_or_else(|_| status.to_string(), |status| status.message);
                Err(ReviewError::Forbidden { plural, message })
            }
            status => Err(ReviewError::Failed { plural, message: status.to_string() }),
        }
    }
}

/// Sends a request, and reads the answer.
///
/// Does not use [`kube::Api`], which logs answers that it cannot read: they may repeat the token.
async fn answer(
    client: &kube::Client,
    request: http::Request<kube::client::Body>,
) -> Result<(StatusCode, Bytes), String> {
    let response = client.send(request).await.map_err(|error| safe_message(&error))?;
    let (head, body) = response.into_parts();
    let body = to_bytes(Body::new(body), ANSWER_BYTES_MAX).await;
    Ok((head.status, body.map_err(|error| safe_message(&error))?))
}
