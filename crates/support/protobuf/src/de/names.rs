//! Checks that the table has the fields that a struct asks for.
//!
//! If the table is older than the struct, a field of the struct would always be empty, although the
//! bytes may have it under a number that nobody knows.

use std::cell::Cell;

use crate::error::Reason;
use crate::table::Message;

/// How many pairs of structs and messages a thread remembers.
const CHECKED: usize = 512;

/// A list of names and a message, by their addresses; the length tells lists apart that begin at
/// the same address.
type Pair = (usize, usize, usize);

thread_local! {
    /// The pairs that were found right, each at the place that its addresses give.
    static CHECKED_PAIRS: [Cell<Pair>; CHECKED] = const { [const { Cell::new((0, 0, 0)) }; CHECKED] };
}

/// Checks names of fields, which serde passes on as a constant.
pub(super) fn check(
    message: &'static Message,
    fields: &'static [&'static str],
) -> Result<(), Reason> {
    let pair = (fields.as_ptr().addr(), fields.len(), std::ptr::from_ref(message).addr());
    let place = (pair.0 / 16).wrapping_add(pair.2 / 16 * 7) % CHECKED;
    CHECKED_PAIRS.with(|pairs| {
        if pairs[place].get() == pair {
            return Ok(());
        }
        for field in fields {
            let of_kind = message.is_kind && ["apiVersion", "kind"].contains(field);
            if !of_kind && !message.has(field) {
                let field = (*field).to_owned();
                return Err(Reason::UnknownName { message: message.name, field });
            }
        }
        pairs[place].set(pair);
        Ok(())
    })
}
