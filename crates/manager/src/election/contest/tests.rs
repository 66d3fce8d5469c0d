//! The rules one by one, and then many replicas with wrong clocks on a server that fails.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::*;

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);

fn contest(identity: &str, now: Instant) -> Contest {
    Contest::new(identity.to_owned(), Timing::default(), 1, now)
}

fn time() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// A Lease in version `version`, held by `holder`, which renewed it at this second.
fn lease(holder: &str, version: u64, second: i64) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.resource_version = Some(version.to_string());
    let record = Record {
        holder: holder.to_owned(),
        duration: LEASE,
        acquired: Some(time()),
        renewed: Timestamp::from_second(second).ok(),
        transitions: 3,
    };
    record.write_to(&mut lease);
    lease
}

/// What `contest` would write now.
fn written(contest: &mut Contest, now: Instant) -> Record {
    match contest.next(now, time()) {
        Step::Create(record) | Step::Replace(_, record) => record,
        other => panic!("it does not write: {other:?}"),
    }
}

/// A replica that has led since `now`.
fn leader(now: Instant) -> Contest {
    let mut contest = contest("a", now);
    contest.read(None, now, now);
    let record = written(&mut contest, now);
    let mut held = Lease::default();
    held.metadata.resource_version = Some("1".to_owned());
    record.write_to(&mut held);
    contest.wrote(held, now, now);
    contest
}

#[test]
fn first_replica_creates_the_lease_and_leads() {
    let now = Instant::now();
    let mut contest = contest("a", now);
    assert_eq!(contest.next(now, time()), Step::Read);
    contest.read(None, now, now);
    let record = written(&mut contest, now);
    assert_eq!((record.holder.as_str(), record.transitions), ("a", 0));
    assert_eq!(contest.leads_until(), None, "only the answer makes it the leader");
}

#[test]
fn renew_deadline_counts_from_before_the_renewal_was_sent() {
    let sent = Instant::now();
    let mut contest = leader(sent);
    let later = sent + Duration::from_secs(4);
    contest.wrote(lease("a", 2, 4), sent + Duration::from_secs(1), later);
    assert_eq!(contest.leads_until(), Some(sent + Duration::from_secs(1) + RENEW));
}

#[test]
fn leader_renews_without_reading_and_keeps_the_time_of_its_start() {
    let now = Instant::now();
    let mut contest = leader(now);
    assert_eq!(contest.next(now, time()), Step::Wait(now + Duration::from_secs(2)));
    let record = written(&mut contest, now + Duration::from_secs(2));
    assert_eq!((record.acquired, record.transitions), (Some(time()), 0));
}

#[test]
fn leader_that_cannot_renew_stops_at_the_renew_deadline() {
    let now = Instant::now();
    let mut contest = leader(now);
    let mut at = now;
    while at < now + RENEW {
        assert!(contest.leads_until().is_some());
        match contest.next(at, time()) {
            Step::Wait(until) => at = until,
            _ => contest.failed(Failure::Other, at, at),
        }
    }
    contest.next(now + RENEW, time());
    assert_eq!(contest.leads_until(), None);
}

#[test]
fn conflict_is_looked_at_at_once_and_a_new_holder_ends_the_leadership() {
    let now = Instant::now();
    let mut contest = leader(now);
    let later = now + Duration::from_secs(2);
    let _ = written(&mut contest, later);
    contest.failed(Failure::Conflict, later, later);
    assert!(contest.leads_until().is_some(), "it may have been a change of a label");
    assert_eq!(contest.next(later, time()), Step::Read);
    contest.read(Some(lease("b", 7, 0)), later, later);
    assert_eq!(contest.leads_until(), None);
    assert_eq!(contest.holder(), Some("b"));
}

#[test]
fn leader_whose_lease_was_deleted_makes_it_again() {
    let now = Instant::now();
    let mut contest = leader(now);
    let later = now + Duration::from_secs(2);
    let _ = written(&mut contest, later);
    contest.failed(Failure::Conflict, later, later);
    contest.read(None, later, later);
    assert!(matches!(contest.next(later, time()), Step::Create(_)));
    assert!(contest.leads_until().is_some());
}

