//! Outcomes and errors.

use super::*;

#[derive(Debug)]
struct Transparent(kube::Error);

impl fmt::Display for Transparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Transparent {
    /// As `#[error(transparent)]` of `thiserror` makes it.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// error.rs `class_of` knows `kube::Error` only. In `#[error(transparent)] Kube(#[from]
/// kube::Error)`, which is what most operators have, the chain goes from the user's error to the
/// `Box<Status>` right away: conflicts become warnings, Retry-After is not heeded, Forbidden has no
/// advice.
#[test]
fn transparent_error_is_classed_by_the_status_in_its_chain() {
    let status = |code| {
        let status = json!({"status": "Failure", "message": "no", "reason": "x", "code": code,
            "details": {"retryAfterSeconds": 7}});
        Error::from(Transparent(kube::Error::Api(
            serde_json::from_value(status).expect("a status"),
        )))
    };
    assert_eq!(status(429).delay(), Some(Delay::AtLeast(Duration::from_secs(7))));
    assert_eq!(status(409).class(), Class::Conflict);
    assert_eq!(status(403).class(), Class::Forbidden);
}

/// A type that a Secret is not.
#[derive(Clone, Debug, Deserialize)]
struct Strict {
    #[expect(dead_code, reason = "it is only decoded")]
    metadata: ObjectMeta,
    #[expect(dead_code, reason = "it is only decoded")]
    must: String,
}

/// error.rs `class_of`: a `DecodeError` is terminal, whichever object it is of. Here it is another
/// object that cannot be decoded; nothing wakes the key when that one is mended, and the log line
/// says to mend the wrong one.
#[tokio::test(start_paused = true)]
async fn other_object_that_does_not_decode_is_tried_again() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("other")).await.expect("created");
    let reader = does(|_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            cx.get::<Strict>("default/other")?;
            Ok(Action::done())
        })
    });
    let strict = Watch::<Strict>::of(Resource::of::<Secret>());
    let running = run_with(client, |builder| builder.reads(strict), reader);
    tokio::time::sleep(LONG).await;
    let runs = running.controller.runs(&key("default/one"));
    running.end().await.expect("it stops");
    let last = &runs.last().expect("it ran").outcome;
    assert!(!matches!(last, Outcome::Terminal { .. }), "{last:?}");
}

/// DESIGN: a key that does not decode is undecodable until its next version, and reported once.
/// worker.rs reports it at each resync, as an ERROR.
#[tokio::test(start_paused = true)]
async fn object_that_does_not_decode_is_reported_once() {
    struct Never;

    impl Reconcile<Strict> for Never {
        async fn reconcile(&self, _: Arc<Strict>, _: &RunContext) -> Result<Action, Error> {
            Ok(Action::done())
        }
    }

    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<Strict>::of(Resource::of::<ConfigMap>())
        .options(|o| o.namespace("default").resync(Duration::from_secs(30)));
    let controller =
        Controller::named("configmap", watch).build(&factory, Never).expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it ran");
    assert_eq!(log.lines_with("undecodable").len(), 1);
}

/// An error that panics when it is shown.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl StdError for Unspeakable {}

/// worker.rs `schedule` calls the error's `Display` and `Drop` out of reach of `catch_unwind`: the
/// panic ends the worker, and `Controller::run` goes on with it (fault 19: caught, backed off,
/// counted).
#[tokio::test(start_paused = true)]
async fn error_that_panics_when_it_is_shown_is_a_panic_of_the_run() {
    let (_cluster, client) = cluster().await;
    let running = run(client, does(|_, _| Box::pin(async { Err(Unspeakable.into()) })));
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.end().await.expect("it stops");
}

/// Panics when a cancelled run is dropped.
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped half-way");
    }
}

/// worker.rs `call`: the future of a run that takes too long is dropped by `timeout`, outside of
/// `catch_unwind`. A guard of the user's that panics then takes the whole controller down.
#[tokio::test(start_paused = true)]
async fn run_that_panics_while_it_is_cancelled_does_not_end_the_controller() {
    let (_cluster, client) = cluster().await;
    let hang = does(|_, _| {
        Box::pin(async {
            let _guard = Brittle;
            std::future::pending().await
        })
    });
    let running = run_with(client, |builder| builder.timeout(Duration::from_secs(1)), hang);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let counts = running.controller.status().counts;
    running.end().await.expect("it stops");
    assert!(counts.timed_out > 1 && counts.panicked == 0, "{counts:?}");
}

/// worker.rs `schedule` ignores that the queue refuses a delay of more than a hundred years:
/// `retry_after(MAX)` is neither retried nor counted, and told as tried again "in 0ns"; a slip of
/// units silences a key for ever.
#[tokio::test(start_paused = true)]
async fn delay_that_is_too_long_still_counts_as_a_failure() {
    let (_cluster, client) = cluster().await;
    let running = run(
        client,
        does(|_, _| Box::pin(async { Err(Error::msg("no").retry_after(Duration::MAX)) })),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let one = key("default/one");
    let failures = running.controller.queue().failures(&one);
    let outcome = running.controller.runs(&one).pop().expect("it ran").outcome;
    running.end().await.expect("it stops");
    assert_eq!(failures, 1, "{outcome:?}");
}

/// error.rs `told`: what the server answered and could not be decoded is shown with its content, in
/// the log and in the journal. A user's own `Api` from `RunContext::client` ends here whenever a
/// type does not fit.
#[test]
fn answer_that_does_not_decode_is_told_without_its_content() {
    let cause = serde_json::from_value::<u32>(json!("hunter2")).expect_err("no number");
    let told = Error::from(kube::Error::SerdeError(cause)).to_string();
    assert!(!told.contains("hunter2"), "{told}");
}
