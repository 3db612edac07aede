//! Chromium without a window, driven by the Chrome DevTools Protocol over pipes: messages of JSON, each with a zero
//! byte at its end, on the descriptors 3 and 4. A shell moves the pipes there, so that no crate is needed.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
--disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe";

/// How long the page may take for anything that a test waits for, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    profile: tempfile::TempDir,
    session: Option<String>,
    number: u64,
    /// Errors of the page: exceptions, and what it logged as one.
    pub(super) errors: Vec<String>,
}

impl Browser {
    /// Starts a browser, or prints that there is none.
    pub(super) fn start() -> Option<Self> {
        let is_there = |name: &&&str| {
            let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
            found.is_ok_and(|found| found.status.success())
        };
        let Some(name) = NAMES.iter().find(is_there) else {
            println!("no Chromium: the page is not tested in a browser");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let dir = profile.path().display();
        let line = format!(
            "exec {name} {FLAGS} --user-data-dir={dir} about:blank 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let from = BufReader::new(from);
        let (session, number, errors) = (None, 0, vec![]);
        let mut browser = Self { child, to, from, profile, session, number, errors };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let targets = self.send("Target.getTargets", &json!({}));
        let targets = targets["targetInfos"].as_array().unwrap();
        let page = targets.iter().find(|target| target["type"] == "page").unwrap();
        let page = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = self.send("Target.attachToTarget", &page);
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.send(domain, &json!({}));
        }
        let size = json!({ "width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.send("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sends a command and returns its result. Errors of the page that arrive meanwhile are kept.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        loop {
            let mut bytes = vec![];
            self.from.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended: {:?}", self.child.try_wait());
            let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let is_error = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => params["type"] == "error",
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(params.to_string());
        }
    }

    /// Evaluates an expression in the page.
    pub(super) fn eval(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut found = self.send("Runtime.evaluate", &params);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(super) fn wait(&mut self, expression: &str) {
        let start = Instant::now();
        while self.eval(&format!("!!({expression})")) != json!(true) {
            assert!(start.elapsed() < PATIENCE, "{expression}; errors: {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn open(&mut self, url: &str) {
        self.send("Page.navigate", &json!({ "url": url }));
        self.wait("window.studio && studio.done > 0 && document.querySelector('.cell canvas')");
    }

    /// Presses a key, with its code for keys that have no text; `modifiers` are the protocol's: 1 Alt, 2 Ctrl.
    pub(super) fn press(&mut self, key: &str, code: u32, modifiers: u32) {
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
        if key.chars().count() == 1 && modifiers == 0 {
            down["text"] = json!(key);
        }
        self.send("Input.dispatchKeyEvent", &down);
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers });
        self.send("Input.dispatchKeyEvent", &up);
    }

    pub(super) fn write(&mut self, text: &str) {
        self.send("Input.insertText", &json!({ "text": text }));
    }

    /// Clicks the middle of the first element of a selector.
    pub(super) fn click(&mut self, selector: &str) {
        let at = self.eval(&format!(
            "(() => {{ const node = document.querySelector({selector:?}); node.scrollIntoView({{ block: 'center' }}); \
             const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1 });
            self.send("Input.dispatchMouseEvent", &event);
        }
    }

    /// Emulates a system in light or dark colours.
    pub(super) fn theme(&mut self, name: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": name });
        self.send("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Saves a picture of the page.
    pub(super) fn screenshot(&mut self, path: &Path) {
        let found = self.send("Page.captureScreenshot", &json!({ "format": "png" }));
        std::fs::write(path, base64(found["data"].as_str().unwrap())).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.profile.path();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let (mut bytes, mut bits, mut count) = (vec![], 0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        bits = bits << 6 | u32::from(value(byte));
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}
