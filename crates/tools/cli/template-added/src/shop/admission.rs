//! What happens when somebody writes a Shop: for checks and corrections that the schema cannot
//! express.
//!
//! The rules about the annotation show how it is done: replace them by yours. They hold for new
//! Shops and for changes; Shops that were there before stay as they are.

use windlass::webhook::Admission;
use windlass::webhook::Defaulter;
use windlass::webhook::{FieldError, FieldPath, Operation, Validate, Verdict};

use super::Shop;

/// The annotation with the address of somebody who knows what a Shop is for.
pub const CONTACT: &str = "example.com/contact";

/// Who is asked before a Shop is stored.
#[derive(Clone, Copy, Debug)]
pub struct ShopAdmission;

impl Defaulter<Shop> for ShopAdmission {
    /// Corrects a Shop. It may be called more than once for the same one.
    fn default(&self, shop: &mut Shop, _: &Admission) {
        let annotations = shop.metadata.annotations.as_mut();
        if let Some(contact) = annotations.and_then(|annotations| annotations.get_mut(CONTACT)) {
            contact.make_ascii_lowercase();
        }
    }
}

impl Validate<Shop> for ShopAdmission {
    async fn validate(&self, operation: Operation<'_, Shop>, _: &Admission) -> Verdict {
        let Some(new) = operation.new_object() else { return Verdict::allow() };
        // What was there before is not judged again: otherwise a Shop that is older than a rule
        // could not be changed at all.
        if operation.old_object().is_some_and(|old| contact(old) == contact(new)) {
            return Verdict::allow();
        }
        Verdict::from(errors(new))
    }
}

/// What is wrong with a Shop.
fn errors(shop: &Shop) -> Vec<FieldError> {
    let path = FieldPath::new("metadata").child("annotations").key(CONTACT);
    match contact(shop) {
        Some(contact) if !contact.contains('@') => {
            vec![FieldError::invalid(&path, contact, "must be the address of somebody")]
        }
        _ => Vec::new(),
    }
}

fn contact(shop: &Shop) -> Option<&str> {
    shop.metadata.annotations.as_ref()?.get(CONTACT).map(String::as_str)
}
