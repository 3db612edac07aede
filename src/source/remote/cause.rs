//! The causes of failed requests: one line with a next step, and whether to try again.
//!
//! | cause                                         | again | message                               |
//! |-----------------------------------------------|-------|---------------------------------------|
//! | no connection, a connection that broke        | yes   | the innermost error                   |
//! | no byte arrived within the time limit         | yes   | that time                             |
//! | 408, 429, 5xx                                 | yes   | the status                            |
//! | 401, 403; no credentials found on the machine | no    | the variables to set                  |
//! | 404                                           | no    | to check the name                     |
//! | an answer that is not HTTP; anything unknown  | few times | the innermost error               |
//! | a redirect that is not followed               | no    | both hosts, and how to allow it       |
//! | another ETag or length; 416                   | no    | the object changed                    |
//! | 200 for a range; another range                | no    | the server does not support ranges, or returned another range |
//!
//! The store's own message is not shown, because it contains the whole address.

use super::address::StoreAt;
use super::redirects::RefusedRedirect;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error;
use std::io;

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
}

impl Cause {
    /// A permanent cause.
    pub(super) fn lasting(kind: io::ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), passing: false, unlikely: false, unreached: false }
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

    /// Classifies a store's error.
    pub(super) fn of(error: &object_store::Error, store: &StoreAt) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } => Self::status(404, store),
            E::PermissionDenied { .. } => Self::status(403, store),
            E::Unauthenticated { .. } => Self::status(401, store),
            E::Precondition { .. } => Self::changed(),
            E::NotSupported { .. } => Self::no_ranges(),
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

    fn status(status: u16, store: &StoreAt) -> Self {
        match status {
            401 | 403 => Self::lasting(
                io::ErrorKind::PermissionDenied,
                format!("refused ({status}): {}", credentials(store)),
            ),
            404 => Self::lasting(
                io::ErrorKind::NotFound,
                "not found (404): check the name and the endpoint",
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

/// The next step when credentials are missing.
fn credentials(store: &StoreAt) -> &'static str {
    match store {
        StoreAt::S3 { .. } => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or for a public bucket \
             AWS_SKIP_SIGNATURE=true; check AWS_REGION"
        }
        StoreAt::Google { .. } => {
            "set GOOGLE_SERVICE_ACCOUNT, or for a public bucket GOOGLE_SKIP_SIGNATURE=true"
        }
        StoreAt::Http { .. } => "use an address that is signed, and has not expired",
    }
}

/// The status that a store's error message names: the error's type is private to the store.
fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Returns the first error of type `E` in a chain of sources.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
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
