//! What replicas serve while time goes by, with a simulated clock and without keys.

use std::collections::BTreeMap;
use std::convert::Infallible;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::authority::Key;
use super::*;

const LIFETIME: Duration = Duration::from_secs(1000);

/// A replica that has not finished a pass for so long finishes it at once: more than it should
/// take, which is a sixtieth of the lifetime.
const LATE: SignedDuration = SignedDuration::from_secs(20);

fn schedule() -> Schedule {
    Schedule::new(LIFETIME)
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).expect("a time")
}

/// An authority made at a time, with a name instead of a certificate.
fn authority(name: &str, made: Timestamp) -> Authority {
    let (not_before, not_after) = schedule().validity(made);
    let certificate = Certificate { pem: name.to_owned(), not_before, not_after };
    Authority { certificate, key: Key::fake(name) }
}

fn plan(
    found: Found,
    held: Option<&Authorities>,
    published: Option<Duration>,
    now: Timestamp,
) -> Authorities {
    plan_at(found, held, published, Times::of(now, Some(now)))
}

fn plan_at(
    found: Found,
    held: Option<&Authorities>,
    published: Option<Duration>,
    times: Times,
) -> Authorities {
    let (mut made, now) = (0, times.now);
    let next = found.next.clone().map(|next| next.certificate);
    let published = next.as_ref().zip(published);
    let situation = Situation { schedule: schedule(), times, held, published };
    let plan = situation.plan(found, || {
        made += 1;
        Ok::<_, Infallible>(authority(&format!("made-{made}"), now))
    });
    plan.unwrap_or_else(|never| match never {})
}

fn found(authorities: &Authorities) -> Found {
    let Authorities { current, next, previous } = authorities.clone();
    Found { current: Some(current), next, previous }
}

fn names(authorities: &Authorities) -> Vec<&str> {
    authorities.trusted().map(|certificate| certificate.pem.as_str()).collect()
}

#[test]
fn empty_secret_gets_an_authority() {
    let planned = plan(Found::default(), None, None, seconds(0));
    assert_eq!(names(&planned), ["made-1"]);
    assert_eq!(planned.next, None);
}

#[test]
fn nothing_changes_before_half_of_the_time() {
    let first = plan(Found::default(), None, None, seconds(0));
    for now in [1, 100, 400] {
        assert_eq!(plan(found(&first), Some(&first), None, seconds(now)), first, "{now}");
    }
}

#[test]
fn next_one_is_published_then_used_and_the_old_one_leaves_when_it_has_expired() {
    let first = Authorities { current: authority("a", seconds(0)), next: None, previous: vec![] };
    let both = plan(found(&first), Some(&first), None, seconds(500));
    assert_eq!(names(&both), ["a", "made-1"]);
    assert_eq!(both.current, first.current);

    // Not before the overlap.
    for published in [None, Some(0), Some(100)].map(|time| time.map(Duration::from_secs)) {
        assert_eq!(plan(found(&both), Some(&both), published, seconds(600)), both);
    }
    let turned = plan(found(&both), Some(&both), Some(Duration::from_mins(2)), seconds(620));
    assert_eq!(names(&turned), ["made-1", "a"]);
    assert_eq!(turned.next, None);

    // A client's clock may be behind, so it stays a little longer than it is valid.
    let later = plan(found(&turned), Some(&turned), None, seconds(1050));
    assert!(names(&later).contains(&"a"));
    let later = plan(found(&turned), Some(&turned), None, seconds(1150));
    assert!(!names(&later).contains(&"a"));
}

#[test]
fn authority_at_its_end_is_replaced_even_if_the_next_one_is_not_published() {
    let first = Authorities { current: authority("a", seconds(0)), next: None, previous: vec![] };
    let both = plan(found(&first), Some(&first), None, seconds(500));
    assert_eq!(plan(found(&both), Some(&both), None, seconds(810)), both);
    let turned = plan(found(&both), Some(&both), None, seconds(820));
    assert_eq!(names(&turned), ["made-1", "a"]);
}

#[test]
fn deleted_secret_is_restored_and_new_keys_are_made() {
    let held = Authorities { current: authority("a", seconds(0)), next: None, previous: vec![] };
    let restored = plan(Found::default(), Some(&held), None, seconds(10));
    assert_eq!(restored.current, held.current);
    assert_eq!(names(&restored), ["a", "made-1"]);
}

#[test]
fn authority_without_its_key_stays_trusted() {
    let certificate = authority("a", seconds(0)).certificate;
    let broken = Found { previous: vec![certificate], ..Found::default() };
    assert_eq!(names(&plan(broken, None, None, seconds(10))), ["made-1", "a"]);
}