#[test]
fn standby_gives_the_holder_of_a_lease_that_was_deleted_the_rest_of_its_time() {
    let now = Instant::now();
    let mut contest = contest("b", now);
    contest.read(Some(lease("a", 1, 0)), now, now);
    let almost = now + LEASE - Duration::from_millis(1);
    contest.read(None, almost, almost);
    assert!(matches!(contest.next(almost, time()), Step::Wait(_)));
    let later = now + LEASE + Duration::from_secs(3);
    contest.read(None, later, later);
    assert!(matches!(contest.next(later, time()), Step::Create(_)));
}

#[test]
fn standby_takes_over_only_what_it_has_seen_unchanged_for_the_whole_lease() {
    let now = Instant::now();
    let mut contest = contest("b", now);
    // By its own times this Lease expired years ago.
    contest.read(Some(lease("a", 1, 0)), now, now);
    let almost = now + LEASE - Duration::from_millis(1);
    contest.read(Some(lease("a", 1, 0)), almost, almost);
    assert!(matches!(contest.next(almost, time()), Step::Wait(_)));
    contest.read(Some(lease("a", 1, 0)), now + LEASE, now + LEASE);
    let record = written(&mut contest, almost + Duration::from_secs(3));
    assert_eq!((record.holder.as_str(), record.transitions), ("b", 4));
}

#[test]
fn every_renewal_that_a_standby_sees_starts_its_wait_anew() {
    let now = Instant::now();
    let mut contest = contest("b", now);
    contest.read(Some(lease("a", 1, 0)), now, now);
    contest.read(Some(lease("a", 2, 1)), now + LEASE, now + LEASE);
    assert!(matches!(contest.next(now + LEASE, time()), Step::Wait(_)));
}

#[test]
fn change_of_anything_but_the_record_is_no_sign_of_life() {
    let now = Instant::now();
    let mut contest = contest("b", now);
    contest.read(Some(lease("a", 1, 0)), now, now);
    contest.read(Some(lease("a", 2, 0)), now + LEASE, now + LEASE);
    assert!(matches!(contest.next(now + LEASE, time()), Step::Replace(..)));
}

#[test]
fn released_lease_is_taken_over_at_once() {
    let now = Instant::now();
    let leader = leader(now);
    let mut held = lease("a", 1, 0);
    let record = leader.release(&held, time()).expect("it holds the Lease");
    assert_eq!(leader.release(&lease("b", 1, 0), time()), None, "that of another stays");
    record.write_to(&mut held);

    let mut standby = contest("b", now);
    standby.read(Some(held), now, now);
    let record = written(&mut standby, now);
    assert_eq!((record.holder.as_str(), record.transitions), ("b", 4));
}

#[test]
fn lease_without_spec_is_free() {
    let now = Instant::now();
    let mut contest = contest("a", now);
    contest.read(Some(Lease::default()), now, now);
    let record = written(&mut contest, now);
    assert_eq!((record.holder.as_str(), record.transitions), ("a", 1));
}

#[test]
fn replica_that_has_lost_the_leadership_never_leads_again() {
    let now = Instant::now();
    let mut contest = leader(now);
    assert_eq!(contest.next(now + RENEW, time()), Step::Lost);
    assert_eq!(contest.next(now + LEASE * 100, time()), Step::Lost);
}

#[test]
fn renewal_is_a_sign_of_life_even_if_the_wall_clock_stands_still() {
    let now = Instant::now();
    let mut contest = leader(now);
    let first = Record::of(&contest.observed.as_ref().expect("it holds the Lease").lease);
    let second = written(&mut contest, now + Duration::from_secs(2));
    assert!(first.renewed < second.renewed);
}

#[test]
fn request_that_hangs_leaves_time_for_another_one() {
    let now = Instant::now();
    let mut contest = leader(now);
    let sent = now + Duration::from_secs(2);
    let _ = written(&mut contest, sent);
    let given_up = contest.request_deadline(sent);
    assert_eq!(given_up, sent + Duration::from_secs(5));
    contest.failed(Failure::Other, sent, given_up);
    assert_eq!(contest.next(given_up, time()), Step::Read);
}

#[test]
fn leader_that_meets_a_second_conflict_waits() {
    let now = Instant::now();
    let mut contest = leader(now);
    let later = now + Duration::from_secs(2);
    let _ = written(&mut contest, later);
    contest.failed(Failure::Conflict, later, later);
    assert_eq!(contest.next(later, time()), Step::Read);
    contest.read(Some(lease("a", 2, 0)), later, later);
    let _ = written(&mut contest, later);
    contest.failed(Failure::Conflict, later, later);
    assert!(matches!(contest.next(later, time()), Step::Wait(until) if until > later));
}

