//! The causes of failed requests: one line with a next step, and whether to try again.
//!
//! | cause                                         | again | message                               |
//! |-----------------------------------------------|-------|---------------------------------------|
//! | no connection, a connection that broke        | yes   | the innermost error                   |
//! | no byte arrived within the time limit         | yes   | that time                             |
//! | 408, 429, 5xx                                 | yes   | the status, and how long the server asks to wait |
//! | 401, 403; no credentials found on the machine | no    | the variables to set                  |
//! | 404                                           | no    | to check the name                     |
//! | an answer that is not HTTP; anything unknown  | few times | the innermost error               |
//! | `http://` without consent; a URL that is none | no    | the variable to set                   |
//! | a certificate that is not trusted; no TLS     | no    | the innermost error, and what to check |
//! | a redirect that is not followed               | no    | both hosts, and how to allow it       |
//! | another ETag or length; 416                   | no    | the object changed                    |
//! | 200 for a range; another range                | no    | the server does not support ranges, or returned another range |
//!
//! The store's own message is not shown, because it contains the whole address.

use super::address::StoreAt;
use super::client::Busy;
use super::hub;
use super::redirects::RefusedRedirect;
use object_store::client::{HttpError, HttpErrorKind};
use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::Duration;

/// The reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) kind: io::ErrorKind,
    pub(super) text: String,
    /// True if a later try may succeed.
    pub(super) passing: bool,
    /// True if success is unlikely: the cause is not known to be temporary.
    pub(super) unlikely: bool,
    /// True if no server was reached.
    pub(super) unreached: bool,
    /// How long the server asks to wait.
    pub(super) wait: Duration,
}

impl Cause {
    /// A permanent cause.
    pub(super) fn lasting(kind: io::ErrorKind, text: impl Into<String>) -> Self {
        let (text, wait) = (text.into(), Duration::ZERO);
        Self { kind, text, passing: false, unlikely: false, unreached: false, wait }
    }

    /// A temporary cause.
    pub(super) fn passing(kind: io::ErrorKind, text: impl Into<String>) -> Self {
        Self { passing: true, ..Self::lasting(kind, text) }
    }

    pub(super) fn changed() -> Self {
        Self::lasting(
            io::ErrorKind::InvalidData,
            "the object changed while it was read: open it again",
        )
    }

    pub(super) fn no_memory() -> Self {
        Self::lasting(io::ErrorKind::OutOfMemory, "not enough memory")
    }

    /// A store can't be built because the settings in the environment are wrong.
    pub(super) fn settings(error: &object_store::Error) -> Self {
        let text = format!("invalid settings: {}", innermost(error));
        Self::lasting(io::ErrorKind::InvalidInput, text)
    }

    /// Refuses an endpoint that is no URL, on which the store's client would panic, and one of the Hub with a password,
    /// which errors would show.
    pub(super) fn check_endpoint(store: &StoreAt) -> Result<(), Self> {
        if matches!(store, StoreAt::Hub { .. }) && hub::endpoint().contains('@') {
            let text = "HF_ENDPOINT has an @, expected a URL without a name and password: take them out, and log in \
                        by HF_TOKEN";
            return Err(Self::lasting(io::ErrorKind::InvalidInput, text));
        }
        let Some((name, value)) = endpoint(store) else { return Ok(()) };
        let lower = value.to_ascii_lowercase();
        let host = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
        if host.is_some_and(|host| !host.is_empty() && reqwest::Url::parse(&value).is_ok()) {
            return Ok(());
        }
        let text = format!("{name} is {value:?}, expected a URL such as https://host:9000");
        Err(Self::lasting(io::ErrorKind::InvalidInput, text))
    }