#[test]
fn expired_or_future_authority_is_replaced() {
    // The one of the future is trusted: it may be our clock that is wrong.
    for (made, trusted) in [(-2000, vec!["made-1"]), (2000, vec!["made-1", "a"])] {
        let unusable = Found { current: Some(authority("a", seconds(made))), ..Found::default() };
        let planned = plan(unusable, None, None, seconds(0));
        assert_eq!(names(&planned), trusted, "{made}");
    }
}

#[test]
fn next_one_takes_over_if_the_current_one_expired_while_nobody_looked() {
    let next = Some(authority("b", seconds(600)));
    let old = Found { current: Some(authority("a", seconds(0))), next, previous: vec![] };
    assert_eq!(plan(old, None, None, seconds(1020)).current.certificate.pem, "b");
}

#[test]
fn nothing_leaves_before_it_has_expired_by_both_clocks() {
    let old = authority("old", seconds(-2000)).certificate;
    let present = Authorities {
        current: authority("a", seconds(0)),
        next: None,
        previous: vec![old, authority("b", seconds(-500)).certificate],
    };
    for (own, server, left) in [
        (400, Some(400), vec!["a", "b"]),
        // One of both clocks is far behind or far ahead, or the API server's is not known.
        (-40_000, Some(400), vec!["a", "b", "old"]),
        (40_000, Some(400), vec!["a", "b"]),
        (400, None, vec!["a", "b", "old"]),
    ] {
        let times = Times::of(seconds(own), server.map(seconds));
        let planned = plan_at(found(&present), Some(&present), None, times);
        assert_eq!(names(&planned), left, "{own} {server:?}");
        assert_eq!(planned.current, present.current, "{own} {server:?}");
    }
    // The API server that answered is far ahead: a new one is made, and what is valid stays.
    let times = Times::of(seconds(400), Some(seconds(40_000)));
    let planned = plan_at(found(&present), Some(&present), None, times);
    assert_eq!(names(&planned), ["made-1", "a", "b"]);
}

#[test]
fn of_too_many_the_valid_ones_stay() {
    let made_at = |made: i64| authority(&format!("at {made}"), seconds(made)).certificate;
    // A replica whose clock was ahead has made many, before it was set right.
    let ahead = (0..20).map(|number| made_at(40_000 + number));
    let previous = [100, 200, 300].into_iter().map(made_at).chain(ahead).collect();
    let present = Authorities { current: authority("a", seconds(400)), next: None, previous };
    let planned = plan(found(&present), Some(&present), None, seconds(400));
    assert_eq!(planned.previous.len(), PREVIOUS_MAX);
    for valid in ["at 100", "at 200", "at 300"] {
        assert!(names(&planned).contains(&valid), "{:?}", names(&planned));
    }
    assert_eq!(plan(found(&planned), Some(&planned), None, seconds(400)), planned);
}

#[test]
fn shorter_lifetime_counts_at_once() {
    let certificate = authority("a", seconds(0)).certificate;
    let short = Schedule::new(Duration::from_secs(100));
    assert!(short.renew_at(&certificate) < seconds(0));
    assert!(short.overlap(&certificate) < schedule().overlap(&certificate));
}

#[test]
fn times_that_are_out_of_range_do_not_panic() {
    let forever =
        Certificate { pem: "a".to_owned(), not_before: Timestamp::MIN, not_after: Timestamp::MAX };
    let previous = vec![forever.clone()];
    let current = Some(Authority { certificate: forever, key: Key::fake("a") });
    plan(Found { current, next: None, previous }, None, None, seconds(0));
    let ever = Schedule::new(Duration::MAX).validity(Timestamp::MAX);
    assert_eq!(ever.1.as_second(), Timestamp::MAX.as_second());
}

#[derive(Clone, Debug)]
enum Action {
    /// Time goes by.
    Wait(i64),
    /// A replica sends its next request.
    Step(usize),
    /// A replica loses its memory, and starts again.
    Crash(usize),
    /// Somebody empties a bundle.
    Reset(usize),
    /// Somebody deletes the Secret.
    Delete,
}

/// The cluster: what the API server stores.
struct World {
    now: Timestamp,
    secret: Option<(u64, Authorities)>,
    bundles: Vec<Bundle>,
    versions: u64,
    made: u64,
    /// Authorities that were made because there was none.
    first: Vec<String>,
}

#[derive(Clone, Default)]
struct Bundle {
    version: u64,
    certificates: Vec<Certificate>,
    /// Since when a certificate is in it.
    since: BTreeMap<String, Timestamp>,
    is_reset: bool,
}

/// How wrong the clocks are that a replica decides by, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    own: i64,
    /// The one of its API server, as its answers show it.
    server: i64,
}

