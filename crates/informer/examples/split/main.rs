//! How fast a response body becomes objects, beside what reading it with `serde_json` costs.
//!
//! `cargo run --release -p windlass-informer --example split -- --pods 20000`
//!
//! Every case runs several times; the fastest is shown, in CPU time of this process. What the cases hold at
//! their end is dropped outside of the measurement.

mod pods;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use windlass_informer::{
    FrameOptions, ListFrame, ListFrames, ManagedFields, WatchFrame, WatchFrames,
};

/// Splits generated lists and watches of pods, and says how fast.
#[derive(Parser)]
struct Arguments {
    /// Pods in the body.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// Bytes in each piece of the body.
    #[arg(long, default_value_t = 16 * 1024)]
    chunk: usize,
    /// Runs of each case.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only the cases whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// A list, as far as a baseline reads it.
#[derive(serde::Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.chunk > 0, "a piece needs at least one byte");
    let chunk = arguments.chunk;
    let pods = pods::pods(arguments.pods, 7);
    let body = pods::list(&pods);
    println!("{} pods, {} bytes, in pieces of {chunk} bytes", pods.len(), body.len());
    let cut = FrameOptions::default();
    let keep = cut.managed_fields(ManagedFields::Keep);

    arguments.measure("list, cut", &body, || list(&body, chunk, cut))?;
    arguments.measure("list, cut, objects dropped", &body, || count(&body, chunk, cut))?;
    arguments.measure("list, kept", &body, || list(&body, chunk, keep))?;
    arguments.measure("list, kept, objects dropped", &body, || count(&body, chunk, keep))?;
    let events = pods::watch(&pods);
    arguments.measure("watch, cut", &events, || watch(&events, chunk, cut))?;
    let pretty = pods::list(&pods::pretty(&pods));
    arguments.measure("pretty list, cut", &pretty, || list(&pretty, chunk, cut))?;
    arguments.measure("serde_json IgnoredAny", &body, || {
        serde_json::from_slice::<IgnoredAny>(&body).context("the body must be JSON")
    })?;
    arguments.measure("serde_json RawValue", &body, || {
        let list: RawList<'_> = serde_json::from_slice(&body)?;
        Ok(list.items.len())
    })?;
    arguments.measure("serde_json RawValue, copied", &body, || {
        let list: RawList<'_> = serde_json::from_slice(&body)?;
        Ok(list.items.into_iter().map(|item| Box::from(item.get())).collect::<Vec<Box<str>>>())
    })
}

fn list(body: &[u8], chunk: usize, options: FrameOptions) -> anyhow::Result<Vec<Box<[u8]>>> {
    let mut frames = ListFrames::new(options);
    let mut objects = Vec::new();
    for chunk in body.chunks(chunk) {
        frames.push(chunk);
        while let Some(frame) = frames.next_frame()? {
            if let ListFrame::Item(object) = frame {
                objects.push(object);
            }
        }
    }
    frames.finish()?;
    Ok(objects)
}

fn count(body: &[u8], chunk: usize, options: FrameOptions) -> anyhow::Result<u64> {
    let mut frames = ListFrames::new(options);
    for chunk in body.chunks(chunk) {
        frames.push(chunk);
        while frames.next_frame()?.is_some() {}
    }
    let items = frames.items();
    frames.finish()?;
    Ok(items)
}

fn watch(body: &[u8], chunk: usize, options: FrameOptions) -> anyhow::Result<Vec<Box<[u8]>>> {
    let mut frames = WatchFrames::new(options);
    let mut objects = Vec::new();
    for chunk in body.chunks(chunk) {
        frames.push(chunk);
        while let Some(frame) = frames.next_frame()? {
            if let WatchFrame::Change(_, object) = frame {
                objects.push(object);
            }
        }
    }
    frames.finish()?;
    Ok(objects)
}

impl Arguments {
    /// Runs a case and prints its fastest run.
    fn measure<T>(
        &self,
        name: &str,
        body: &[u8],
        case: impl Fn() -> anyhow::Result<T>,
    ) -> anyhow::Result<()> {
        if !name.contains(&self.only) {
            return Ok(());
        }
        let mut best = Duration::MAX;
        for _ in 0..self.runs {
            let before = cpu_time()?;
            let result = case()?;
            best = best.min(cpu_time()?.saturating_sub(before));
            drop(std::hint::black_box(result));
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people to read")]
        let (bytes, pods) = (body.len() as f64, self.pods.max(1) as f64);
        println!(
            "{name:28} {:8.0} MB/s {:8.0} ns per object",
            bytes / 1e6 / best.as_secs_f64(),
            best.as_secs_f64() * 1e9 / pods
        );
        Ok(())
    }
}

fn cpu_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("the system must tell the CPU time")?;
    let micros = [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds());
    Ok(Duration::from_micros(u64::try_from(micros.iter().sum::<i64>())?))
}
