//! What happens when somebody writes a Gadget: for checks and corrections that the schema cannot
//! express.
//!
//! The rules about the annotation show how it is done: replace them by yours. They hold for new
//! Gadgets and for changes; Gadgets that were there before stay as they are.

// if default validate
use windlass::webhook::Admission;
// end
// if default
use windlass::webhook::Defaulter;
// end
// if validate
use windlass::webhook::{FieldError, FieldPath, Operation, Validate, Verdict};
// end

use super::Gadget;

/// The annotation with the address of somebody who knows what a Gadget is for.
pub const CONTACT: &str = "group.example/contact";

/// Who is asked before a Gadget is stored.
#[derive(Clone, Copy, Debug)]
pub struct GadgetAdmission;

// if default
impl Defaulter<Gadget> for GadgetAdmission {
    /// Corrects a Gadget. It may be called more than once for the same one.
    fn default(&self, gadget: &mut Gadget, _: &Admission) {
        let annotations = gadget.metadata.annotations.as_mut();
        if let Some(contact) = annotations.and_then(|annotations| annotations.get_mut(CONTACT)) {
            contact.make_ascii_lowercase();
        }
    }
}
// end

// if validate
impl Validate<Gadget> for GadgetAdmission {
    async fn validate(&self, operation: Operation<'_, Gadget>, _: &Admission) -> Verdict {
        let Some(new) = operation.new_object() else { return Verdict::allow() };
        // What was there before is not judged again: otherwise a Gadget that is older than a rule
        // could not be changed at all.
        if operation.old_object().is_some_and(|old| contact(old) == contact(new)) {
            return Verdict::allow();
        }
        Verdict::from(errors(new))
    }
}

/// What is wrong with a Gadget.
fn errors(gadget: &Gadget) -> Vec<FieldError> {
    let path = FieldPath::new("metadata").child("annotations").key(CONTACT);
    match contact(gadget) {
        Some(contact) if !contact.contains('@') => {
            vec![FieldError::invalid(&path, contact, "must be the address of somebody")]
        }
        _ => Vec::new(),
    }
}

fn contact(gadget: &Gadget) -> Option<&str> {
    gadget.metadata.annotations.as_ref()?.get(CONTACT).map(String::as_str)
}
// end
