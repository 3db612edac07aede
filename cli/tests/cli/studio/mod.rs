//! The page of `fuseloop studio`: its server, its pixels, and the page itself in a browser.

mod browser;
mod clips;
mod hostile;
mod page;
mod pixels;
mod server;
