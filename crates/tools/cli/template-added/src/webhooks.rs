//! The webhooks: what the API server asks the operator before it stores or shows an object.
//! Every replica answers, not only the leader.

use windlass::webhook::Webhooks;

/// All of them.
pub fn webhooks() -> Webhooks {
    Webhooks::new()
        .default::<crate::shop::Shop>(crate::shop::admission::ShopAdmission)
        .validate::<crate::shop::Shop>(crate::shop::admission::ShopAdmission)
        .convert(crate::shop::convert::conversion())
    // More webhooks come here: see `cargo windlass add webhook`.
}