    /// Classifies a store's error.
    pub(super) fn of(error: &object_store::Error, store: &StoreAt) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } => Self::status(404, store),
            E::PermissionDenied { .. } => Self::status(403, store),
            E::Unauthenticated { .. } => Self::status(401, store),
            E::Precondition { .. } => Self::changed(),
            E::NotSupported { .. } => Self::no_ranges(),
            E::InvalidPath { .. } => Self::lasting(
                io::ErrorKind::InvalidData,
                format!(
                    "the list has a name that can't be read ({}): name the files by braces instead, as in x-{{000..127}}.tar",
                    innermost(error)
                ),
            ),
            other => Self::of_any(other, store),
        }
    }

    fn of_any(error: &object_store::Error, store: &StoreAt) -> Self {
        let message = error.to_string();
        // The addresses that a cloud machine asks for its own credentials.
        if ["/latest/api/token", "/latest/meta-data", "/computeMetadata/"]
            .iter()
            .any(|path| message.contains(path))
        {
            let text = format!("no credentials found: {}", credentials(store));
            return Self::lasting(io::ErrorKind::PermissionDenied, text);
        }
        if let Some(refused) = find::<RefusedRedirect>(error) {
            return Self::lasting(io::ErrorKind::PermissionDenied, refused.to_string());
        }
        if let Some(Busy { status, wait }) = find::<Busy>(error) {
            let text =
                format!("the server is busy ({status}) and asks to wait {} s", wait.as_secs());
            return Self { wait: *wait, ..Self::passing(io::ErrorKind::ResourceBusy, text) };
        }
        if let Some(lasting) = Self::of_request(error, store) {
            return lasting;
        }
        if let Some(error) = find::<HttpError>(error) {
            return Self::of_http(error);
        }
        if let Some(status) = status_in(&message) {
            return Self::status(status, store);
        }
        if message.contains("non-partial response") {
            return Self::no_ranges();
        }
        if message.contains("Requested ") && message.contains(", got ") {
            return Self::lasting(io::ErrorKind::InvalidData, "the server returned another range");
        }
        let text = format!("invalid answer from the server: {}", innermost(error));
        Self::lasting(io::ErrorKind::InvalidData, text)
    }

    /// The same cause, of a list of objects and not of one of them.
    pub(super) fn of_list(self) -> Self {
        let text = match self.kind {
            io::ErrorKind::NotFound => {
                "no such bucket (404): check its name and the endpoint".into()
            }
            io::ErrorKind::PermissionDenied if self.text.starts_with("refused") => format!(
                "the list of the bucket is {}; or name the files by braces, as in x-{{000..127}}.tar, which needs no list",
                self.text
            ),
            _ => self.text,
        };
        Self { text, ..self }
    }

    /// Causes for which the request was not sent at all, or no server was found that may be talked to.
    fn of_request(error: &object_store::Error, store: &StoreAt) -> Option<Self> {
        if find::<reqwest::Error>(error).is_some_and(reqwest::Error::is_builder) {
            return Some(match plain_http(store) {
                Some((name, value, consent)) => Self::lasting(
                    io::ErrorKind::PermissionDenied,
                    format!(
                        "{name} is {value}, which sends data and names unencrypted: set {consent}=true to allow it, or use https://"
                    ),
                ),
                None => Self::lasting(
                    io::ErrorKind::InvalidInput,
                    format!("the request can't be sent ({})", innermost(error)),
                ),
            });
        }
        let tls = find::<rustls::Error>(error)?;
        let advice = match tls {
            rustls::Error::InvalidCertificate(_) => {
                "check the host's name, or name the certificate to trust in SSL_CERT_FILE"
            }
            rustls::Error::InvalidMessage(_) => {
                "the server does not answer by https: check the port, or whether it is http://"
            }
            _ => return None,
        };
        Some(Self::lasting(
            io::ErrorKind::InvalidData,
            format!("no secure connection ({tls}): {advice}"),
        ))
    }

    fn of_http(error: &HttpError) -> Self {
        let text = innermost(error);
        let unreached = error.kind() == HttpErrorKind::Connect;
        let cause = match error.kind() {
            HttpErrorKind::Connect => Self::passing(
                io::ErrorKind::NotConnected,
                format!("no connection ({text}): check host, port and network"),
            ),
            HttpErrorKind::Timeout => Self::passing(io::ErrorKind::TimedOut, "no answer in time"),
            _ => Self::passing(
                io::ErrorKind::ConnectionAborted,
                format!("the connection broke ({text})"),
            ),
        };
        // A connection that broke has another kind.
        let unlikely = matches!(error.kind(), HttpErrorKind::Decode | HttpErrorKind::Unknown);
        Self { unlikely, unreached, ..cause }
    }

    fn no_ranges() -> Self {
        let text = "the server does not support range requests: use a server that does";
        Self::lasting(io::ErrorKind::Unsupported, text)
    }

    pub(super) fn status(status: u16, store: &StoreAt) -> Self {
        match status {
            401 | 403 => Self::lasting(
                io::ErrorKind::PermissionDenied,
                format!("refused ({status}): {}", credentials(store)),
            ),
            404 => Self::lasting(
                io::ErrorKind::NotFound,
                match store {
                    StoreAt::Hub { .. } => {
                        "no such dataset, revision or file (404): check the address"
                    }
                    _ => "not found (404): check the name and the endpoint",
                },
            ),
            416 => Self::changed(),
            408 | 429 | 500..=599 => Self::passing(
                io::ErrorKind::ResourceBusy,
                format!("the server is busy or broken ({status})"),
            ),
            301 | 307 | 308 => Self::lasting(
                io::ErrorKind::InvalidInput,
                format!(
                    "the bucket is in another region ({status}): check AWS_REGION and the endpoint"
                ),
            ),
            _ => Self::lasting(
                io::ErrorKind::InvalidData,
                format!("the server answered with status {status}"),
            ),
        }
    }
}

