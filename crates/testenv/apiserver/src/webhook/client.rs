//! Calls a webhook. Its errors have the texts of the real server's Go client.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig as TlsConfig, InvalidMessage, OtherError,
};

use super::backend::{ANSWER_MAX, Backend, Handler, Webhooks};
use super::trust::{BundleVerifier, TrustError};
use crate::field_error::go_quote;

/// The address of a webhook: the `clientConfig` of a configuration or of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientConfig {
    /// `https://host[:port]/path`, also for a service.
    url: String,
    /// The namespace and name of the service, if the configuration names one.
    service: Option<(String, String)>,
    /// The trusted authorities, in PEM.
    authorities: Vec<u8>,
}

/// The destination of a connection.
struct Destination {
    /// The name that the certificate must be valid for.
    name: String,
    /// `host:port` to connect to.
    address: String,
}

impl ClientConfig {
    pub(crate) fn read(config: &Value) -> Self {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let authorities = BASE64_STANDARD.decode(text(config, "caBundle")).unwrap_or_default();
        let service = &config["service"];
        if !service.is_object() {
            let url = text(config, "url");
            return Self { url: cleaned(&url), service: None, authorities };
        }
        let (namespace, name) = (text(service, "namespace"), text(service, "name"));
        let port = service["port"].as_i64().unwrap_or(443);
        let path = text(service, "path");
        let path = path.trim_start_matches('/');
        let url = cleaned(&format!("https://{name}.{namespace}.svc:{port}/{path}"));
        Self { url, service: Some((namespace, name)), authorities }
    }

    /// Sends a review and returns the answer.
    ///
    /// # Errors
    /// Returns the text of the real server's client if the call fails.
    pub(super) async fn post(
        &self,
        webhooks: &Webhooks,
        review: &Value,
        timeout: Duration,
    ) -> Result<Bytes, String> {
        let url = format!("{}?timeout={}s", self.url, timeout.as_secs());
        let failed = |why: String| format!("Post {}: {why}", go_quote(&url));
        let answer = tokio::time::timeout(timeout, self.exchange(webhooks, &url, review)).await;
        let answer = answer.map_err(|_| failed("context deadline exceeded".to_owned()))?;
        let answer = answer.map_err(failed)?;
        read(&answer)
    }

    async fn exchange(
        &self,
        webhooks: &Webhooks,
        url: &str,
        review: &Value,
    ) -> Result<Response<Bytes>, String> {
        let body = Bytes::from(review.to_string());
        let backend = match &self.service {
            None => webhooks.of_url(&self.url),
            Some((namespace, name)) => {
                let found = webhooks.of_service(namespace, name);
                Some(found.ok_or_else(|| format!("service {} not found", go_quote(name)))?)
            }
        };
        let uri: http::Uri = url.parse().map_err(|why| format!("invalid URL: {why}"))?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(443);
        match backend {
            Some(Backend::InProcess(handler)) => in_process(&handler, uri, body).await,
            Some(Backend::At(address)) => {
                let to = Destination { name: host, address: address.to_string() };
                self.over_tls(&to, &uri, body).await
            }
            None => {
                let address = if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                };
                self.over_tls(&Destination { name: host, address }, &uri, body).await
            }
        }
    }

    /// Opens one connection per request: webhooks in tests are few, and come and go.
    async fn over_tls(
        &self,
        to: &Destination,
        uri: &http::Uri,
        body: Bytes,
    ) -> Result<Response<Bytes>, String> {
        let stream =
            TcpStream::connect(&to.address).await.map_err(|why| not_connected(to, &why))?;
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(to.name.clone())
            .map_err(|why| format!("tls: failed to verify certificate: {why}"))?;
        let connector = TlsConnector::from(Arc::new(self.tls()?));
        let stream = connector.connect(name, stream).await.map_err(|why| no_handshake(&why))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|why| broken(&why))?;
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let host = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let request = request(path, host, body)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|why| broken(&why))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await;
            let body = body.map_err(|why| why.to_string())?.to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        // The connection is polled here, so that it ends with the request.
        tokio::pin!(exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            ended = connection => {
                // The answer may be complete, although the connection has ended.
                ended.map_err(|why| broken(&why))?;
                exchange.await
            }
        }
    }

    fn tls(&self) -> Result<TlsConfig, String> {
        let trust = BundleVerifier::read(&self.authorities)?;
        let config = TlsConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust))
            .with_no_client_auth();
        Ok(config)
    }
}

async fn in_process(
    handler: &Handler,
    uri: http::Uri,
    body: Bytes,
) -> Result<Response<Bytes>, String> {
    let host = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    handler(request(path, &host, body)?).await.map_err(|why| why.to_string())
}

fn request(path: &str, host: &str, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
    Request::post(path)
        .header(HOST, host)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|why| why.to_string())
}

/// Removes doubled slashes and a slash at the end of the path, as Go does.
fn cleaned(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let mut steps = rest.split('/');
    let authority = steps.next().unwrap_or_default();
    let path: Vec<&str> = steps.filter(|step| !step.is_empty()).collect();
    format!("{scheme}://{authority}/{}", path.join("/"))
}

fn not_connected(to: &Destination, why: &std::io::Error) -> String {
    match why.kind() {
        ErrorKind::ConnectionRefused => {
            format!("dial tcp {}: connect: connection refused", to.address)
        }
        // For an unknown name, the system's error has a text but no code.
        _ if why.raw_os_error().is_none() => {
            format!("dial tcp: lookup {}: no such host", to.name)
        }
        _ => format!("dial tcp {}: {why}", to.address),
    }
}

fn no_handshake(why: &std::io::Error) -> String {
    let Some(error) = why.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) else {
        return if why.kind() == ErrorKind::UnexpectedEof {
            "EOF".to_owned()
        } else {
            why.to_string()
        };
    };
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(other)))
            if other.is::<TrustError>() =>
        {
            format!("tls: failed to verify certificate: {other}")
        }
        // An answer without TLS does not begin with a TLS record.
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        other => format!("tls: {other}"),
    }
}

fn broken(why: &hyper::Error) -> String {
    if why.is_incomplete_message() { "EOF".to_owned() } else { why.to_string() }
}

/// Returns the body of a successful answer.
fn read(answer: &Response<Bytes>) -> Result<Bytes, String> {
    let (code, body) = (answer.status(), answer.body());
    let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    if (200..=206).contains(&code.as_u16()) {
        if body.is_empty() {
            return Err(format!(
                "0-length response with status code: {} and content type: {content_type}",
                code.as_u16()
            ));
        }
        return Ok(body.clone());
    }
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    if status["kind"] == "Status" && status["status"] != "Success" {
        return Err(status["message"].as_str().unwrap_or_default().to_owned());
    }
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let said = if is_text {
        String::from_utf8_lossy(body).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    Err(refusal(code, &said))
}

/// Returns client-go's error for a status code without a `Status`.
fn refusal(code: StatusCode, said: &str) -> String {
    let text = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        415 => "the body of the request was in an unknown format - accepted media types include: ",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                go_quote(said)
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_are_cleaned_as_go_cleans_them() {
        for (url, expected) in [
            ("https://a.b", "https://a.b/"),
            ("https://a.b:8/x/", "https://a.b:8/x"),
            ("https://a.b//x//y", "https://a.b/x/y"),
        ] {
            assert_eq!(ClientConfig::read(&json!({"url": url})).url, expected);
        }
        let service = json!({"service": {"namespace": "n", "name": "s", "path": "/x/"}});
        assert_eq!(ClientConfig::read(&service).url, "https://s.n.svc:443/x");
    }
}
