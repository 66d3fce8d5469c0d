//! The cost of an open page for the operator: its CPU time with and without the page, in turns,
//! with 100,000 keys and 500 changes a second. Also the frames per second that the page draws
//! meanwhile.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::sleep;
use windlass_browser_tests::{Browser, Operator, SCHEMES, SIZES};

/// The duration of each turn, and the number of turns of each kind.
const TURN: Duration = Duration::from_secs(20);
const TURNS: usize = 3;

/// The maximum CPU time with the page, relative to that without it.
const BOUND: f64 = 1.2;

/// Whether the overview counts as many runs as there are keys.
const RAN_ONCE: &str = "Number(/([\\d,]+) runs since the start/\
                        .exec(document.body.innerText)?.[1].replaceAll(',', '')) >= 100000";

#[tokio::main]
async fn main() -> Result<()> {
    let operator = Operator::start("dashboard-load", &["--dashboard", "127.0.0.1:0"])?;
    let browser = Browser::start().await?;
    let page = browser.open(operator.url()).await?;
    page.look(SIZES[0], SCHEMES[0]).await?;
    page.go("#/queue?controller=settings").await?;
    page.wait_for_text("100,000").await?;
    // All keys have run once.
    page.go("#/overview").await?;
    page.wait_until(RAN_ONCE).await?;
    page.close().await?;
    let mut cost = [Vec::new(), Vec::new()];
    let mut frames = Vec::new();
    for _ in 0..TURNS {
        cost[0].push(operator.cpu_during(sleep(TURN)).await?);
        let page = browser.open(operator.url()).await?;
        page.look(SIZES[0], SCHEMES[0]).await?;
        page.go("#/queue?controller=settings").await?;
        page.wait_for_text("100,000").await?;
        let mut drawn = Ok(0.0);
        cost[1]
            .push(operator.cpu_during(async { drawn = page.frames_per_second(TURN).await }).await?);
        frames.push(drawn?);
        page.close().await?;
    }
    let [without, with] = cost.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[TURNS / 2]
    });
    let ratio = with / without;
    println!("CPU of the operator in {TURN:?}, median of {TURNS}: {without:.2} s without the page");
    println!("and {with:.2} s with it: {ratio:.2} × (bound {BOUND})");
    println!("frames a second: {frames:.0?}");
    ensure!(ratio <= BOUND, "an open page costs {ratio:.2} ×, more than {BOUND} ×");
    Ok(())
}
