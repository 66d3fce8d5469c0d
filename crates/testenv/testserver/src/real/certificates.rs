//! The keys and certificates of one cluster, generated for it and removed with it.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The certificates and keys that the servers read from files, and that clients trust.
pub(super) struct Certificates {
    /// The authority that signed them.
    pub(super) authority: Authority,
    /// The API server's certificate for loopback.
    pub(super) serving: String,
    /// The key to [`serving`](Self::serving).
    pub(super) serving_key: String,
    /// The key that service account tokens are signed with.
    pub(super) account_key: String,
    /// The public half of [`account_key`](Self::account_key).
    pub(super) account_public_key: String,
}

/// An authority that signs the certificates of servers and users.
pub(super) struct Authority {
    /// Its own certificate, in DER.
    pub(super) der: Vec<u8>,
    /// Its own certificate.
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// Generates new ones. They never expire, as the cluster ends with its test.
    pub(super) fn generate() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "windlass test authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;

        let mut serving =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving_key = KeyPair::generate()?;
        let authority = Authority {
            der: authority_certificate.der().to_vec(),
            pem: authority_certificate.pem(),
            issuer: Issuer::new(authority, authority_key),
        };
        let serving = serving.signed_by(&serving_key, &authority.issuer)?;

        let account_key = KeyPair::generate()?;
        Ok(Self {
            authority,
            serving: serving.pem(),
            serving_key: serving_key.serialize_pem(),
            account_key: account_key.serialize_pem(),
            account_public_key: account_key.public_key_pem(),
        })
    }
}

impl Authority {
    /// Returns a certificate for the user of this name, and its key.
    pub(super) fn client(&self, name: &str) -> Result<(String, String), rcgen::Error> {
        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::CommonName, name);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = client.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}
