//! The tables that a person reads: what was measured, and how the targets stand.

use super::super::line::{Metric, Who};
use super::super::results::{Measure, Ratio, Results, Series};
use super::super::rounds;
use super::super::table::{Column, NOTHING, Table, grouped, number};
use super::super::targets::{Target, Verdict, Wanted};
use super::plan::{FEWER_KEYS, INTERN, Plan, Run};
use super::targets::KEYS;

/// The medians of every case and queue, with the ratios to client-go, and what they mean.
pub(super) fn medians(plan: &Plan, results: &Results, rounds: u32) -> String {
    let mut table = Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("keys"),
        Column::Right("M/s"),
        Column::Right("ratio"),
        Column::Right("CPU s"),
        Column::Right("CPU ns/key"),
        Column::Right("ratio"),
        Column::Right("wall s"),
        Column::Right("peak MiB"),
        Column::Right("ratio"),
    ]);
    let mut case = "";
    for run in plan.runs() {
        let is_first = run.case != case;
        case = run.case;
        if is_first {
            table.gap();
        }
        table.row(medians_row(run, results, is_first));
    }
    format!("{table}{}", medians_notes(plan, rounds))
}

fn medians_row(run: &Run, results: &Results, is_first: bool) -> Vec<String> {
    let series = results.series(run.case, run.who);
    let median = |metric| series.and_then(|series| series.median(metric));
    let ratio = |measure| {
        let ratio = results.ratio(measure, run.case, run.who, Who::ClientGo);
        number(ratio.map(|ratio| ratio.median), 2)
    };
    vec![
        if is_first { run.case } else { "" }.to_owned(),
        run.who.to_string(),
        grouped(run.keys),
        number(median(Metric::Throughput).map(|per_second| per_second / 1e6), 3),
        if run.is_delayed() { NOTHING.to_owned() } else { ratio(Measure::Throughput) },
        number(median(Metric::CpuS), 3),
        number(series.and_then(Series::cpu_ns_per_key), 0),
        ratio(Measure::CpuPerKey),
        number(median(Metric::WallS), 3),
        number(median(Metric::PeakMb), 1),
        ratio(Measure::Peak),
    ]
}

fn medians_notes(plan: &Plan, rounds: u32) -> String {
    let times = rounds::spoken(rounds);
    let fewer = plan.runs().find(|run| run.who == Who::ControllerRuntime).map(|run| {
        let keys = grouped(run.keys);
        format!(
            "controller-runtime is slow and gets 1/{FEWER_KEYS} of the keys ({keys}), so its memory is \
             not compared.\n"
        )
    });
    let delayed = plan.runs().any(Run::is_delayed).then(|| {
        "delay: how long it takes is up to the delays, so only CPU and memory are compared.\n"
            .to_owned()
    });
    let notes: String = [fewer, delayed].into_iter().flatten().collect();
    format!(
        "
Medians of {times}; every value is from a process of its own, and the queues take turns.
ratio: to client-go, of what stands left of it. It is taken within each round, and the median of those
  counts, so that a machine that is slow for a while slows both sides. CPU is compared per key.
{notes}"
    )
}

/// How the targets stand that a run with `keys` keys measured.
pub(super) fn targets(targets: &[Target], results: &Results, keys: u32) -> String {
    let mut table = Table::new(&[
        Column::Left("target"),
        Column::Left("case"),
        Column::Left("who"),
        Column::Left("against"),
        Column::Right("wanted"),
        Column::Right("ratio"),
        Column::Right("rounds"),
        Column::Left("verdict"),
        Column::Left("beside it"),
    ]);
    let mut group = None;
    for target in targets {
        let (ratio, verdict) = target.judge(results);
        let Some(ratio) = ratio else { continue };
        // A case of its own, or the same case for other reasons: either is the next group.
        let this = (target.case, target.who == Who::WindlassFull);
        if group.replace(this) != Some(this) {
            table.gap();
        }
        table.row(targets_row(target, ratio, verdict, results));
    }
    if group.is_none() {
        return "No target compares what was measured.\n".to_owned();
    }
    let other_size = if keys == KEYS {
        String::new()
    } else {
        let (meant, keys) = (grouped(KEYS), grouped(keys));
        format!("The targets are meant for {meant} keys; this run had {keys}.\n")
    };
    format!(
        "{table}
ratio: the median of the rounds' ratios, as above; rounds: the lowest and the highest of them.
{other_size}"
    )
}

fn targets_row(target: &Target, ratio: Ratio, verdict: Verdict, results: &Results) -> Vec<String> {
    vec![
        target.measure.name().to_owned(),
        target.case.to_owned(),
        target.who.to_string(),
        target.against.map_or_else(|| NOTHING.to_owned(), |who| who.to_string()),
        target.wanted.as_ref().map_or_else(|| NOTHING.to_owned(), Wanted::to_string),
        number(Some(ratio.median), 2),
        format!("{:.2} to {:.2}", ratio.lowest, ratio.highest),
        verdict.to_string(),
        interning_beside(target, results).unwrap_or_default(),
    ]
}

