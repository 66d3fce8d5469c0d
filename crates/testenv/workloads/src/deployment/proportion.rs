//! Scaling during a rollout: every replica set gets a proportional share, so that the ratio of old
//! to new pods, and with it the risk, stays the same.

use std::cmp::Reverse;

use super::limits::Limits;

/// A replica set with pods, as input to scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its desired number of pods.
    pub(super) replicas: i32,
    /// The maximum number of pods of the deployment when the set was last scaled.
    pub(super) total_max_before: Option<i32>,
}

/// Returns the new sizes in the order of `shares`, from the oldest to the newest. `observed` is the
/// number of pods of the deployment, for replica sets without an annotation of their last scaling.
pub(super) fn sizes(limits: &Limits, shares: &[Share], observed: i32) -> Vec<i32> {
    let total: i32 = shares.iter().map(|share| share.replicas).sum();
    let allowed = if limits.desired > 0 { limits.total_max() } else { 0 };
    let to_add = allowed - total;
    let mut sizes: Vec<i32> = shares.iter().map(|share| share.replicas).collect();
    if to_add == 0 {
        return sizes;
    }
    let mut order: Vec<usize> = (0..shares.len()).collect();
    // The largest first; among equals the newest grows first, and the oldest shrinks first.
    order.sort_by_key(|&index| {
        let age = if to_add > 0 { Reverse(index) } else { Reverse(shares.len() - index) };
        (Reverse(shares[index].replicas), age)
    });
    let mut added = 0;
    for &index in &order {
        let left = to_add - added;
        let wanted = fraction(limits, shares[index], observed);
        let given = if to_add > 0 { wanted.min(left) } else { wanted.max(left) };
        sizes[index] += given;
        added += given;
    }
    if let Some(&first) = order.first() {
        sizes[first] = (sizes[first] + to_add - added).max(0);
    }
    sizes
}

/// Returns how many pods a replica set would gain or lose if it kept its share.
fn fraction(limits: &Limits, share: Share, observed: i32) -> i32 {
    if limits.desired == 0 {
        return -share.replicas;
    }
    let before = share.total_max_before.filter(|before| *before > 0).unwrap_or(observed);
    if before <= 0 {
        return 0;
    }
    let scaled = i64::from(share.replicas) * i64::from(limits.total_max());
    let before = i64::from(before);
    // To the nearest, halves away from zero.
    let rounded = (2 * scaled + before) / (2 * before);
    i32::try_from(rounded).unwrap_or(i32::MAX) - share.replicas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(desired: i32, surge: i32, before: i32, replicas: &[i32]) -> Vec<i32> {
        let limits = Limits { desired, surge, unavailable: 0 };
        let share = |&replicas: &i32| Share { replicas, total_max_before: Some(before) };
        let shares: Vec<Share> = replicas.iter().map(share).collect();
        sizes(&limits, &shares, 0)
    }

    #[test]
    fn growth_is_shared_in_proportion() {
        // From 10 to 15 with a surge of 3: the example in the Kubernetes documentation.
        assert_eq!(scaled(15, 3, 13, &[8, 5]), [11, 7]);
        assert_eq!(scaled(20, 0, 10, &[5, 5]), [10, 10]);
    }

    #[test]
    fn rounding_remainder_goes_to_the_largest_set() {
        assert_eq!(scaled(11, 0, 10, &[5, 5]), [5, 6]);
        assert_eq!(scaled(9, 0, 10, &[5, 5]), [4, 5]);
    }

    #[test]
    fn scaling_to_nothing_takes_everything() {
        assert_eq!(scaled(0, 3, 13, &[8, 5]), [0, 0]);
    }

    #[test]
    fn sizes_always_add_up() {
        for desired in 1..40 {
            for split in 1..10 {
                let sizes = scaled(desired, 2, 12, &[split, 12 - split]);
                assert_eq!(sizes.iter().sum::<i32>(), desired + 2, "{desired} {split}");
                assert!(sizes.iter().all(|size| *size >= 0), "{sizes:?}");
            }
        }
    }
}
