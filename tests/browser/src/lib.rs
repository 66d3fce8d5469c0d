//! Drives the dashboard in Chromium: [`Browser`] opens pages, [`Page`] clicks and reads, and
//! [`Operator`] is a live operator that serves a dashboard.

mod axe;
mod browser;
mod operator;
mod page;
mod views;

pub use axe::violations;
pub use browser::Browser;
pub use operator::Operator;
pub use page::{Page, Scheme};
pub use views::{SCHEMES, SIZES, VIEWS, View};