/// As the keeper does it, request by request.
#[derive(Default)]
struct Replica {
    clocks: Clocks,
    held: Option<Authorities>,
    published: Option<(Certificate, Timestamp)>,
    serving: Option<(Certificate, Timestamp)>,
    finished: Option<Timestamp>,
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    ReadBundles,
    ReadSecret {
        seen: Vec<Bundle>,
    },
    WriteSecret {
        seen: Vec<Bundle>,
        version: u64,
        planned: Authorities,
    },
    WriteBundle {
        seen: Vec<Bundle>,
        index: usize,
        agreed: Authorities,
        is_lost: bool,
    },
}

impl Replica {
    fn step(&mut self, world: &mut World) {
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::ReadBundles => {
                let seen = world.bundles.clone();
                self.published.take_if(|(next, _)| {
                    !seen.iter().all(|bundle| bundle.certificates.contains(next))
                });
                Stage::ReadSecret { seen }
            }
            Stage::ReadSecret { seen } => self.read_secret(world, seen),
            Stage::WriteSecret { seen, version, planned } => {
                if world.secret.as_ref().map_or(0, |(version, _)| *version) == version {
                    world.versions += 1;
                    world.secret = Some((world.versions, planned.clone()));
                    Stage::WriteBundle { seen, index: 0, agreed: planned, is_lost: false }
                } else {
                    Stage::ReadBundles
                }
            }
            Stage::WriteBundle { seen, index, agreed, is_lost } if index < seen.len() => {
                let is_lost = is_lost | !world.write(index, &seen[index], &agreed);
                Stage::WriteBundle { seen, index: index + 1, agreed, is_lost }
            }
            Stage::WriteBundle { agreed, is_lost, .. } => {
                self.finish(world, agreed, is_lost);
                Stage::ReadBundles
            }
        };
    }

    fn read_secret(&self, world: &mut World, seen: Vec<Bundle>) -> Stage {
        let (version, stored) = world.secret.clone().map_or((0, None), |(v, s)| (v, Some(s)));
        let published = self.published.as_ref().map(|(next, since)| {
            let elapsed = world.now.duration_since(*since);
            (next, elapsed.try_into().expect("time goes forward"))
        });
        let shown = |wrong_by| world.now + SignedDuration::from_secs(wrong_by);
        let times = Times::of(shown(self.clocks.own), Some(shown(self.clocks.server)));
        let now = times.now;
        let held = self.held.as_ref();
        let situation = Situation { schedule: schedule(), times, held, published };
        let mut made = world.made;
        let mut input = stored.as_ref().map(found).unwrap_or_default();
        input.previous.extend(seen.iter().flat_map(|bundle| bundle.certificates.clone()));
        let planned = situation.plan(input, || {
            made += 1;
            Ok::<_, Infallible>(authority(&format!("authority-{made}"), now))
        });
        let planned = planned.unwrap_or_else(|never| match never {});
        world.made = made;
        if stored.is_none() {
            world.first.push(planned.current.certificate.pem.clone());
        }
        if stored.as_ref() == Some(&planned) {
            Stage::WriteBundle { seen, index: 0, agreed: planned, is_lost: false }
        } else {
            Stage::WriteSecret { seen, version, planned }
        }
    }

    fn finish(&mut self, world: &World, agreed: Authorities, is_lost: bool) {
        if is_lost {
            self.held = Some(agreed);
            return;
        }
        let current = &agreed.current.certificate;
        if self.serving.as_ref().is_none_or(|(serving, _)| serving != current) {
            self.serving = Some((current.clone(), world.now));
        }
        let next = agreed.next.as_ref().map(|next| &next.certificate);
        self.published = match (self.published.take(), next) {
            (Some((published, since)), Some(next)) if published == *next => {
                Some((published, since))
            }
            (_, next) => next.map(|next| (next.clone(), world.now)),
        };
        self.held = Some(agreed);
        self.finished = Some(world.now);
    }

    /// A replica is ready once a pass has succeeded.
    fn is_live(&self) -> bool {
        self.finished.is_some()
    }
}

impl World {
    fn new(bundles: usize) -> Self {
        Self {
            now: seconds(0),
            secret: None,
            bundles: vec![Bundle::default(); bundles],
            versions: 0,
            made: 0,
            first: Vec::new(),
        }
    }

    /// Returns whether nobody else has written it since it was read.
    fn write(&mut self, index: usize, seen: &Bundle, agreed: &Authorities) -> bool {
        let wanted: Vec<_> = agreed.trusted().cloned().collect();
        if wanted == seen.certificates {
            return true;
        }
        let bundle = &mut self.bundles[index];
        if bundle.version != seen.version {
            return false;
        }
        self.versions += 1;
        bundle.version = self.versions;
        let since = |certificate: &Certificate| {
            let since = bundle.since.get(&certificate.pem).copied().unwrap_or(self.now);
            (certificate.pem.clone(), since)
        };
        bundle.since = wanted.iter().map(since).collect();
        bundle.certificates = wanted;
        bundle.is_reset = false;
        true
    }

