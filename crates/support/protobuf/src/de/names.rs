//! Checks that the table has the fields that a struct asks for.
//!
//! If the table is older than the struct, a field of the struct would always be empty, although the
//! bytes may have it under a number that nobody knows.

use std::cell::Cell;

use crate::error::{Error, Reason};
use crate::table::Message;

/// How many pairs of structs and messages a thread remembers.
const CHECKED: usize = 1024;

/// How many places a pair can have.
const PLACES: usize = 8;

/// A list of names and a message, by their addresses; the length tells lists apart that begin at
/// the same address.
type Pair = (usize, usize, usize);

thread_local! {
    /// The pairs that were found right, each at one of the places that its addresses give.
    static CHECKED_PAIRS: [Cell<Pair>; CHECKED] = const { [const { Cell::new((0, 0, 0)) }; CHECKED] };
}

/// Checks names of fields, which serde passes on as a constant.
pub(super) fn check(
    message: &'static Message,
    fields: &'static [&'static str],
) -> Result<(), Error> {
    let pair = (fields.as_ptr().addr(), fields.len(), std::ptr::from_ref(message).addr());
    CHECKED_PAIRS.with(|pairs| {
        let mut free = first_place(pair);
        for place in (0..PLACES).map(|next| (first_place(pair) + next) % CHECKED) {
            match pairs[place].get() {
                found if found == pair => return Ok(()),
                (0, 0, 0) => {
                    free = place;
                    break;
                }
                _ => {}
            }
        }
        for field in fields {
            let of_kind = message.is_kind && ["apiVersion", "kind"].contains(field);
            if !of_kind && !message.has(field) {
                let field = (*field).to_owned();
                return Err(Reason::UnknownName { message: message.name, field }.into());
            }
        }
        pairs[free].set(pair);
        Ok(())
    })
}

fn first_place((fields, _, message): Pair) -> usize {
    // Addresses are multiples of powers of two: the high bits of a product depend on all of theirs.
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (fields as u64).wrapping_add((message as u64).rotate_left(32)).wrapping_mul(ODD);
    (mixed >> 32) as usize % CHECKED
}
