//! A certificate authority and the leaves that it signs.
//!
//! An authority is made by [`Authority::make`], or read from PEM that may contain anything.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use time::OffsetDateTime;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The common names of our certificate authorities begin with it. The rest is different in each:
/// verifiers find the issuer of a leaf by its name, and there are several in a bundle.
const COMMON_NAME: &str = "windlass-webhook-ca-";

/// The labels of PEM.
const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// A certificate of a certificate authority, without the key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    /// Always in the same form, so that certificates can be compared by it.
    pub(super) pem: String,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// A certificate authority: a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) certificate: Certificate,
    pub(super) key: Key,
}

/// A private key in PEM format. It shows in no output.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(String);

/// No certificate could be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum MakeError {
    #[error(transparent)]
    Generate(#[from] rcgen::Error),
    #[error(transparent)]
    Use(#[from] rustls::Error),
    #[error("the time is out of range")]
    Time,
    #[error("the key is not readable")]
    Key,
}

impl Certificate {
    /// Reads the first certificate of a text. `None` if it is not a certificate of ours.
    fn parse(pem: &str) -> Option<Self> {
        Self::from_der(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
    }

    /// Reads the certificates of a text, except those that are not ours.
    pub(super) fn parse_all(pem: &str) -> Vec<Self> {
        let certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
        certificates.filter_map(|der| Self::from_der(&der.ok()?)).collect()
    }

    fn from_der(der: &CertificateDer<'_>) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        let common_name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
        let signs = certificate.key_usage().ok()?.is_some_and(|usage| usage.value.key_cert_sign());
        let is_ours = rest.is_empty()
            && certificate.is_ca()
            && signs
            && certificate.subject() == certificate.issuer()
            && common_name.starts_with(COMMON_NAME);
        let validity = certificate.validity();
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp());
        is_ours.then_some(Self {
            pem: to_pem(CERTIFICATE, der),
            not_before: time(validity.not_before).ok()?,
            not_after: time(validity.not_after).ok()?,
        })
    }

    pub(super) fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// How long it is valid.
    pub(super) fn validity(&self) -> Duration {
        self.not_after.duration_since(self.not_before).try_into().unwrap_or_default()
    }

    fn to_der(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.pem.as_bytes()).ok()
    }
}

impl Authority {
    /// Makes one that is valid from the first time to the second.
    pub(super) fn make((not_before, not_after): (Timestamp, Timestamp)) -> Result<Self, MakeError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = (date(not_before)?, date(not_after)?);
        let mut name = COMMON_NAME.to_owned();
        for byte in params.key_identifier(&key).iter().take(8) {
            let _ = write!(name, "{byte:02x}");
        }
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = to_pem(CERTIFICATE, params.self_signed(&key)?.der());
        let certificate = Certificate { pem, not_before, not_after };
        Ok(Self { certificate, key: Key(to_pem(PRIVATE_KEY, key.serialized_der())) })
    }

    /// Reads one. `Err` has the certificate if only the key is unusable.
    pub(super) fn parse(certificate: &str, key: &str) -> Result<Self, Option<Certificate>> {
        let Some(certificate) = Certificate::parse(certificate) else {
            return Err(None);
        };
        let authority = Self { certificate, key: Key(key.to_owned()) };
        let Some(key) = authority.key.parse().filter(|key| authority.has_key(key)) else {
            return Err(Some(authority.certificate));
        };
        // In the form in which it was made.
        Ok(Self { key: Key(to_pem(PRIVATE_KEY, key.serialized_der())), ..authority })
    }

    /// Signs a new key for a server that is called by these names, for as long as this authority
    /// is valid.
    pub(super) fn sign(&self, names: &[String]) -> Result<CertifiedKey, MakeError> {
        let authority = self.key.parse().ok_or(MakeError::Key)?;
        let certificate = self.certificate.to_der().ok_or(MakeError::Key)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, authority)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.not_before = date(self.certificate.not_before)?;
        params.not_after = date(self.certificate.not_after)?;
        // Clients look at the names only, of which there may be several.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "windlass-webhook");
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok(CertifiedKey::from_der(vec![leaf.der().clone()], key, &default_provider())?)
    }

    /// Whether the certificate was issued for this key.
    fn has_key(&self, key: &KeyPair) -> bool {
        let Some(der) = self.certificate.to_der() else {
            return false;
        };
        X509Certificate::from_der(&der).is_ok_and(|(_, certificate)| {
            certificate.public_key().raw == key.subject_public_key_info()
        })
    }
}

impl Key {
    pub(super) fn pem(&self) -> &str {
        &self.0
    }

    fn parse(&self) -> Option<KeyPair> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(self.0.as_bytes()).ok()?;
        KeyPair::try_from(&der).ok()
    }

    #[cfg(test)]
    pub(super) fn fake(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({} – {})", self.not_before, self.not_after)
    }
}

/// Encodes PEM with line feeds on all platforms, so that replicas agree on each byte.
fn to_pem(label: &str, der: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    let encoded = STANDARD.encode(der);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        let _ = writeln!(pem, "{line}");
        rest = more;
    }
    let _ = writeln!(pem, "-----END {label}-----");
    pem
}

fn date(time: Timestamp) -> Result<OffsetDateTime, MakeError> {
    OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|_| MakeError::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make() -> Authority {
        let (from, until) = ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z");
        let time = |text: &str| text.parse().expect("a time");
        Authority::make((time(from), time(until))).expect("an authority")
    }

    fn parse(certificate: &str, key: &str) -> Result<Authority, Option<Certificate>> {
        Authority::parse(certificate, key)
    }

    #[test]
    fn authority_that_was_made_is_read_as_it_was() {
        let made = make();
        assert_eq!(parse(&made.certificate.pem, made.key.pem()).as_ref(), Ok(&made));
        // Other line endings and text around it are the same authority.
        let pem = format!("text\n{}\nmore", made.certificate.pem.replace('\n', "\r\n"));
        assert_eq!(parse(&pem, &made.key.pem().replace('\n', "\r\n")).as_ref(), Ok(&made));
    }

    #[test]
    fn key_of_another_certificate_leaves_the_certificate() {
        let (made, other) = (make(), make());
        for key in [other.key.pem(), "", "-----BEGIN PRIVATE KEY-----\nAAAA\n"] {
            let read = parse(&made.certificate.pem, key);
            assert_eq!(read, Err(Some(made.certificate.clone())), "{key}");
        }
    }

    #[test]
    fn what_is_no_authority_of_ours_is_nothing() {
        let made = make();
        let foreign = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let other = params.self_signed(&foreign.signing_key).expect("made").pem();
        for certificate in ["", "garbage", &foreign.cert.pem(), &other, made.key.pem()] {
            assert_eq!(parse(certificate, made.key.pem()), Err(None), "{certificate}");
        }
        // Cut anywhere, it is nothing or itself; and nothing panics.
        for end in 0..made.certificate.pem.len() {
            let read = parse(&made.certificate.pem[..end], &made.key.pem()[..end.min(50)]);
            assert!(matches!(&read, Err(None)) || read == Err(Some(made.certificate.clone())));
        }
    }

    #[test]
    fn keys_do_not_show() {
        let made = make();
        let line = made.key.pem().lines().nth(1).expect("a line").to_owned();
        let shown = format!("{made:?} {made:#?}");
        assert!(!shown.contains(&line) && !shown.contains("PRIVATE"), "{shown}");
    }
}