    fn check(&self, replicas: &[Replica]) {
        for replica in replicas.iter().filter(|replica| replica.is_live()) {
            let (serving, since) = replica.serving.as_ref().expect("a live replica must serve");
            assert!(serving.is_valid_at(self.now), "{} at {}", serving.pem, self.now);
            for bundle in self.bundles.iter().filter(|bundle| !bundle.is_reset) {
                let published = bundle.since.get(&serving.pem);
                let published = published.unwrap_or_else(|| panic!("{} is gone", serving.pem));
                let overlap = since.duration_since(*published);
                let needed = SignedDuration::try_from(schedule().overlap(serving));
                let is_first = self.first.contains(&serving.pem);
                assert!(
                    is_first || overlap >= needed.expect("short"),
                    "{} was served after {overlap}",
                    serving.pem
                );
            }
        }
    }
}

impl World {
    /// Once nothing disturbs them and no time goes by, all replicas agree.
    fn check_convergence(&mut self, replicas: &mut [Replica]) {
        // Each pass takes a step for each request. The first may lose to another replica's.
        for _ in 0..5 {
            for replica in &mut *replicas {
                (0..10).for_each(|_| replica.step(self));
            }
        }
        self.check(replicas);
        let (_, stored) = self.secret.as_ref().expect("somebody has written it");
        let trusted: Vec<_> = stored.trusted().cloned().collect();
        for bundle in &self.bundles {
            assert_eq!(bundle.certificates, trusted);
        }
        for replica in replicas {
            let serving = replica.serving.as_ref().map(|(serving, _)| serving);
            assert_eq!(serving, Some(&stored.current.certificate));
        }
    }
}

fn action(
    replicas: usize,
    trouble: impl Strategy<Value = Action>,
) -> impl Strategy<Value = Action> {
    prop_oneof![
        60 => (0..=5_i64).prop_map(Action::Wait),
        80 => (0..replicas).prop_map(Action::Step),
        1 => (0..replicas).prop_map(Action::Crash),
        1 => trouble,
    ]
}

/// Any clock of a machine: right, a little wrong, or off by up to 400 days.
fn own_clock() -> impl Strategy<Value = i64> {
    const DAYS_400: i64 = 400 * 24 * 60 * 60;
    prop_oneof![Just(0), -2000..=2000_i64, -DAYS_400..=DAYS_400]
}

/// Clocks of two or three replicas, and what happens.
fn history(
    trouble: impl Strategy<Value = Action> + Clone,
) -> impl Strategy<Value = (Vec<Clocks>, Vec<Action>)> {
    let clocks = (own_clock(), -30..=30_i64).prop_map(|(own, server)| Clocks { own, server });
    prop::collection::vec(clocks, 2..=3).prop_flat_map(move |clocks| {
        let actions = prop::collection::vec(action(clocks.len(), trouble.clone()), 0..2000);
        (Just(clocks), actions)
    })
}

fn run(clocks: &[Clocks], actions: Vec<Action>) -> World {
    let mut world = World::new(2);
    let mut replicas: Vec<_> =
        clocks.iter().map(|&clocks| Replica { clocks, ..Replica::default() }).collect();
    for action in actions {
        match action {
            Action::Wait(time) => world.now += SignedDuration::from_secs(time),
            Action::Step(index) => replicas[index].step(&mut world),
            Action::Crash(index) => {
                let clocks = replicas[index].clocks;
                replicas[index] = Replica { clocks, ..Replica::default() };
            }
            Action::Reset(index) => {
                world.versions += 1;
                let bundle = &mut world.bundles[index];
                (bundle.version, bundle.is_reset) = (world.versions, true);
                bundle.certificates.clear();
            }
            Action::Delete => world.secret = None,
        }
        world.check(&replicas);
        for replica in &mut replicas {
            let now = world.now;
            let late = |finished| now.duration_since(finished) > LATE;
            while replica.finished.is_some_and(late) {
                replica.step(&mut world);
            }
        }
        world.check(&replicas);
    }
    world.check_convergence(&mut replicas);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_replica_serves_what_every_bundle_trusts(
        (clocks, actions) in history((0..2_usize).prop_map(Action::Reset)),
    ) {
        run(&clocks, actions);
    }

    #[test]
    fn deleted_secret_takes_no_trust_away(
        (clocks, actions) in history(Just(Action::Delete)),
    ) {
        run(&clocks, actions);
    }
}

#[test]
fn five_rotations_happen_in_the_simulation() {
    let actions = (0..4000).flat_map(|_| [Action::Wait(1), Action::Step(0), Action::Step(1)]);
    let clocks = [Clocks::default(), Clocks { own: 1_000_000, server: 5 }];
    let world = run(&clocks, actions.collect());
    assert!(world.made >= 6, "{}", world.made);
}
