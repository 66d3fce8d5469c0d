//! The conformance suite: every case as two tests, `embedded::<area>::<case>` and
//! `real_server::<area>::<case>`.
//!
//! The first runs on an embedded server of its own. The second runs on the real server, and is
//! ignored unless `cargo xtask test --real` runs it. Both are compared with the recording.

use windlass_tests::{cases, for_each_case, runner};

macro_rules! tests_on_the_embedded_server {
    ($($area:ident: [$($name:ident,)*])*) => {
        mod embedded {
            $(mod $area {
                $(#[test]
                fn $name() {
                    crate::runner::embedded(crate::cases::named(stringify!($name)));
                })*
            })*
        }
    };
}

macro_rules! tests_on_the_real_server {
    ($($area:ident: [$($name:ident,)*])*) => {
        mod real_server {
            $(mod $area {
                $(#[test]
                #[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
                fn $name() {
                    crate::runner::real(crate::cases::named(stringify!($name)));
                })*
            })*
        }
    };
}

for_each_case!(tests_on_the_embedded_server);
for_each_case!(tests_on_the_real_server);

/// Explicit rules and RBAC roles give the same answers.
#[test]
fn cases_of_auth_hold_where_roles_decide() {
    let cases: Vec<_> = cases::ALL.iter().filter(|case| case.area == "auth").collect();
    assert!(!cases.is_empty());
    cases.into_iter().for_each(runner::embedded_with_roles);
}

#[test]
fn cases_and_recordings_belong_together() {
    runner::check_recordings();
    assert!(!cases::ALL.is_empty());
}
