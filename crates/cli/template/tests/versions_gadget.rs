//! The versions of a Gadget: nothing is lost between them.

mod common;

use common::gadget::{EXAMPLE, HELLO, example};
use common::{at_work, stop};
use gadget_operator::gadget::convert::conversion;
use gadget_operator::gadget::{Gadget, v1alpha1};
use serde_json::json;

#[test]
fn nothing_is_lost_on_the_way_to_another_version_and_back() {
    let old: v1alpha1::Gadget = serde_saphyr::from_str(EXAMPLE).expect("a Gadget");
    conversion().check_round_trip(&old).expect("nothing is lost");
    conversion().check_round_trip(&example()).expect("nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn gadget_can_be_written_and_read_in_both_versions() {
    let (cluster, running) = at_work().await;
    let old: v1alpha1::Gadget = serde_saphyr::from_str(EXAMPLE).expect("a Gadget");
    let old = cluster.create(&old).await;
    let new: Gadget = cluster.get(HELLO).await;
    assert_eq!(json!(old.spec), json!(conversion_of(&new).spec));
    assert_eq!(old.metadata.uid, new.metadata.uid);
    stop(running).await;
}

/// A Gadget as the old version has it.
fn conversion_of(new: &Gadget) -> v1alpha1::Gadget {
    let old = conversion().convert(&json!(new), "v1alpha1").expect("it can be converted");
    serde_json::from_value(old).expect("a Gadget")
}
