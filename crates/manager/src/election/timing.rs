//! The durations of an election, and how they must relate.

use std::time::Duration;

/// How long a Lease lasts, and how often it is renewed. The defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long standbys wait after a renewal before they take over. Whole seconds. Default: 15 s.
    pub lease_duration: Duration,
    /// How long the leader may fail to renew before it stops leading. Default: 10 s.
    pub renew_deadline: Duration,
    /// The time between two attempts to acquire or renew the Lease. Default: 2 s.
    pub retry_period: Duration,
}

/// The durations of an election do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTiming {
    /// The Lease stores whole seconds.
    #[error("the lease duration must be whole seconds, and at least one: it is {0:?}")]
    LeaseDuration(Duration),
    /// Otherwise a standby could lead before the leader has stopped.
    #[error(
        "the renew deadline ({renew_deadline:?}) must be shorter than the lease duration \
         ({lease_duration:?}): the leader must stop before a standby takes over"
    )]
    RenewDeadline {
        /// The configured value.
        renew_deadline: Duration,
        /// The configured value.
        lease_duration: Duration,
    },
    /// Otherwise one failed renewal would end the leadership.
    #[error(
        "the retry period ({retry_period:?}) must be longer than zero, and the renew deadline \
         ({renew_deadline:?}) more than 1.2 times as long, so that a renewal can be tried again"
    )]
    RetryPeriod {
        /// The configured value.
        retry_period: Duration,
        /// The configured value.
        renew_deadline: Duration,
    },
}

/// A standby waits for 1 to 1.2 times the retry period, at random, so that replicas that were
/// started together do not send requests together. In client-go it is 1 to 2.2 times.
pub(super) const JITTER: f64 = 1.2;

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    pub(super) fn check(self) -> Result<Self, InvalidTiming> {
        let Self { lease_duration, renew_deadline, retry_period } = self;
        let is_whole = lease_duration.subsec_nanos() == 0 && !lease_duration.is_zero();
        if !is_whole || i32::try_from(lease_duration.as_secs()).is_err() {
            return Err(InvalidTiming::LeaseDuration(lease_duration));
        }
        if renew_deadline >= lease_duration {
            return Err(InvalidTiming::RenewDeadline { renew_deadline, lease_duration });
        }
        let is_too_long = || renew_deadline <= retry_period.mul_f64(JITTER);
        if retry_period.is_zero() || retry_period >= renew_deadline || is_too_long() {
            return Err(InvalidTiming::RetryPeriod { retry_period, renew_deadline });
        }
        Ok(self)
    }

    /// How long one request for the Lease may take. Half of the renew deadline, so that a request
    /// that hangs leaves time for another one.
    pub(super) fn request_timeout(self) -> Duration {
        self.renew_deadline / 2
    }

    /// How long after the renew deadline a fenced write may still be under way: until a standby can
    /// take over.
    pub(crate) fn write_grace(self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_that_cannot_work_are_refused_with_the_reason() {
        let timing = |lease, renew, retry| Timing {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
        };
        assert_eq!(timing(15_000, 10_000, 2_000).check(), Ok(Timing::default()));
        for (lease, renew, retry, reason) in [
            (1_500, 1_000, 200, "must be whole seconds"),
            (0, 0, 0, "must be whole seconds"),
            (15_000, 15_000, 2_000, "must be shorter than the lease duration"),
            (15_000, 2_400, 2_000, "more than 1.2 times as long"),
            (15_000, 10_000, 0, "must be longer than zero"),
        ] {
            let refused = timing(lease, renew, retry).check().expect_err("it must be refused");
            assert!(refused.to_string().contains(reason), "{refused}");
        }
    }
}