/// The variables that name a store's endpoint, and that which allows it to be `http://`.
fn endpoint_variables(store: &StoreAt) -> Option<(&'static [&'static str], &'static str)> {
    match store {
        StoreAt::S3 { .. } => {
            Some((&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"], "AWS_ALLOW_HTTP"))
        }
        StoreAt::Google { .. } => Some((&["GOOGLE_BASE_URL"], "GOOGLE_ALLOW_HTTP")),
        StoreAt::Hub { .. } => Some((&["HF_ENDPOINT"], "")),
        StoreAt::Http { .. } => None,
    }
}

/// The variable that is set to a store's endpoint, and its value without a name and password.
fn endpoint(store: &StoreAt) -> Option<(&'static str, String)> {
    let (names, _) = endpoint_variables(store)?;
    names.iter().find_map(|name| {
        let value = match store {
            StoreAt::Hub { .. } => hub::endpoint(),
            _ => std::env::var(name).ok()?,
        };
        let (scheme, rest) = value.split_once("://").unwrap_or(("", &value));
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        let sign = if value.contains("://") { "://" } else { "" };
        Some((*name, format!("{scheme}{sign}{host}")))
    })
}

/// The variable that is set to an endpoint by `http://`, its value, and the variable that allows it.
fn plain_http(store: &StoreAt) -> Option<(&'static str, String, &'static str)> {
    let (_, consent) = endpoint_variables(store)?;
    let (name, value) = endpoint(store)?;
    value.to_ascii_lowercase().starts_with("http://").then_some((name, value, consent))
}

/// The next step when credentials are missing.
fn credentials(store: &StoreAt) -> Cow<'static, str> {
    let text = match store {
        StoreAt::S3 { .. } => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or for a public bucket \
             AWS_SKIP_SIGNATURE=true; check AWS_REGION"
        }
        StoreAt::Google { .. } => {
            "set GOOGLE_SERVICE_ACCOUNT, or for a public bucket GOOGLE_SKIP_SIGNATURE=true"
        }
        StoreAt::Http { .. } => "use an address that is signed, and has not expired",
        StoreAt::Hub { base } => {
            let page = hub::page_of(base);
            return format!(
                "the dataset does not exist, is private, or is gated: check its name, accept its terms at {page}, and log in \
                 with a token that may read it (HF_TOKEN, or `hf auth login`)"
            )
            .into();
        }
    };
    text.into()
}

/// The status that a store's error message names: the error's type is private to the store.
fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Returns the first error of type `E` in a chain of sources, also inside of errors of the system.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        // `source` of an io::Error passes over the error that it holds.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = held.map(|held| held as &(dyn Error + 'static)).or_else(|| error.source());
    }
    None
}

/// The message of the last error in a chain of sources: the messages above it contain addresses.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
