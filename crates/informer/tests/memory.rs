//! Fault 26: a list of huge objects. It is taken in as it arrives, so that its peak is what one
//! object takes, and not what the list does.
//!
//! The peak is one of the whole process, so this file has one test. What is sent is several times
//! the bound, and the bound several times what is needed: it is no close call on any machine.

#![cfg(target_os = "linux")]

mod support;

use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use support::{Running, by_hand, content};
use windlass_informer::source::{Answer, ListWatch, Request};
use windlass_informer::{InformerOptions, Resource, SharedInformer, Transform};

/// How many objects there are.
const OBJECTS: usize = 48;

/// What nobody wants of each of them.
const BULK: usize = 1 << 20;

/// What it may take beside what is there before: a third of what is sent. It takes about 4 MiB.
const GROWTH_MAX_KIB: usize = 16 << 10;

/// Sends huge objects, made as they are asked for: as a streamed list, or as a list in one piece.
struct Huge {
    streams: bool,
    /// Where the bulk stands.
    begin: &'static str,
    end: &'static str,
}

impl Huge {
    fn object(&self, number: usize) -> impl Iterator<Item = Bytes> + use<> {
        let start = format!(
            r#"{{"kind":"ConfigMap","metadata":{{"name":"o{number:03}","namespace":"default","uid":"u{number}","resourceVersion":"1"{}"#,
            self.begin
        );
        // In pieces, as a network would bring it.
        let piece = Bytes::from_static(&[b'x'; 1 << 14]);
        let bulk = std::iter::repeat_n(piece, BULK >> 14);
        [Bytes::from(start)]
            .into_iter()
            .chain(bulk)
            .chain([Bytes::from_static(self.end.as_bytes())])
    }

    fn body(&self) -> impl Iterator<Item = Bytes> + Send + use<> {
        let text = |text: &'static str| std::iter::once(Bytes::from_static(text.as_bytes()));
        let (first, before, after, last) = if self.streams {
            let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
            ("", r#"{"type":"ADDED","object":"#, "}", end)
        } else {
            let list = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":["#;
            (list, "", "", "]}")
        };
        let is_list = !self.streams;
        let objects: Vec<_> = (0..OBJECTS).map(|number| self.object(number)).collect();
        let objects = objects.into_iter().enumerate().flat_map(move |(number, object)| {
            let comma = if is_list && number > 0 { "," } else { "" };
            text(comma).chain(text(before)).chain(object).chain(text(after))
        });
        text(first).chain(objects).chain(text(last))
    }
}

impl ListWatch for Huge {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        let is_list = match request {
            Request::Watch(watch) => watch.wants_initial_events(),
            Request::List(_) => true,
        };
        let streams = matches!(request, Request::Watch(_));
        Box::pin(async move {
            match (is_list, streams == self.streams) {
                (true, true) => Ok(by_hand::body(self.body())),
                (true, false) => Err(by_hand::refusal(405, "MethodNotAllowed")),
                (false, _) => std::future::pending().await,
            }
        })
    }
}

/// A line of `/proc/self/status`, in KiB.
fn process_kib(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find(|line| line.starts_with(field)).expect("a known field");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[tokio::test(start_paused = true)]
async fn huge_list_takes_the_memory_of_one_object() {
    let without_data = || {
        Transform::new("without-data", |object| {
            object["data"]["value"] = "cut".into();
        })
    };
    let managed_fields = (r#","managedFields":[{"manager":""#, r#""}]},"data":{"value":"kept"}}"#);
    let data = (r#"},"data":{"value":""#, r#""}}"#);
    for (streams, (begin, end), options, value) in [
        (false, managed_fields, InformerOptions::new(), "kept"),
        (true, data, InformerOptions::new().transform(without_data()), "cut"),
    ] {
        let before = process_kib("VmRSS:");
        let source = Huge { streams, begin, end };
        let resource = Resource::of::<ConfigMap>();
        let informer = SharedInformer::with_source(source, resource, options).expect("an informer");
        let informer = Running::<ConfigMap>::start(informer);
        informer.wait_for_sync().await.expect("it lists");
        let growth = process_kib("VmHWM:").saturating_sub(before);
        assert!(
            growth < GROWTH_MAX_KIB,
            "{growth} KiB for a list of {} KiB",
            (OBJECTS * BULK) >> 10
        );
        let content = content(informer.lister());
        assert_eq!(content.split(' ').filter(|object| object.ends_with(value)).count(), OBJECTS);
        let list = informer.status().feeds[0].list;
        assert_eq!(list.objects, OBJECTS as u64);
        assert!(list.bytes > (OBJECTS * BULK) as u64);
        informer.end().await;
    }
}
