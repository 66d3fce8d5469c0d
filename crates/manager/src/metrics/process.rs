//! Resource usage of the process, from `/proc`, under the names of Prometheus' Go collector.
//!
//! Values that cannot be read are omitted, so that the scrape does not fail.

use std::fmt;
use std::fs;

use procfs::process::{LimitValue, Process as Files};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Reads `/proc/self` during a scrape.
#[derive(Debug)]
pub(super) struct Process;

/// The bytes that were received and sent in the network namespace of the process.
#[derive(Debug, PartialEq, Eq)]
struct Traffic {
    received: u64,
    sent: u64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let Ok(files) = Files::myself() else { return Ok(()) };
        if let Ok(stat) = files.stat() {
            let cpu = seconds(stat.utime + stat.stime);
            counter(encoder, "process_cpu_seconds", "CPU time of user and system.", cpu)?;
            gauge(encoder, "process_virtual_memory_bytes", "Virtual memory.", stat.vsize)?;
            let resident = stat.rss.saturating_mul(procfs::page_size());
            gauge(encoder, "process_resident_memory_bytes", "Resident memory.", resident)?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let help = "When the process started, in seconds since the epoch.";
                let started = float(boot) + seconds(stat.starttime);
                let kind = MetricType::Gauge;
                let name = "process_start_time_seconds";
                encoder.encode_descriptor(name, help, None, kind)?.encode_gauge(&started)?;
            }
        }
        if let Ok(open) = files.fd_count() {
            gauge(encoder, "process_open_fds", "Open file descriptors.", open as u64)?;
        }
        if let Ok(limits) = files.limits() {
            let files = number(limits.max_open_files.soft_limit);
            gauge(encoder, "process_max_fds", "File descriptors that may be open.", files)?;
            let memory = number(limits.max_address_space.soft_limit);
            let name = "process_virtual_memory_max_bytes";
            gauge(encoder, name, "Virtual memory that may be used.", memory)?;
        }
        let netstat = fs::read_to_string("/proc/self/net/netstat");
        if let Some(traffic) = netstat.ok().and_then(|text| Traffic::parse(&text)) {
            let help = "Bytes received in the network namespace of the process.";
            let (received, sent) = (float(traffic.received), float(traffic.sent));
            counter(encoder, "process_network_receive_bytes", help, received)?;
            let help = "Bytes sent in the network namespace of the process.";
            counter(encoder, "process_network_transmit_bytes", help, sent)?;
        }
        Ok(())
    }
}

impl Traffic {
    /// Reads the pair of lines that begin with `IpExt:`: names, then numbers in the same order.
    fn parse(netstat: &str) -> Option<Self> {
        let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
        let (names, numbers) = (lines.next()?, lines.next()?);
        let find = |wanted: &str| {
            let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
            pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };
        Some(Self { received: find("InOctets")?, sent: find("OutOctets")? })
    }
}

/// The encoder adds `_total`.
fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// Converts the ticks of `/proc` to seconds.
fn seconds(ticks: u64) -> f64 {
    float(ticks) / float(procfs::ticks_per_second())
}

/// Unlimited is the largest number, as Go's collector has it.
fn number(limit: LimitValue) -> u64 {
    match limit {
        LimitValue::Unlimited => u64::MAX,
        LimitValue::Value(value) => value,
    }
}

/// Metrics are floating point numbers.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_found_by_the_names_above_the_numbers() {
        let netstat = "TcpExt: SyncookiesSent InOctets\nTcpExt: 1 2\n\
                       IpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 70 80\n";
        assert_eq!(Traffic::parse(netstat), Some(Traffic { received: 70, sent: 80 }));
        assert_eq!(Traffic::parse("IpExt: InOctets\nIpExt: 70\n"), None);
        assert_eq!(Traffic::parse(""), None);
    }
}
