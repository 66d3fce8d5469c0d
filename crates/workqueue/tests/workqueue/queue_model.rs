//! Random use of the queue against a simple reference model.
//!
//! proptest draws adds, delays, priorities, gets, dones, retries, panics, cancelled waits, clock
//! steps and shut-downs, and both the queue and the model go through them. After every step the
//! queue must have handed out the same keys in the same order with the same causes, and must agree
//! on what is ready, waiting and running. At the end everything is drained, and what the queue says
//! was still waiting must be what the model says.
//!
//! A failure prints the shortest sequence that shows it, and proptest keeps its seed in
//! `queue_model.regressions` beside this file, to be replayed first by every later run of `cargo
//! test -p windlass-workqueue queue_model`. `PROPTEST_CASES=20000` in front of it searches
//! longer than the default 256 sequences.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::FileFailurePersistence;
use proptest_state_machine::prop_state_machine;

use crate::model::system::QueueTest;

prop_state_machine! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn queue_agrees_with_the_model(sequential 1..120 => QueueTest);
}
