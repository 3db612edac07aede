//! The open connections, of which there are few at a time, and the one that a call came by.
//!
//! | | |
//! |---|---|
//! | connections | at most 48. One more closes the oldest of those that only send or receive, so that slow clients can't keep others out |
//! | calls that compute | at most 16 at a time; more are refused |
//! | a connection that its client closes | ends the work of its call |

use super::http::Refusal;
use super::request::lock;
use std::io::{ErrorKind, Read as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};

/// The most connections. A browser opens six.
const MOST_CONNECTIONS: usize = 48;
/// The most calls that compute at a time.
const MOST_CALLS: usize = 16;

/// The open connections, the oldest first.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    open: Vec<Open>,
    /// The number of the next connection.
    next: u64,
}

struct Open {
    number: u64,
    stream: TcpStream,
    /// True while a call of it computes.
    computes: bool,
}

impl Connections {
    /// Counts a connection among the open ones. If there are many, the oldest that does not compute is closed; `None` if
    /// all compute, or the system has no descriptor left.
    pub(super) fn open(&self, stream: &TcpStream) -> Option<Connection> {
        let stream = stream.try_clone().ok()?;
        let mut held = lock(&self.0);
        if held.open.len() >= MOST_CONNECTIONS {
            let oldest = held.open.iter().position(|open| !open.computes)?;
            // Its thread waits for this socket, and ends.
            let _ = held.open.remove(oldest).stream.shutdown(Shutdown::Both);
        }
        let number = held.next;
        held.next += 1;
        held.open.push(Open { number, stream, computes: false });
        Some(Connection { all: self.clone(), number })
    }

    fn set(&self, number: u64, computes: bool) {
        let mut held = lock(&self.0);
        if let Some(open) = held.open.iter_mut().find(|open| open.number == number) {
            open.computes = computes;
        }
    }
}

/// A connection that counts among the open ones.
pub(super) struct Connection {
    all: Connections,
    number: u64,
}

impl Connection {
    /// Runs a call of this connection.
    ///
    /// # Errors
    ///
    /// If too many calls run.
    pub(super) fn compute<T>(
        &self,
        stream: &TcpStream,
        call: impl FnOnce(&Caller<'_>) -> T,
    ) -> Result<T, Refusal> {
        {
            let mut held = lock(&self.all.0);
            if held.open.iter().filter(|open| open.computes).count() >= MOST_CALLS {
                return Err(Refusal::new(503, "too many calls at a time: wait for their answers"));
            }
            if let Some(open) = held.open.iter_mut().find(|open| open.number == self.number) {
                open.computes = true;
            }
        }
        let _computing = Computing(self);
        Ok(call(&Caller { stream, asked: Mutex::default() }))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.all.0).open.retain(|open| open.number != self.number);
    }
}

/// A call that runs, also if it panics.
struct Computing<'a>(&'a Connection);

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.0.all.set(self.0.number, false);
    }
}

/// The client that waits for the answer of a call.
pub(super) struct Caller<'a> {
    stream: &'a TcpStream,
    /// Held while a thread asks: meanwhile the socket does not block.
    asked: Mutex<()>,
}

impl Caller<'_> {
    /// Returns true if the client has closed its connection: the answer has no reader.
    pub(super) fn is_gone(&self) -> bool {
        let _asked = lock(&self.asked);
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        // A request is one per connection: what follows it is not read by anyone.
        let mut rest = [0; 512];
        let mut stream = self.stream;
        let is_gone = loop {
            match stream.read(&mut rest) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        };
        is_gone || self.stream.set_nonblocking(false).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;

    /// Returns both ends of a connection: the client's, and the server's.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_client_that_leaves_is_gone() {
        let (mut client, server) = pair();
        let caller = Caller { stream: &server, asked: Mutex::default() };
        assert!(!caller.is_gone());
        client.write_all(b"more than the request").unwrap();
        assert!(!caller.is_gone());
        drop(client);
        let start = std::time::Instant::now();
        while !caller.is_gone() {
            assert!(start.elapsed().as_secs() < 10);
        }
    }

    #[test]
    fn one_more_connection_closes_the_oldest_that_does_not_compute() {
        let all = Connections::default();
        let mut held: Vec<_> = (0..MOST_CONNECTIONS)
            .map(|_| {
                let (client, server) = pair();
                (client, all.open(&server).unwrap())
            })
            .collect();
        let (_, last) = pair();
        let (first, computing) = held.remove(0);
        let ran = computing.compute(&first, |_| {
            let _open = all.open(&last).unwrap();
            lock(&all.0).open.iter().map(|open| open.number).take(2).collect::<Vec<_>>()
        });
        assert_eq!(ran.unwrap(), [0, 2], "the second connection was closed");
    }

    #[test]
    fn few_calls_compute_at_a_time() {
        let all = Connections::default();
        let (_client, server) = pair();
        let one = all.open(&server).unwrap();
        fn nested(all: &Connections, server: &TcpStream, depth: usize) -> usize {
            let own = all.open(server).unwrap();
            own.compute(server, |_| nested(all, server, depth + 1)).unwrap_or(depth)
        }
        assert_eq!(nested(&all, &server, 0), MOST_CALLS);
        assert!(one.compute(&server, |_| ()).is_ok(), "calls that end make room");
    }
}
