//! The keys and certificates of one cluster, made for it and gone with it.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// What the servers read from files, and clients need to trust them.
#[derive(Debug)]
pub(super) struct Certificates {
    /// The authority's certificate, in DER.
    pub(super) authority_der: Vec<u8>,
    /// The authority's certificate.
    pub(super) authority: String,
    /// The API server's certificate for loopback.
    pub(super) serving: String,
    /// The key to [`serving`](Self::serving).
    pub(super) serving_key: String,
    /// The key that service account tokens are signed with.
    pub(super) account_key: String,
    /// The public half of [`account_key`](Self::account_key).
    pub(super) account_public_key: String,
}

impl Certificates {
    /// Makes new ones. They are valid for ever, as what they protect ends with a test.
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
        let issuer = Issuer::new(authority, authority_key);
        let serving = serving.signed_by(&serving_key, &issuer)?;

        let account_key = KeyPair::generate()?;
        Ok(Self {
            authority_der: authority_certificate.der().to_vec(),
            authority: authority_certificate.pem(),
            serving: serving.pem(),
            serving_key: serving_key.serialize_pem(),
            account_key: account_key.serialize_pem(),
            account_public_key: account_key.public_key_pem(),
        })
    }
}
