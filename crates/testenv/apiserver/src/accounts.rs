//! Service accounts as users: issues tokens for them, and authenticates requests by these tokens.
//!
//! A token is a JSON Web Token with the claims that kube-apiserver writes, signed with Ed25519. The
//! key comes from the seed of the server, so that the same requests get the same tokens. A token is
//! valid as long as its account, and the object that it is bound to, exist.

mod claims;
mod jwt;
mod request;

use std::sync::OnceLock;

pub(crate) use self::claims::{Claims, ISSUER, Reference};
use self::jwt::Key as SigningKey;
use crate::fields::{is_terminating, text};
use crate::object::Key;
use crate::state::State;
use crate::user::User;

/// The allowed clock difference between the issuer and the reader of a token, in seconds.
const LEEWAY: i64 = 60;

/// The signing key of a server, created on first use.
#[derive(Debug)]
pub(crate) struct Signer {
    seed: u64,
    key: OnceLock<SigningKey>,
}

/// The user of a valid token, and the requested audiences that the token is meant for.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
}

impl Signer {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self { seed, key: OnceLock::new() }
    }

    /// Returns the claims of a token that this server signed, whether it is still valid or not.
    /// Checking a signature is expensive: the caller must not hold the lock of the state.
    pub(crate) fn open(&self, token: &str) -> Result<Claims, String> {
        self.key().open(token).map(|payload| Claims::read(&payload))
    }

    fn key(&self) -> &SigningKey {
        self.key.get_or_init(|| SigningKey::from_seed(self.seed))
    }
}

/// Returns whether a token names this server as its issuer. The signature is not checked.
pub(crate) fn claims_our_issuer(token: &str) -> bool {
    jwt::payload(token).is_some_and(|payload| payload["iss"] == ISSUER)
}

impl State {
    /// Returns the user of a token, or why its claims are not valid.
    pub(crate) fn account_of(
        &self,
        claims: &Claims,
        audiences: &[String],
    ) -> Result<Authenticated, String> {
        let shared: Vec<String> =
            claims.audiences.iter().filter(|one| audiences.contains(one)).cloned().collect();
        if shared.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                crate::rbac::rule::quoted_list(&claims.audiences),
                crate::rbac::rule::quoted_list(audiences),
            ));
        }
        self.check_time(claims)?;
        self.check_account(claims)?;
        for (kind, plural, reference) in claims.bound() {
            self.check_bound(&claims.namespace, kind, plural, reference)?;
        }
        Ok(Authenticated { user: claims.user(), audiences: shared })
    }

    fn check_time(&self, claims: &Claims) -> Result<(), String> {
        let now = self.clock.seconds();
        if now + LEEWAY < claims.not_before {
            return Err("service account token is not valid yet".to_owned());
        }
        if now - LEEWAY > claims.expires {
            return Err("service account token has expired".to_owned());
        }
        if now + LEEWAY < claims.issued {
            return Err("service account token is issued in the future".to_owned());
        }
        Ok(())
    }

    fn check_account(&self, claims: &Claims) -> Result<(), String> {
        let Reference { name, uid } = &claims.account;
        let found = self.held("serviceaccounts", &claims.namespace, name);
        let Some((held, deleted)) = found else {
            return Err(format!("serviceaccounts {name:?} not found"));
        };
        if held != *uid {
            return Err(format!("service account UID ({held}) does not match claim ({uid})"));
        }
        if deleted {
            return Err(format!("service account {}/{name} has been deleted", claims.namespace));
        }
        Ok(())
    }

    /// Returns an error if the object that a token is bound to is gone.
    fn check_bound(
        &self,
        namespace: &str,
        kind: &str,
        plural: &str,
        bound: &Reference,
    ) -> Result<(), String> {
        let gone = || "service account token has been invalidated".to_owned();
        let namespace = if plural == "nodes" { "" } else { namespace };
        let (held, deleted) = self.held(plural, namespace, &bound.name).ok_or_else(gone)?;
        if held != bound.uid {
            return Err(format!(
                "{} UID ({held}) does not match service account {} ref claim ({})",
                kind,
                kind.to_lowercase(),
                bound.uid
            ));
        }
        if deleted { Err(gone()) } else { Ok(()) }
    }

    /// Returns the uid of an object of the core group, and whether its deletion timestamp is more
    /// than [`LEEWAY`] in the past (a finalizer still keeps the object).
    fn held(&self, plural: &str, namespace: &str, name: &str) -> Option<(String, bool)> {
        let kind = self.registry.by_plural("", plural)?;
        let object = self.store.get(kind.storage, &Key::new(namespace, name))?.value();
        let deleted = is_terminating(&object)
            && text(&object, "deletionTimestamp") < self.clock.after(-LEEWAY).as_str();
        Some((text(&object, "uid").to_owned(), deleted))
    }
}
