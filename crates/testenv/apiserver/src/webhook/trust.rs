//! Checks the certificate of a webhook by the rules of Go's `crypto/x509`, and with its error
//! texts.
//!
//! Go differs from webpki in ways that users notice. A certificate that is itself in `caBundle` is
//! trusted, whoever signed it: envtest and many self-signed certificates rely on this. An expired
//! authority is not accepted. The checks run in this order: dates, name, signature.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

use crate::field_error::go_quote;

/// The authorities of a `caBundle`. No other authority is trusted.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    authorities: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Why a certificate is not trusted, with the text of Go.
#[derive(Debug, thiserror::Error)]
#[error("x509: {0}")]
pub(super) struct TrustError(String);

impl BundleVerifier {
    /// Reads the authorities from PEM.
    ///
    /// # Errors
    /// Returns the real server's error if they cannot be read.
    pub(super) fn read(bundle: &[u8]) -> Result<Self, String> {
        let authorities: Result<_, _> = CertificateDer::pem_slice_iter(bundle).collect();
        let authorities = authorities.map_err(|_| "unable to load root certificates".to_owned())?;
        let algorithms = default_provider().signature_verification_algorithms;
        Ok(Self { authorities, algorithms })
    }

    /// Returns the authorities that are valid now, and those that are not.
    fn split_by_validity(&self, now: UnixTime) -> (RootCertStore, RootCertStore) {
        let (mut valid, mut expired) = (RootCertStore::empty(), RootCertStore::empty());
        for authority in &self.authorities {
            let is_valid = parsed(authority).is_none_or(|authority| is_valid(&authority, now));
            // A certificate that rustls does not accept as an authority is skipped.
            let _ = if is_valid { &mut valid } else { &mut expired }.add(authority.clone());
        }
        (valid, expired)
    }

    /// Returns Go's error for a certificate that no valid authority has signed. If an expired one
    /// has (`has_expired`), the error is about its dates; otherwise it names an authority with the
    /// right name, if there is one.
    fn untrusted_issuer(
        &self,
        leaf: &X509Certificate<'_>,
        has_expired: bool,
        now: UnixTime,
    ) -> String {
        let mut text = "certificate signed by unknown authority".to_owned();
        let authorities = self.authorities.iter().filter_map(parsed);
        let mut candidates =
            authorities.filter(|one| one.subject().as_raw() == leaf.issuer().as_raw());
        let Some(authority) = candidates.next() else { return text };
        if has_expired {
            return out_of_date(&authority, now);
        }
        let why = match authority.public_key().parsed() {
            Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
            Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
            _ => "x509: Ed25519 verification failure",
        };
        let (why, name) = (go_quote(why), go_quote(&name_of(&authority)));
        let _ = write!(
            text,
            " (possibly because of {why} while trying to verify candidate authority certificate {name})"
        );
        text
    }
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let untrusted = |why: String| {
            let why = OtherError(Arc::new(TrustError(why)));
            Error::InvalidCertificate(CertificateError::Other(why))
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let leaf = parsed(end_entity).ok_or(CertificateError::BadEncoding)?;
        if !is_valid(&leaf, now) {
            return Err(untrusted(out_of_date(&leaf, now)));
        }
        if verify_server_name(&certificate, server_name).is_err() {
            return Err(untrusted(wrong_name(&leaf, &server_name.to_str())));
        }
        if self.authorities.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let (valid, expired) = self.split_by_validity(now);
        let signed_by = |roots: &RootCertStore| {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )
        };
        match signed_by(&valid) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            )) => {
                let has_expired = signed_by(&expired).is_ok();
                Err(untrusted(self.untrusted_issuer(&leaf, has_expired, now)))
            }
            Err(other) => Err(other),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn parsed<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(certificate).ok().map(|(_, certificate)| certificate)
}

fn seconds(now: UnixTime) -> i64 {
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

fn is_valid(certificate: &X509Certificate<'_>, now: UnixTime) -> bool {
    let validity = certificate.validity();
    let range = validity.not_before.timestamp()..=validity.not_after.timestamp();
    range.contains(&seconds(now))
}

fn out_of_date(certificate: &X509Certificate<'_>, now: UnixTime) -> String {
    let shown = |seconds: i64| {
        jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
    };
    let text = |time: &ASN1Time| shown(time.timestamp());
    let validity = certificate.validity();
    let relation = if seconds(now) < validity.not_before.timestamp() {
        format!("before {}", text(&validity.not_before))
    } else {
        format!("after {}", text(&validity.not_after))
    };
    let now = shown(seconds(now));
    format!("certificate has expired or is not yet valid: current time {now} is {relation}")
}

fn wrong_name(certificate: &X509Certificate<'_>, wanted: &str) -> String {
    let names = certificate.subject_alternative_name().ok().flatten();
    let common = certificate.subject().iter_common_name().next();
    let common = common.and_then(|name| name.as_str().ok()).unwrap_or_default();
    if names.is_none() && common.eq_ignore_ascii_case(wanted) {
        return "certificate relies on legacy Common Name field, use SANs instead".to_owned();
    }
    let is_address = wanted.parse::<IpAddr>().is_ok();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let shown = names.filter_map(|name| match name {
        GeneralName::DNSName(name) if !is_address => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) if is_address => address(bytes).map(|it| it.to_string()),
        _ => None,
    });
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        return format!("certificate is valid for {}, not {wanted}", shown.join(", "));
    }
    if is_address {
        return format!(
            "cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
        );
    }
    format!("certificate is not valid for any names, but wanted to match {wanted}")
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Returns the name that Go prints for an authority.
fn name_of(authority: &X509Certificate<'_>) -> String {
    let subject = authority.subject();
    let names = subject.iter_common_name().chain(subject.iter_organization());
    let mut names = names.filter_map(|name| name.as_str().ok()).filter(|name| !name.is_empty());
    match names.next() {
        Some(name) => name.to_owned(),
        None => format!("serial:{}", authority.serial),
    }
}
