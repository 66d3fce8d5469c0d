//! The work queue on its own: a crawler, over a made-up web that needs no network.
//!
//! ```text
//! cargo run -p windlass-workqueue --example crawl
//! ```
//!
//! While it runs: Enter prints what the queue holds, Ctrl-C ends it early. Look out for
//!
//! - **keys**: the URLs. A page that is linked from ten others is still fetched once at a time;
//! - **groups**: the hosts take turns, so the big one does not starve the others;
//! - **priorities**: site maps go first, because they tell what else there is;
//! - **retries**: a page that fails comes back later and later, and all of them at a limited rate;
//! - **causes**: a page that is given up can say which pages link to it;
//! - **the end**: a crawl is complete when nothing is ready, waiting or running.
//!
//! The rest is the web itself (`site.rs`) and what is printed (`progress.rs`).

mod progress;
mod site;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, value_parser};
use tokio::task::JoinSet;
use tokio::time;
use windlass_workqueue::{Add, Exponential, Group, Lease, MaxOf, Priority, TokenBucket, WorkQueue};

use progress::{Progress, Report, Wish};
use site::{FetchError, Site, host, site_maps};

/// After this many attempts a page is given up.
const ATTEMPTS_MAX: u32 = 5;

/// The first retry of a page comes after this; the next ones after two, four, eight times as long.
const BACKOFF_BASE: Duration = Duration::from_millis(100);

/// The longest that a page waits for its retry, however often it has failed.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Retries that may come at once before `--rate` spaces them.
const RETRY_BURST: u32 = 20;

/// How long Ctrl-C waits for what is ready or under way.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Crawls a made-up web, to show the work queue at work.
#[derive(Debug, Parser)]
struct Options {
    /// How many pages are fetched at once.
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(1..=1_000))]
    workers: u32,
    /// About how many pages the web has; site maps and the like come on top.
    #[arg(long, default_value_t = 2_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pages: u32,
    /// Another seed is another web.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many retries a second are made, over all hosts.
    #[arg(long, default_value_t = 100.0, allow_negative_numbers = true)]
    rate: f64,
    /// Print what the queue holds every so many seconds; 0 for only when Enter is pressed.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    snapshot_every: u32,
}

/// The queue's keys: anything that is `Eq + Hash + Clone`. Keys are cloned on the way, so make that
/// cheap.
type Url = Arc<str>;

/// Why a page is fetched. It travels with the key, and causes add up when keys are merged.
#[derive(Clone)]
enum Cause {
    StartOfCrawl,
    LinkedFrom(Url),
}

/// What the workers share.
struct Crawl {
    queue: WorkQueue<Url, Cause>,
    site: Site,
    report: Mutex<Report>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let crawl = Arc::new(Crawl::new(&options)?);
    for url in site_maps() {
        let add = Add::now().priority(Priority::High).cause(Cause::StartOfCrawl);
        crawl.queue.add_with(url.into(), add)?;
    }

    let mut workers = JoinSet::new();
    for _ in 0..options.workers {
        workers.spawn(Arc::clone(&crawl).work());
    }

    let mut progress = Progress::new(options.snapshot_every);
    progress.say("crawling; Enter shows what the queue holds, Ctrl-C ends it early");
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let is_complete = loop {
        tokio::select! {
            () = crawl.queue.wait_idle() => break true,
            _ = &mut interrupted => break false,
            wish = progress.next() => match wish {
                Wish::Line => progress.show(&crawl.report(), crawl.queue.load()),
                Wish::Snapshot => progress.show_snapshot(&crawl.queue.snapshot()),
            },
            // Workers end after the queue has, so this one panicked.
            Some(Err(panicked)) = workers.join_next() => return Err(panicked.into()),
        }
    };

    // Closing comes first, and says what was still waiting for its time. Draining lets workers
    // finish what is ready or under way; it is bounded, because after Ctrl-C that may be a lot.
    let waiting = crawl.queue.shut_down();
    if !is_complete {
        progress.say("interrupted; finishing what is under way, for two seconds at most");
    }
    if time::timeout(DRAIN_MAX, crawl.queue.shut_down_with_drain()).await.is_err() {
        workers.abort_all();
    }
    while workers.join_next().await.is_some() {}

    progress.show(&crawl.report(), crawl.queue.load());
    progress.finish(&crawl.report(), is_complete);
    if !is_complete {
        progress::print_left_over(crawl.queue.len(), &waiting);
    }
    Ok(())
}

impl Crawl {
    fn new(options: &Options) -> anyhow::Result<Self> {
        // A retry waits for the longer of the two: its page's backoff, and its turn at the common
        // rate.
        let limiter = MaxOf::new(vec![
            Box::new(Exponential::new(BACKOFF_BASE, BACKOFF_MAX)?),
            Box::new(
                TokenBucket::new(options.rate, RETRY_BURST)
                    .with_context(|| format!("--rate {} cannot be used; try 100", options.rate))?,
            ),
        ])?;
        let queue = WorkQueue::builder()
            .name("crawl")
            .limiter(limiter)
            .fair_by(|url: &Url| Group::of(host(url)))
            .build()?;
        Ok(Self { queue, site: Site::new(options.pages, options.seed), report: Mutex::default() })
    }

    /// One worker: takes a page after the other, until the queue is shut down.
    async fn work(self: Arc<Self>) {
        while let Some(lease) = self.queue.get().await {
            self.visit(lease).await;
        }
    }

    /// Fetches one page. The lease ends with this call, also if it panics or is cancelled.
    async fn visit(&self, lease: Lease<Url, Cause>) {
        // Somebody linked to the page while it was being fetched, so it came once more.
        if self.report().finished.contains(lease.key()) {
            return;
        }
        let attempt = self.queue.failures(&lease) + 1;
        match self.site.fetch(&lease, attempt).await {
            Ok(links) => {
                self.follow(&lease, links);
                // Now that the links are in the queue: earlier, the crawl might have looked
                // complete.
                lease.finish();
            }
            Err(_) if attempt < ATTEMPTS_MAX => {
                self.report().host(host(&lease)).retried += 1;
                // Refused once the queue is shut down, and then the page stays undone.
                let _ = lease.retry();
            }
            Err(error) => {
                self.note_given_up(&lease, error);
                lease.finish();
            }
        }
    }

    fn follow(&self, lease: &Lease<Url, Cause>, links: Vec<String>) {
        let mut report = self.report();
        report.finished.insert(lease.key().clone());
        report.host(host(lease)).fetched += 1;
        report.host(host(lease)).queued += lease.queued();
        for link in links.into_iter().map(Url::from) {
            // A page that failed waits for its retry; a link is no reason to bother its host
            // earlier.
            if report.finished.contains(&link) || self.queue.failures(&link) > 0 {
                continue;
            }
            let cause = Cause::LinkedFrom(lease.key().clone());
            // Refused once the queue is shut down: after Ctrl-C no new pages are looked for.
            let _ = self.queue.add_with(link, Add::now().cause(cause));
        }
    }

    fn note_given_up(&self, lease: &Lease<Url, Cause>, error: FetchError) {
        let causes = lease.causes().cloned().collect();
        let mut report = self.report();
        report.finished.insert(lease.key().clone());
        report.given_up.push((lease.key().clone(), error, causes, lease.causes_omitted()));
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Snapshots show causes and keys as their `Debug`, so this one is written for people.
impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartOfCrawl => f.write_str("the crawl starts here"),
            Self::LinkedFrom(url) => write!(f, "{url} links to it"),
        }
    }
}
