//! The stores that hold objects: one for each bucket or host, shared by all its objects.
//!
//! A store holds open connections and credentials. It is dropped with the last open object in it.
//!
//! [`client`](super::client) sends the requests and checks each redirect. [`fetch`](super::fetch) has
//! its own retries and timeouts for each request; those of the stores are turned off, because a store
//! would continue a body that broke off with whatever bytes the server then returns.

use super::address::StoreAt;
use super::cause::Cause;
use super::client::{Connector, HubConnector};
use super::hub;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::list::PaginatedListStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A store of objects.
pub(super) trait Store: ObjectStore {
    /// Returns what lists the objects; `None` for a web server, which has no list.
    fn lister(&self) -> Option<&dyn PaginatedListStore>;
}

impl Store for AmazonS3 {
    fn lister(&self) -> Option<&dyn PaginatedListStore> {
        Some(self)
    }
}

impl Store for GoogleCloudStorage {
    fn lister(&self) -> Option<&dyn PaginatedListStore> {
        Some(self)
    }
}

impl Store for HttpStore {
    fn lister(&self) -> Option<&dyn PaginatedListStore> {
        None
    }
}

/// Returns the store of a bucket or host.
///
/// # Errors
///
/// If the store's settings are wrong.
pub(super) fn store(at: &StoreAt) -> Result<Arc<dyn Store>, Cause> {
    Cause::check_endpoint(at)?;
    static OPEN: Mutex<Option<HashMap<StoreAt, Weak<dyn Store>>>> = Mutex::new(None);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    if let Some(store) = open.get(at).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let store = build(at)?;
    open.retain(|_, store| store.strong_count() > 0);
    open.insert(at.clone(), Arc::downgrade(&store));
    Ok(store)
}

fn build(at: &StoreAt) -> Result<Arc<dyn Store>, Cause> {
    let token = hub::token(at)?;
    built(at, token).map_err(|error| Cause::settings(&error))
}

fn built(at: &StoreAt, token: Option<hub::Token>) -> Result<Arc<dyn Store>, object_store::Error> {
    let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    Ok(match at {
        StoreAt::S3 { bucket } => Arc::new(
            AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_http_connector(Connector)
                .with_retry(once)
                .build()?,
        ),
        StoreAt::Google { bucket } => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_http_connector(Connector)
                .with_retry(once)
                .build()?,
        ),
        StoreAt::Http { base } => {
            // A user who writes http:// has allowed it.
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(base).with_client_options(options);
            Arc::new(builder.with_http_connector(Connector).with_retry(once).build()?)
        }
        StoreAt::Hub { base } => {
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(base).with_client_options(options);
            Arc::new(builder.with_http_connector(HubConnector(token)).with_retry(once).build()?)
        }
    })
}
