//! A made-up web: a few hosts with their habits, and pages that link to one another.
//!
//! Everything about a page follows from its URL and the seed, so nothing is stored, and a crawl can
//! be repeated.

use std::time::Duration;

use tokio::time;

/// One host and its habits.
struct Host {
    name: &'static str,
    /// Of a hundred pages, how many are here.
    share: u32,
    /// How long a page takes, give or take half of it.
    latency_ms: u32,
    /// Of a hundred pages, how many fail a few times before they work.
    flaky: u32,
}

/// The archive is huge, news and shop are flaky, and the museum is slow.
const HOSTS: [Host; 6] = [
    Host { name: "archive.example", share: 60, latency_ms: 20, flaky: 0 },
    Host { name: "blog.example", share: 8, latency_ms: 30, flaky: 2 },
    Host { name: "docs.example", share: 10, latency_ms: 30, flaky: 0 },
    Host { name: "museum.example", share: 4, latency_ms: 300, flaky: 0 },
    Host { name: "news.example", share: 10, latency_ms: 40, flaky: 40 },
    Host { name: "shop.example", share: 8, latency_ms: 40, flaky: 20 },
];

/// A page that somebody broke for good. The other pages of its host link to it.
const BROKEN: &str = "https://shop.example/checkout";

/// Links of a page to just any other page.
const RANDOM_LINKS: usize = 4;

/// The web, as seen from outside.
pub(crate) struct Site {
    pages: u32,
    seed: u64,
}

/// What a host answers instead of a page.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FetchError(&'static str);

/// Where to start: the hosts' site maps.
pub(crate) fn site_maps() -> impl Iterator<Item = String> {
    HOSTS.iter().map(|host| format!("https://{}/sitemap.xml", host.name))
}

/// The host's name in a URL.
pub(crate) fn host(url: &str) -> &str {
    split(url).0
}

impl Site {
    /// A web of about so many pages.
    pub(crate) fn new(pages: u32, seed: u64) -> Self {
        Self { pages, seed }
    }

    /// Fetches a page; returns what it links to. As nothing is stored, the host has to be told
    /// which attempt this is.
    pub(crate) async fn fetch(&self, url: &str, attempt: u32) -> Result<Vec<String>, FetchError> {
        let mut random = self.random(url);
        let (name, path) = split(url);
        let host = HOSTS.iter().find(|host| host.name == name).ok_or(FetchError("no such host"))?;

        let latency = random.u32(host.latency_ms / 2..=host.latency_ms * 3 / 2);
        time::sleep(Duration::from_millis(latency.into())).await;

        if path == "sitemap.xml" {
            // It is out of date, as they all are: the odd pages have to be found through the even
            // ones.
            return Ok((0..self.size(host)).step_by(2).map(|page| page_url(host, page)).collect());
        }
        if url == BROKEN {
            return Err(FetchError("500 internal server error"));
        }
        if random.u32(0..100) < host.flaky && attempt <= random.u32(1..=3) {
            return Err(FetchError("503 service unavailable"));
        }
        let page = path.parse().map_err(|_| FetchError("404 not found"))?;
        Ok(self.links(host, page, &mut random))
    }

    fn links(&self, host: &Host, page: u32, random: &mut fastrand::Rng) -> Vec<String> {
        let next = (page + 1 < self.size(host)).then(|| page_url(host, page + 1));
        let broken = BROKEN.contains(host.name).then(|| BROKEN.to_owned());
        let others = (0..RANDOM_LINKS).map(|_| {
            let host = &HOSTS[random.usize(0..HOSTS.len())];
            page_url(host, random.u32(0..self.size(host)))
        });
        others.chain(next).chain(broken).collect()
    }

    fn size(&self, host: &Host) -> u32 {
        (self.pages * host.share / 100).max(1)
    }

    /// FNV-1a of the URL, from the seed on: the same page is the same in every run.
    fn random(&self, url: &str) -> fastrand::Rng {
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        fastrand::Rng::with_seed(url.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, mix))
    }
}

fn page_url(host: &Host, page: u32) -> String {
    format!("https://{}/{page}", host.name)
}

/// The host and the path of a URL.
fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    rest.split_once('/').unwrap_or((rest, ""))
}
