//! The versions of a Gadget: nothing is lost between them.

mod common;

use ::gadget_operator::gadget::convert::conversion;
use ::gadget_operator::gadget::{Gadget, definition, v1alpha1};
use common::gadget::{EXAMPLE, HELLO, example};
use common::{at_work, stop};
use serde_json::json;

#[test]
fn nothing_is_lost_on_the_way_to_another_version_and_back() {
    let (conversion, example) = (conversion(), json!(example()));
    // The example in every version. If a version has fields that others lack, check an object that
    // uses them, too.
    let versions = definition().spec.versions.into_iter().map(|version| version.name);
    let objects = versions
        .map(|version| conversion.convert(&example, &version).expect("it can be converted"));
    conversion.check_round_trips(objects).expect("nothing is lost");
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
