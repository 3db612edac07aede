//! The HTTP client: the settings of `object_store`, but redirects only as [`Allowed`] permits.
//!
//! | setting of `AWS_*` and `GOOGLE_*` | here                                                        |
//! |-----------------------------------|-------------------------------------------------------------|
//! | `ALLOW_HTTP`, `CONNECT_TIMEOUT`, `HTTP1_ONLY`, `HTTP2_ONLY`, `POOL_IDLE_TIMEOUT`, `POOL_MAX_IDLE_PER_HOST`, `PROXY_EXCLUDES`, `PROXY_URL`, `RANDOMIZE_ADDRESSES`, `USER_AGENT` | as in `object_store` |
//! | `ALLOW_INVALID_CERTIFICATES`, `DISABLE_SYSTEM_CERTIFICATES`, `PROXY_CA_CERTIFICATE` | refused: `SSL_CERT_FILE` names a certificate to trust |
//! | `TIMEOUT`, `READ_TIMEOUT`         | ignored: [`fetch`](super::fetch) has its own limits         |
//! | `HTTP2_*` except the one above    | ignored                                                     |
//!
//! The client of `object_store` differs in that it follows every redirect, and in that it does not say how long a busy
//! server asks to wait ([`Busy`]).

use super::hub::Token;
use super::redirects::Allowed;
use crate::source::BoxError;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey as Key, ClientOptions};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, NoProxy, Proxy};
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Builds clients for stores.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = client(&StoreSettings(options), Allowed::of_environment(), None);
        client.map_err(|source| object_store::Error::Generic { store: "HTTP client", source })
    }
}

/// Builds clients for stores of the Hub, with the token to send.
#[derive(Debug)]
pub(super) struct HubConnector(pub(super) Option<Token>);

impl HttpConnector for HubConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = of_hub(self.0.as_ref(), options);
        client.map_err(|source| object_store::Error::Generic { store: "HTTP client", source })
    }
}

/// Builds a client for the Hub. It follows redirects to any host, because the Hub's files are stored at others; reqwest
/// drops the token there.
pub(super) fn of_hub(
    token: Option<&Token>,
    options: &ClientOptions,
) -> Result<HttpClient, BoxError> {
    client(&StoreSettings(options), Allowed::Any, token)
}

/// A client that says of a busy server how long it asks to wait.
#[derive(Debug)]
struct PoliteClient(reqwest::Client);

/// An answer of a server that asks to be left alone for a while: its status, and the header `Retry-After`.
#[derive(Debug)]
pub(super) struct Busy {
    pub(super) status: u16,
    pub(super) wait: Duration,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server asks to wait {} s ({})", self.wait.as_secs(), self.status)
    }
}

impl std::error::Error for Busy {}

