//! A certificate for a server on loopback, and the authority that signed it.
//!
//! Both are generated on request and never stored: a client with the authority's certificate, which
//! is in the kubeconfig, knows that it speaks to this server. Keys are random, whatever the seed of
//! the server is.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use ring::rand;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use windlass_serve::{server_config, single_certificate};

/// A certificate with its key, for [`ApiServer::listen_tls`](crate::ApiServer::listen_tls).
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    authority: String,
}

/// The error of [`Tls::generate`] and [`Tls::random_token`].
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub struct TlsError(String);

impl Tls {
    /// Generates an authority, and a certificate for `localhost`, the loopback addresses, and
    /// `address`.
    ///
    /// # Errors
    /// If this machine cannot generate keys.
    pub fn generate(address: IpAddr) -> Result<Self, TlsError> {
        let failed = |error: rcgen::Error| TlsError(error.to_string());
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "windlass");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate().map_err(failed)?;
        let authority_certificate = authority.self_signed(&authority_key).map_err(failed)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        if !address.is_loopback() && !address.is_unspecified() {
            names.push(address.to_string());
        }
        let mut serving = CertificateParams::new(names).map_err(failed)?;
        serving.distinguished_name.push(DnType::CommonName, "windlass-apiserver");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = serving.signed_by(&key, &issuer).map_err(failed)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let served = single_certificate(vec![certificate.der().clone()], key);
        let config = server_config(served.map_err(|error| TlsError(error.to_string()))?, None);
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: authority_certificate.pem(),
        })
    }

    /// Returns a random bearer token. Without a token or a certificate in the kubeconfig, kubectl
    /// asks for a name and a password if the server has TLS, so every kubeconfig for TLS needs a
    /// token.
    ///
    /// # Errors
    /// If this machine has no random source.
    pub fn random_token() -> Result<String, TlsError> {
        let random: rand::Random<[u8; 16]> = rand::generate(&rand::SystemRandom::new())
            .map_err(|_| TlsError("there is no randomness".to_owned()))?;
        Ok(format!("{:032x}", u128::from_be_bytes(random.expose())))
    }

    /// Returns the certificate of the authority, in PEM. Clients that trust it trust the server.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("authority", &self.authority).finish_non_exhaustive()
    }
}
