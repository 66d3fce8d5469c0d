//! The views of the website operator's dashboard, and when each has loaded.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::page::{Page, Scheme};

/// A wide and a narrow screen.
pub const SIZES: [(i64, i64); 2] = [(1440, 900), (390, 844)];

/// Both colour schemes.
pub const SCHEMES: [Scheme; 2] = [Scheme::Light, Scheme::Dark];

/// A view, and an expression that is true as soon as it has loaded.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Its name, which its pictures use.
    pub name: &'static str,
    route: &'static str,
    is_there: &'static str,
}

/// All views.
pub const VIEWS: [View; 8] = [
    View {
        name: "overview",
        route: "#/overview",
        is_there: "document.querySelectorAll('main .card').length > 2",
    },
    View {
        name: "queue",
        route: "#/queue?controller=website",
        is_there: "document.querySelectorAll('.list-row a').length > 2",
    },
    View {
        name: "key",
        route: "#/key?controller=website&key=default%2Fshop",
        is_there: "document.querySelector('main .chip') && [...document.querySelectorAll('button')]\
                   .some(button => button.textContent.startsWith('Run now'))",
    },
    View {
        name: "story",
        route: "#/story?kind=Website&key=default%2Fshop",
        // An edge between two controllers. The title of a node begins with its controller.
        is_there: "document.querySelectorAll('.graph .edge').length > 2 && \
                   new Set([...document.querySelectorAll('.graph .node title')]\
                   .map(title => title.textContent.split(' ')[0])).size > 1",
    },
    View {
        name: "runs",
        route: "#/runs",
        is_there: "document.querySelectorAll('.list-row a').length > 5",
    },
    View {
        name: "informers",
        route: "#/informers",
        is_there: "document.body.innerText.includes('deployments.v1.apps')",
    },
    View {
        name: "leadership",
        route: "#/leadership",
        is_there: "document.querySelector('.view-leadership .card')",
    },
    View {
        name: "search",
        route: "#/search?text=shop",
        is_there: "document.querySelector('.view-search .found a')",
    },
];

impl View {
    /// Opens the view, and waits until it has loaded.
    ///
    /// # Errors
    /// If it does not load.
    pub async fn open(&self, page: &Page) -> Result<()> {
        page.go(self.route).await?;
        page.wait_until(self.is_there).await
    }

    /// Returns the path of a picture.
    pub fn file(&self, folder: &Path, (width, _): (i64, i64), scheme: Scheme) -> PathBuf {
        folder.join(format!("{}-{width}-{}.png", self.name, scheme.name()))
    }
}
