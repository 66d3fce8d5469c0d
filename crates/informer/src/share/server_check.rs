//! Compares a cache with its server, for those who cannot know from their own writes what the cache
//! must show: a process that takes over from another one.
//!
//! A consistent list of metadata names every object with its version, and what the list lacks was
//! deleted. The version of the list itself would be cheaper, and does not do: it is the newest of
//! the whole cluster, and a watch of objects that do not change learns of it by a bookmark, about
//! once a minute.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use futures::StreamExt as _;
use tokio::time::{Instant, timeout};
use windlass_indexer::{ObjectKey, Uid};

use super::informer_cache::{InformerCache, Written};
use super::position::FeedPosition;
use crate::decode::frames::{Frame, Frames, ListEnd};
use crate::transport::source::{ListRequest, ListWatch, Request, SourceError};

/// The longest time for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a list has found, so far.
struct Comparison<'a> {
    cache: &'a InformerCache,
    /// What the cache held before, and the list has not had.
    unlisted: HashMap<ObjectKey, Uid, RandomState>,
    /// What the cache does not show.
    lacking: Vec<Written>,
    /// The first object of the page that is read.
    page_begin: Option<ObjectKey>,
}

impl InformerCache {
    /// Lists the metadata of all objects that the informer watches, and waits until the cache shows
    /// what that list has, or something newer. Use a timeout: this takes for ever if the watch is
    /// down.
    ///
    /// # Errors
    /// Returns an error if the list fails. It is not sent again.
    ///
    /// # Cancel safety
    /// Safe: nothing but the comparison is lost.
    pub async fn wait_until_current(&self) -> Result<(), SourceError> {
        let lacking = self.lacking().await?;
        let answered = Instant::now();
        for written in &lacking {
            self.wait_until_caught_up(written, answered).await;
        }
        Ok(())
    }

    /// What the server has, and the cache does not show.
    async fn lacking(&self) -> Result<Vec<Written>, SourceError> {
        // Taken before the list: what the cache holds and a later state lacks was deleted.
        let snapshot = self.reader().snapshot();
        let held = snapshot.all();
        let held =
            held.iter().map(|object| (object.head().key().clone(), object.head().uid().clone()));
        let mut comparison = Comparison {
            cache: self,
            unlisted: held.collect(),
            lacking: Vec::new(),
            page_begin: None,
        };
        for feed in &self.engine.feeds {
            let source = self.engine.metadata_source(feed.position.namespace());
            let limit = Some(self.engine.options.reflector.page_size).filter(|&size| size > 0);
            let mut page = ListRequest { limit, continue_token: None };
            let (mut last_begin, mut is_whole) = (None, false);
            loop {
                let listed = comparison.read_page(&*source, &page, &feed.position);
                let listed = timeout(PAGE_TIMEOUT, listed).await;
                let end = listed.unwrap_or(Err(SourceError::Silent(PAGE_TIMEOUT)))?;
                let Some(token) = end.continue_token else { break };
                if is_whole {
                    return Err(SourceError::EndedEarly);
                }
                // A server that ignores `continue` sends the same page again and again. It is asked
                // for everything at once.
                let begin = comparison.page_begin.take();
                is_whole = page.continue_token.as_ref() == Some(&token)
                    || begin.is_some() && begin == last_begin;
                last_begin = begin;
                page = if is_whole {
                    ListRequest::default()
                } else {
                    ListRequest { limit, continue_token: Some(token) }
                };
            }
        }
        let Comparison { unlisted, mut lacking, .. } = comparison;
        let gone = unlisted.into_iter().map(|(key, uid)| Written::Gone { key, uid });
        let now = Instant::now();
        lacking.extend(gone.filter(|gone| !self.is_caught_up(gone, now)));
        Ok(lacking)
    }
}

impl Comparison<'_> {
    async fn read_page(
        &mut self,
        source: &dyn ListWatch,
        page: &ListRequest,
        position: &FeedPosition,
    ) -> Result<ListEnd, SourceError> {
        let mut body = source.request(&Request::List(page.clone())).await?;
        let mut frames = Frames::list(self.cache.engine.options.frame_options());
        while let Some(chunk) = body.next().await {
            // As in a feed: a body that is always ready must not block the thread.
            tokio::task::coop::consume_budget().await;
            frames.push(&chunk?);
            while let Some(frame) = frames.next()? {
                match frame {
                    Frame::Item(bytes) => self.compare(&bytes, position),
                    Frame::ListEnd(end) => return Ok(end),
                    _ => {}
                }
            }
        }
        frames.finish()?;
        Err(SourceError::EndedEarly)
    }

    fn compare(&mut self, bytes: &[u8], position: &FeedPosition) {
        let head = match self.cache.reader().head_parser().parse(bytes) {
            // An object of another namespace, which the feed does not accept either.
            Ok(head) if !position.covers(head.namespace()) => return,
            Ok(head) => head,
            // It is in quarantine, so no cache shows it.
            Err(error) => {
                error.key().map(|key| self.unlisted.remove(key));
                return;
            }
        };
        self.page_begin.get_or_insert_with(|| head.key().clone());
        self.unlisted.remove(head.key());
        let written = Written::Object(head);
        if !self.cache.is_caught_up(&written, Instant::now()) {
            self.lacking.push(written);
        }
    }
}
