//! Answers requests, each on a thread of its own, of which there are few at a time.

use super::connections::{Connection, Connections};
use super::guard::{Asked, Guard};
use super::http::{self, Refusal, Request, Response};
use super::session::Session;
use fuseloop::internals::threads::builder;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// The files of the page.
const FILES: [(&str, &str, &str); 14] = [
    ("", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("app.js", SCRIPT, include_str!("page/app.js")),
    ("call.js", SCRIPT, include_str!("page/call.js")),
    ("cards.js", SCRIPT, include_str!("page/cards.js")),
    ("controls.js", SCRIPT, include_str!("page/controls.js")),
    ("dataset.js", SCRIPT, include_str!("page/dataset.js")),
    ("dom.js", SCRIPT, include_str!("page/dom.js")),
    ("editor.js", SCRIPT, include_str!("page/editor.js")),
    ("grid.js", SCRIPT, include_str!("page/grid.js")),
    ("plan.js", SCRIPT, include_str!("page/plan.js")),
    ("player.js", SCRIPT, include_str!("page/player.js")),
    ("sample.js", SCRIPT, include_str!("page/sample.js")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Answers requests until the process ends.
pub(super) fn serve(listener: &TcpListener, guard: Guard, session: Session) {
    let shared = Arc::new((guard, session));
    let connections = Connections::default();
    for stream in listener.incoming() {
        // A connection that is gone before it was accepted, or a lack of descriptors, passes.
        let Ok(mut stream) = stream else {
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        };
        let _ = stream.set_nodelay(true);
        let Some(connection) = connections.open(&stream) else {
            // Nothing is read of it, so that a flood can't hold this thread.
            let _ = stream.set_nonblocking(true);
            http::send(&mut stream, &Response::refused(&Refusal::new(503, "too many requests")));
            continue;
        };
        let shared = Arc::clone(&shared);
        let work = move || answer(&mut stream, &connection, &shared.0, &shared.1);
        // Without a thread, the connection is closed.
        let _ = builder("fuseloop-studio".to_owned()).and_then(|thread| thread.spawn(work));
    }
}

fn answer(stream: &mut TcpStream, connection: &Connection, guard: &Guard, session: &Session) {
    let response = match http::read(stream) {
        Ok(None) => return,
        Ok(Some(request)) => respond((stream, connection), &request, guard, session),
        Err(refusal) => Err(refusal),
    };
    let response = response.unwrap_or_else(|refusal| Response::refused(&refusal));
    http::send(stream, &response);
}

fn respond(
    (stream, connection): (&TcpStream, &Connection),
    request: &Request,
    guard: &Guard,
    session: &Session,
) -> Result<Response, Refusal> {
    match guard.check(request)? {
        Asked::File(name) => {
            let file = FILES.iter().find(|(known, ..)| *known == name);
            let (_, kind, text) = file.ok_or_else(|| Refusal::new(404, "no such file"))?;
            Ok(Response { status: 200, kind, body: text.as_bytes().to_vec() })
        }
        Asked::Call(name) => {
            let body = serde_json::from_slice(&request.body);
            let body = body.map_err(|error| Refusal::new(400, format!("not JSON: {error}")))?;
            connection.compute(stream, |caller| session.call(name, &body, caller))?
        }
    }
}