impl HttpService for PoliteClient {
    fn call<'client, 'call>(
        &'client self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'client: 'call,
    {
        Box::pin(async move {
            let answer = self.0.call(request).await?;
            let status = answer.status().as_u16();
            let wait = answer.headers().get(RETRY_AFTER);
            let wait = wait.and_then(|wait| wait.to_str().ok()?.parse::<u32>().ok());
            match wait.filter(|_| matches!(status, 429 | 503)) {
                Some(seconds) => {
                    let busy = Busy { status, wait: Duration::from_secs(seconds.into()) };
                    Err(HttpError::new(HttpErrorKind::Request, busy))
                }
                None => Ok(answer),
            }
        })
    }
}

fn client(
    settings: &StoreSettings<'_>,
    allowed: Allowed,
    token: Option<&Token>,
) -> Result<HttpClient, BoxError> {
    for key in [Key::AllowInvalidCertificates, Key::NoSystemCertificates] {
        if settings.is_set(key)? {
            return Err(unsupported(key));
        }
    }
    let mut builder = ClientBuilder::new()
        .user_agent(
            settings
                .text(Key::UserAgent)
                .unwrap_or(concat!("fuseloop/", env!("CARGO_PKG_VERSION")).into()),
        )
        .https_only(!settings.is_set(Key::AllowHttp)?)
        .redirect(policy(allowed))
        .tls_backend_preconfigured(tls()?);
    if let Some(token) = token {
        let mut value = HeaderValue::from_str(&token.header())?;
        value.set_sensitive(true);
        builder = builder.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
    }
    if let Some(time) = settings.time(Key::ConnectTimeout)? {
        builder = builder.connect_timeout(time);
    }
    if let Some(time) = settings.time(Key::PoolIdleTimeout)? {
        builder = builder.pool_idle_timeout(time);
    }
    if let Some(most) = settings.text(Key::PoolMaxIdlePerHost) {
        builder = builder.pool_max_idle_per_host(most.parse()?);
    }
    if settings.is_set(Key::Http1Only)? {
        builder = builder.http1_only();
    }
    if settings.is_set(Key::Http2Only)? {
        builder = builder.http2_prior_knowledge();
    }
    if settings.is_set(Key::RandomizeAddresses)? {
        builder = builder.dns_resolver(Arc::new(ShuffledAddresses));
    }
    if let Some(proxy) = proxy(settings)? {
        builder = builder.proxy(proxy);
    }
    Ok(HttpClient::new(PoliteClient(builder.build()?)))
}

fn policy(allowed: Allowed) -> Policy {
    Policy::custom(move |attempt| match allowed.check(attempt.previous(), attempt.url()) {
        Ok(()) => attempt.follow(),
        Err(refused) => attempt.error(refused),
    })
}

fn proxy(settings: &StoreSettings<'_>) -> Result<Option<Proxy>, BoxError> {
    if settings.text(Key::ProxyCaCertificate).is_some() {
        return Err(unsupported(Key::ProxyCaCertificate));
    }
    let Some(url) = settings.text(Key::ProxyUrl) else { return Ok(None) };
    let proxy = Proxy::all(url)?;
    Ok(Some(match settings.text(Key::ProxyExcludes) {
        Some(hosts) => proxy.no_proxy(NoProxy::from_string(&hosts)),
        None => proxy,
    }))
}

/// Trusts the certificates that the system trusts. On a system without any, `http://` can still be read.
fn tls() -> Result<rustls::ClientConfig, BoxError> {
    let builder = || {
        let provider = Arc::new(ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
    };
    let verified = builder()?.with_platform_verifier();
    let verified = match verified {
        Ok(verified) => verified,
        Err(_) => builder()?.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(verified.with_no_client_auth())
}

fn unsupported(key: Key) -> BoxError {
    format!("{} is not supported: name the certificate to trust in SSL_CERT_FILE", key.as_ref())
        .into()
}

/// The settings of `object_store`, which returns them as text.
struct StoreSettings<'a>(&'a ClientOptions);

impl StoreSettings<'_> {
    fn text(&self, key: Key) -> Option<String> {
        self.0.get_config_value(&key)
    }

    fn is_set(&self, key: Key) -> Result<bool, BoxError> {
        let text = self.text(key).unwrap_or_default().to_ascii_lowercase();
        match &*text {
            "1" | "true" | "on" | "yes" | "y" => Ok(true),
            "" | "0" | "false" | "off" | "no" | "n" => Ok(false),
            _ => Err(format!("{} is {text:?}, not true or false", key.as_ref()).into()),
        }
    }

    fn time(&self, key: Key) -> Result<Option<std::time::Duration>, BoxError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let time = humantime::parse_duration(&text);
        time.map(Some).map_err(|error| format!("{} is {text:?}: {error}", key.as_ref()).into())
    }
}

/// Returns a host's addresses in random order, so that connections are spread over its servers.
struct ShuffledAddresses;

impl Resolve for ShuffledAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let look_up = move || (name.as_str(), 0).to_socket_addrs();
            let mut found: Vec<SocketAddr> = tokio::task::spawn_blocking(look_up).await??.collect();
            let random = RandomState::new();
            found.sort_unstable_by_key(|address| random.hash_one(address));
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