#[test]
fn standbys_try_again_at_different_times() {
    let now = Instant::now();
    let next_try = |seed| {
        let mut contest = Contest::new("b".to_owned(), Timing::default(), seed, now);
        contest.read(Some(lease("a", 1, 0)), now, now);
        match contest.next(now, time()) {
            Step::Wait(until) => until,
            other => panic!("it does not wait: {other:?}"),
        }
    };
    assert_ne!(next_try(1), next_try(2));
    for seed in 0..100 {
        let wait = next_try(seed) - now;
        assert!((Duration::from_secs(2)..=Duration::from_millis(2_400)).contains(&wait));
    }
}

/// Something that happens in the simulation, the earliest first.
struct Event {
    at: Duration,
    number: u64,
    replica: usize,
    kind: Kind,
}

enum Kind {
    /// The replica wakes up and takes its next step.
    Wake,
    /// A request arrives at the server. The replica may have given it up.
    Arrive(u64, Box<Step>),
    /// The answer to a request arrives.
    Answer(u64, Box<Step>, Box<Result<Option<Lease>, Failure>>),
    /// A request is given up, if it is still under way.
    GiveUp(u64),
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

#[derive(Default)]
struct Events {
    heap: BinaryHeap<Event>,
    last: u64,
}

impl Events {
    fn push(&mut self, at: Duration, replica: usize, kind: Kind) {
        self.last += 1;
        self.heap.push(Event { at, number: self.last, replica, kind });
    }
}

/// Replicas whose requests and answers are delayed and lost, which are paused, and whose wall
/// clocks are wrong or stand still. One that has lost the leadership is replaced by a new
/// process. Returns how many processes led.
fn simulate(seed: u64) -> usize {
    const REPLICAS: usize = 3;
    let mut rng = fastrand::Rng::with_seed(seed);
    let base = Instant::now();
    let lease = rng.u64(3..20);
    let renew = rng.u64(2..lease);
    let timing = Timing {
        lease_duration: Duration::from_secs(lease),
        renew_deadline: Duration::from_secs(renew),
        retry_period: Duration::from_secs(renew) / rng.u32(2..6),
    };
    let timing = timing.check().expect("the timing is valid");
    let is_clock_frozen = rng.bool();
    let mut processes = 0_u32;
    let mut process = |rng: &mut fastrand::Rng, now| {
        processes += 1;
        Contest::new(format!("process-{processes}"), timing, rng.u64(..), now)
    };
    let mut replicas: Vec<_> = (0..REPLICAS).map(|_| process(&mut rng, base)).collect();
    // The request that each has under way, and when it was sent.
    let mut under_way: Vec<Option<(u64, Instant)>> = vec![None; REPLICAS];
    let (mut server, mut version) = (None, 0_u64);
    let mut led = std::collections::BTreeSet::new();
    let mut events = Events::default();
    (0..REPLICAS).for_each(|replica| events.push(Duration::ZERO, replica, Kind::Wake));
    let (calm_from, end) = (Duration::from_mins(8), Duration::from_mins(10));

    while let Some(Event { at, replica, kind, .. }) = events.heap.pop() {
        if at > end {
            break;
        }
        let now = base + at;
        let leads = |contest: &&Contest| contest.leads_until().is_some_and(|until| now < until);
        let leading: Vec<_> = replicas.iter().filter(leads).map(|one| &one.identity).collect();
        assert!(leading.len() <= 1, "{leading:?} lead at once after {at:?}; seed {seed}");
        led.extend(leading.into_iter().cloned());
        let is_calm = at > calm_from;
        let is_under_way = |under_way: &[Option<(u64, Instant)>], id: u64| {
            under_way[replica].is_some_and(|(current, _)| current == id)
        };
        match kind {
            Kind::Wake if !is_calm && rng.u8(..) < 4 => {
                // Paused, as by SIGSTOP.
                let pause = Duration::from_secs(rng.u64(1..40));
                events.push(at + pause, replica, Kind::Wake);
            }
            Kind::Wake => {
                let second = if is_clock_frozen { 0 } else { rng.i64(0..4_000_000_000) };
                let time = Timestamp::from_second(second).expect("in range");
                match replicas[replica].next(now, time) {
                    Step::Wait(until) => events.push(until - base, replica, Kind::Wake),
                    Step::Lost => {
                        replicas[replica] = process(&mut rng, now);
                        events.push(at, replica, Kind::Wake);
                    }
                    step => {
                        let id = events.last;
                        under_way[replica] = Some((id, now));
                        let given_up = replicas[replica].request_deadline(now) - base;
                        events.push(given_up, replica, Kind::GiveUp(id));
                        let is_slow = !is_calm && rng.u8(..) < 20;
                        let delay = rng.u64(1..if is_slow { 12_000 } else { 50 });
                        if is_calm || rng.u8(..) > 10 {
                            let arrives = at + Duration::from_millis(delay);
                            events.push(arrives, replica, Kind::Arrive(id, Box::new(step)));
                        }
                    }
                }
            }
            Kind::Arrive(id, step) => {
                let answer = serve(&step, &mut server, &mut version);
                if is_calm || rng.u8(..) > 10 {
                    let delay = rng.u64(1..if is_calm { 50 } else { 2_000 });
                    let arrives = at + Duration::from_millis(delay);
                    let answer = Kind::Answer(id, step, Box::new(answer));
                    events.push(arrives, replica, answer);
                }
            }
            Kind::Answer(id, step, answer) if is_under_way(&under_way, id) => {
                let (_, sent) = under_way[replica].take().expect("it is under way");
                let contest = &mut replicas[replica];
                match (*answer, *step) {
                    (Err(failure), _) => contest.failed(failure, sent, now),
                    (Ok(lease), Step::Read) => contest.read(lease, sent, now),
                    (Ok(lease), _) => contest.wrote(lease.expect("it was written"), sent, now),
                }
                events.push(at, replica, Kind::Wake);
            }
            Kind::GiveUp(id) if is_under_way(&under_way, id) => {
                let (_, sent) = under_way[replica].take().expect("it is under way");
                replicas[replica].failed(Failure::Other, sent, now);
                events.push(at, replica, Kind::Wake);
            }
            Kind::Answer(..) | Kind::GiveUp(_) => {}
        }
    }
    let leads_at_the_end = |one: &Contest| one.leads_until().is_some_and(|at| at > base + end);
    assert!(replicas.iter().any(leads_at_the_end), "nobody leads in the end; seed {seed}");
    led.len()
}

/// What the server does with a request.
fn serve(
    step: &Step,
    server: &mut Option<Lease>,
    version: &mut u64,
) -> Result<Option<Lease>, Failure> {
    let mut store = |mut lease: Lease, record: &Record| {
        *version += 1;
        lease.metadata.resource_version = Some(version.to_string());
        record.write_to(&mut lease);
        lease
    };
    match step {
        Step::Wait(_) | Step::Lost => unreachable!("only requests are sent"),
        Step::Read => return Ok(server.clone()),
        Step::Create(_) if server.is_some() => return Err(Failure::Conflict),
        Step::Create(record) => *server = Some(store(Lease::default(), record)),
        Step::Replace(lease, record) => {
            let held = server.as_ref().and_then(|held| held.metadata.resource_version.as_ref());
            if held.is_none() || held != lease.metadata.resource_version.as_ref() {
                return Err(Failure::Conflict);
            }
            *server = Some(store(Lease::clone(lease), record));
        }
    }
    Ok(server.clone())
}

/// A number that an environment variable may set. `WINDLASS_ELECTION_SEED=17` with
/// `WINDLASS_ELECTION_RUNS=1` runs that seed alone, and `WINDLASS_ELECTION_RUNS=200000` runs
/// more seeds.
fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, and is {text:?}")))
}

#[test]
fn never_do_two_replicas_lead_at_once_and_somebody_leads_in_the_end() {
    /// So many seeds show whether the simulation does what it is for.
    const ENOUGH: u64 = 1_000;
    let first = number_in("WINDLASS_ELECTION_SEED").unwrap_or(0);
    let runs = number_in("WINDLASS_ELECTION_RUNS").unwrap_or(ENOUGH);
    let changed = (first..first + runs).filter(|&seed| simulate(seed) >= 2).count();
    let changed = u64::try_from(changed).expect("a count fits into 64 bits");
    let moved = format!("the leadership moved with {changed} of {runs} seeds");
    assert!(runs < ENOUGH || changed * 10 > runs * 9, "{moved} only");
    println!("{moved}");
}
