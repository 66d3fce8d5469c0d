//! JSON Web Tokens in their compact form, signed with Ed25519.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::{Value, json};

/// The error for an invalid signature, from the library that the real server uses.
const BAD_SIGNATURE: &str = "go-jose/go-jose: error in cryptographic primitive";

/// A key that signs tokens and checks signatures.
pub(super) struct Key {
    pair: Ed25519KeyPair,
    /// The first part of every token: the algorithm and the id of the key.
    header: String,
}

/// Keys are secrets and are not shown.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Derives the key from the seed of the server.
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(b"windlass service account key");
        context.update(&seed.to_be_bytes());
        let secret = context.finish();
        let pair = Ed25519KeyPair::from_seed_unchecked(secret.as_ref());
        let pair = pair.expect("a digest must be as long as a key");
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, pair.public_key().as_ref()));
        let header = json!({"alg": "EdDSA", "kid": id}).to_string();
        Self { pair, header: URL_SAFE_NO_PAD.encode(header) }
    }

    /// Returns a signed token with this payload.
    pub(super) fn sign(&self, payload: &Value) -> String {
        let signed = format!("{}.{}", self.header, URL_SAFE_NO_PAD.encode(payload.to_string()));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Returns the payload of a token that this key signed.
    pub(super) fn open(&self, token: &str) -> Result<Value, String> {
        let (signed, signature) = token.rsplit_once('.').unwrap_or_default();
        let header = signed.split('.').next().unwrap_or_default();
        if header != self.header {
            return Err("invalid signature, no keys found".to_owned());
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| BAD_SIGNATURE.to_owned())?;
        let key = UnparsedPublicKey::new(&ED25519, self.pair.public_key());
        let verified = key.verify(signed.as_bytes(), &signature);
        verified.map_err(|_| BAD_SIGNATURE.to_owned())?;
        payload(token).ok_or_else(|| BAD_SIGNATURE.to_owned())
    }
}

/// Returns the payload of a token without checking the signature.
pub(super) fn payload(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_opened_by_the_key_that_signed_it_and_by_no_other() {
        let (key, other) = (Key::from_seed(1), Key::from_seed(2));
        let token = key.sign(&json!({"sub": "a"}));
        assert_eq!(key.open(&token), Ok(json!({"sub": "a"})));
        assert_eq!(Key::from_seed(1).sign(&json!({"sub": "a"})), token);
        assert!(other.open(&token).is_err());
    }

    #[test]
    fn a_token_with_another_payload_or_signature_is_refused() {
        let key = Key::from_seed(1);
        let token = key.sign(&json!({"sub": "a"}));
        let forged = key.sign(&json!({"sub": "b"}));
        let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (mut one, two) = (parts(&token), parts(&forged));
        one[1].clone_from(&two[1]);
        assert_eq!(key.open(&one.join(".")), Err(BAD_SIGNATURE.to_owned()));
        assert_eq!(key.open(&format!("{token}x")), Err(BAD_SIGNATURE.to_owned()));
        for odd in ["", ".", "..", "a.b.c", "a.b.c.d", "{}"] {
            assert!(key.open(odd).is_err(), "{odd}");
        }
    }
}