/// What interning costs beside a throughput that was reached with interned keys.
fn interning_beside(target: &Target, results: &Results) -> Option<String> {
    if (target.who, target.measure) != (Who::Windlass, Measure::Throughput) {
        return None;
    }
    let interning = results.series(INTERN, Who::Windlass)?.wall_ns_per_key()?;
    let run = results.series(target.case, target.who)?.wall_ns_per_key()?;
    Some(format!("{run:.0} ns/key; interning: {interning:.0} ns/key"))
}

#[cfg(test)]
mod tests {
    use super::super::super::line::Measured;
    use super::super::targets::all;
    use super::*;

    /// Two rounds of 1,000 keys, in which every queue is `speed` times as fast as client-go.
    fn results(plan: &Plan, speed: impl Fn(Who) -> f64) -> Results {
        let mut results = Results::default();
        for slowness in [1.0, 2.0] {
            for run in plan.runs() {
                let wall = slowness * 0.001 / speed(run.who);
                let measured = Measured::from([
                    (Metric::Throughput, f64::from(run.keys) / wall),
                    (Metric::CpuS, 2.0 * wall),
                    (Metric::WallS, wall),
                    (Metric::PeakMb, 100.0 / speed(run.who)),
                ]);
                results.add(run.case, run.who, run.keys, measured);
            }
        }
        results
    }

    fn line<'a>(text: &'a str, words: &[&str]) -> Vec<&'a str> {
        let has_all =
            |line: &&str| words.iter().all(|word| line.split_whitespace().any(|w| w == *word));
        text.lines().find(has_all).expect("the line must be there").split_whitespace().collect()
    }

    #[test]
    fn medians_and_ratios_stand_in_their_columns() {
        let plan = Plan::new(1000, &["backlog".to_owned()], &[]).expect("a case");
        let results = results(&plan, |who| if who == Who::Windlass { 4.0 } else { 1.0 });
        let shown = medians(&plan, &results, 2);
        assert_eq!(
            line(&shown, &["windlass"]),
            ["windlass", "1,000", "3.000", "4.00", "0.001", "750", "0.25", "0.000", "25.0", "0.25"]
        );
        // A tenth of the keys in the same time: a tenth as fast, and memory is not compared.
        assert_eq!(
            line(&shown, &["controller-runtime", "100"]),
            [
                "controller-runtime",
                "100",
                "0.075",
                "0.10",
                "0.003",
                "30000",
                "10.00",
                "0.002",
                "100.0",
                "-"
            ]
        );
        assert!(shown.contains("gets 1/10 of the keys (100)"), "{shown}");
    }

    #[test]
    fn ratios_need_client_go() {
        let plan = Plan::new(1000, &["dup-w1".to_owned()], &[Who::Windlass]).expect("a case");
        let results = results(&plan, |_| 1.0);
        let shown = medians(&plan, &results, 1);
        assert_eq!(line(&shown, &["dup-w1", "windlass"])[4], "-");
        assert!(!shown.contains("controller-runtime"), "{shown}");
    }

    #[test]
    fn time_of_delayed_keys_is_not_compared() {
        let plan = Plan::new(1000, &["delay".to_owned()], &[]).expect("a case");
        let shown = medians(&plan, &results(&plan, |_| 1.0), 2);
        assert_eq!(line(&shown, &["delay-p4", "client-go"])[4], "-");
        assert_eq!(line(&shown, &["delay-p4", "client-go"])[7], "1.00");
        assert!(shown.contains("so only CPU and memory are compared"), "{shown}");
    }

    #[test]
    fn targets_show_ratio_verdict_and_interning() {
        let plan = Plan::new(1000, &[], &[]).expect("everything");
        let results = results(&plan, |who| if who == Who::Windlass { 3.5 } else { 1.0 });
        let shown = targets(&all(), &results, 1000);
        assert!(shown.contains("meant for 1,000,000 keys; this run had 1,000."), "{shown}");
        let expected = "throughput backlog windlass client-go >= 4.00 3.50 3.50 to 3.50 missed by \
                        12.5 % 429 ns/key; interning: 429 ns/key";
        assert_eq!(line(&shown, &["backlog", "windlass"]).join(" "), expected);
        let arcstr = line(&shown, &["backlog", "windlass-arcstr"]).join(" ");
        assert!(arcstr.ends_with("client-go - 1.00 1.00 to 1.00 (for information)"), "{arcstr}");
        assert!(line(&shown, &["distinct-w4", "windlass"]).contains(&"held"));
        assert!(line(&shown, &["CPU", "delay"]).join(" ").contains("<= 0.25 0.29"), "{shown}");
    }

    #[test]
    fn targets_that_were_not_measured_are_left_out() {
        let shown = |whos: &[Who]| {
            let plan = Plan::new(1000, &["delay".to_owned()], whos).expect("a case");
            targets(&all(), &results(&plan, |_| 1.0), 1000)
        };
        let both = shown(&[]);
        assert!(both.contains("peak memory") && !both.contains("backlog"), "{both}");
        assert_eq!(shown(&[Who::Windlass]), "No target compares what was measured.\n");
    }
}
