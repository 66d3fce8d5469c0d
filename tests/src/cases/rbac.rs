//! RBAC: who may do what, who may grant it, and who may query it.

mod escalation;
mod impersonation;
mod reviews;
mod roles;
mod tokens;
mod validation;

pub(super) use escalation::*;
pub(super) use impersonation::*;
pub(super) use reviews::*;
pub(super) use roles::*;
pub(super) use tokens::*;
pub(super) use validation::*;
