//! A reconciler that is an async closure or function.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::Error;
use crate::reconcile::{Action, Reconcile};
use crate::run::context::RunContext;

/// Makes a reconciler of an async closure, or of an `async fn`.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_informer::SharedInformerFactory;
/// # use windlass_reconciler::{Action, BuildError, Controller, RunContext, Watch, reconcile_fn};
/// # fn example(factory: &SharedInformerFactory) -> Result<Controller<ConfigMap>, BuildError> {
/// let greeting = Arc::new("hello".to_owned());
/// Controller::named("configmap", Watch::<ConfigMap>::new()).build(
///     factory,
///     reconcile_fn(async move |map: Arc<ConfigMap>, cx| {
///         cx.event(&*map).normal("Greeted", greeting.as_str());
///         Ok(Action::done())
///     }),
/// )
/// # }
/// ```
///
/// The closure is cloned for every run. So what it captures must be cheap to clone: a client, an
/// `Arc`. For more than a few lines, for [`absent`](Reconcile::absent) and for
/// [`paused`](Reconcile::paused), implement [`Reconcile`] for a type.
pub fn reconcile_fn<K, F>(reconcile: F) -> impl Reconcile<K>
where
    K: Send + Sync + 'static,
    // The first bound lets the compiler infer the closure's arguments and its error; the second
    // one says that its futures can move between threads, which the first cannot.
    F: AsyncFnOnce(Arc<K>, &RunContext) -> Result<Action, Error>
        + for<'a> RunOnce<'a, K>
        + Clone
        + Send
        + Sync
        + 'static,
{
    FnReconciler { reconcile, object: PhantomData }
}

/// A closure that runs once, with a context that lives for `'a`. Implemented for every closure that
/// fits.
#[diagnostic::on_unimplemented(
    message = "the futures of this closure cannot move between threads",
    label = "a run may continue on another thread after every `.await`",
    note = "drop what is not `Send`, such as a lock's guard or an `Rc`, before the next `.await`"
)]
pub trait RunOnce<'a, K> {
    /// The run.
    type Run: Future<Output = Result<Action, Error>> + Send + 'a;

    /// Starts the run.
    fn run(self, object: Arc<K>, cx: &'a RunContext) -> Self::Run;
}

#[diagnostic::do_not_recommend]
impl<'a, K, F, R> RunOnce<'a, K> for F
where
    F: FnOnce(Arc<K>, &'a RunContext) -> R,
    R: Future<Output = Result<Action, Error>> + Send + 'a,
{
    type Run = R;

    fn run(self, object: Arc<K>, cx: &'a RunContext) -> R {
        self(object, cx)
    }
}

struct FnReconciler<K, F> {
    reconcile: F,
    object: PhantomData<fn(K)>,
}

impl<K, F> Reconcile<K> for FnReconciler<K, F>
where
    K: Send + Sync + 'static,
    F: for<'a> RunOnce<'a, K> + Clone + Send + Sync + 'static,
{
    async fn reconcile(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        self.reconcile.clone().run(object, cx).await
    }
}
