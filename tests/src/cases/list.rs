//! The list of all cases, by area. It is in parts, which are chained: each adds its areas to those
//! before it, and the last one hands them all to the macro that asked.

mod objects;
mod requests;
mod writes_and_reads;

/// Hands the areas and their cases to the macro `$then`.
#[macro_export]
macro_rules! for_each_case {
    ($then:ident) => {
        $crate::list_of_requests! { $then; }
    };
}
