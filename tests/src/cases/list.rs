//! The list of all cases, by area. Its parts are chained macros: each adds its areas to those
//! before it, and the last one passes them all to the calling macro.

mod objects;
mod requests;
mod writes_and_reads;

/// Passes the areas and their cases to the macro `$then`.
#[macro_export]
macro_rules! for_each_case {
    ($then:ident) => {
        $crate::list_of_requests! { $then; }
    };
}
