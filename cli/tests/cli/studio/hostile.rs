//! Requests that are not the page's are refused, and the server lives.

use super::server::Studio;
use crate::command::stdout_of;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Puts a small dataset of drawn pictures into a folder, as `demo`: they are drawn once for all tests.
pub(super) fn demo(dir: &Path) {
    static DRAWN: OnceLock<PathBuf> = OnceLock::new();
    let drawn = DRAWN.get_or_init(|| {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("studio-demo");
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).unwrap();
        stdout_of(&kept, &["demo", "--out", "sheet.png", "--keep", "demo"]);
        kept.join("demo")
    });
    std::os::unix::fs::symlink(drawn, dir.join("demo")).unwrap();
}

/// Checks that the server answers the page.
fn lives(studio: &Studio) {
    let opened = studio.json("open", &json!({}));
    assert!(opened["samples"].as_u64().unwrap() > 0);
}

#[test]
fn hostile_requests_are_refused_and_the_server_lives() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    fs::write(dir.path().join("secret.toml"), "secret = 1").unwrap();
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let (host, token) = (studio.address.to_string(), studio.token.as_str());
    let port = studio.address.port();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let post = |path: &str, more: &str, body: &str| {
        format!(
            "POST /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )
    };
    const JSON: &str = "Content-Type: application/json\r\n";
    let long = "x".repeat(40_000);
    let many: String = (0..100).map(|n| format!("X-{n}: 1\r\n")).collect();
    let wrong = "0".repeat(32);
    let requests: Vec<(&str, String, &[u16])> = vec![
        ("no token", get("/"), &[403]),
        ("a wrong token", get(&format!("/{wrong}/")), &[403]),
        ("a token cut short", get(&format!("/{}/", &token[..31])), &[403]),
        ("the token in another case", get(&format!("/{}/", token.to_uppercase() + "G")), &[403]),
        ("a path upwards", get(&format!("/{token}/../secret.toml")), &[404]),
        ("an absolute path", get(&format!("/{token}//etc/passwd")), &[404]),
        ("a coded path", get(&format!("/{token}/%2e%2e%2fsecret.toml")), &[404]),
        ("a file of the folder", get(&format!("/{token}/secret.toml")), &[404]),
        ("an address for a proxy", get("http://example.com/"), &[403]),
        (
            "a foreign host, as after DNS rebinding",
            format!("GET /{token}/ HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"),
            &[403],
        ),
        ("no host", format!("GET /{token}/ HTTP/1.1\r\n\r\n"), &[403]),
        (
            "two hosts",
            format!("GET /{token}/ HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n"),
            &[400],
        ),
        (
            "a foreign origin",
            post("api/open", &format!("{JSON}Origin: http://evil.example\r\n"), "{}"),
            &[403],
        ),
        (
            "the origin of a file",
            post("api/open", &format!("{JSON}Origin: null\r\n"), "{}"),
            &[403],
        ),
        (
            "another site",
            post("api/open", &format!("{JSON}Sec-Fetch-Site: cross-site\r\n"), "{}"),
            &[403],
        ),
        ("a form", post("api/open", "Content-Type: text/plain\r\n", "{}"), &[415]),
        ("a call by GET", get(&format!("/{token}/api/open")), &[405]),
        ("another method", format!("DELETE /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), &[405]),
        ("an unknown call", post("api/shell", JSON, "{}"), &[404]),
        ("a body that is not JSON", post("api/grid", JSON, "{"), &[400]),
        ("deep JSON", post("api/grid", JSON, &"[".repeat(100_000)), &[400]),
        ("a list in place of an object", post("api/grid", JSON, "[]"), &[400]),
        ("a long path", get(&format!("/{token}/{long}")), &[431]),
        ("many headers", format!("GET /{token}/ HTTP/1.1\r\nHost: {host}\r\n{many}\r\n"), &[400]),
        (
            "a body of 1 TB",
            format!(
                "POST /{token}/api/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000000000\r\n\r\n"
            ),
            &[413],
        ),
        (
            "a length below zero",
            format!(
                "POST /{token}/api/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n"
            ),
            &[400],
        ),
        (
            "a body in chunks without an end",
            format!(
                "POST /{token}/api/open HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n"
            ),
            &[411],
        ),
        ("no HTTP", "\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), &[400]),
    ];
    for (what, request, want) in requests {
        let (status, body) = studio.send(request.as_bytes()).unwrap();
        let body = String::from_utf8_lossy(&body);
        assert!(want.contains(&status), "{what}: {status}, expected {want:?}: {body}");
        assert!(!body.contains("secret = 1"), "{what}");
    }
    lives(&studio);
}

#[test]
fn a_flood_of_silent_connections_passes() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(studio.address).unwrap();
            let _ = stream.write_all(b"GET / HT");
            stream
        })
        .collect();
    let page = format!("GET /{}/ HTTP/1.1\r\nHost: {}\r\n\r\n", studio.token, studio.address);
    let start = Instant::now();
    let answer = studio.send(page.as_bytes());
    assert_eq!(answer.map(|(status, _)| status), Some(200));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    drop(silent);
    lives(&studio);
}

/// Clients that send a byte at a time, and come again as soon as they are refused.
#[test]
fn slow_connections_leave_room_for_the_page() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(studio.address) else { continue };
                    while !ends.load(Ordering::Relaxed) && stream.write_all(b"G").is_ok() {
                        std::thread::sleep(Duration::from_millis(200));
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        let page = format!("GET /{}/ HTTP/1.1\r\nHost: {}\r\n\r\n", studio.token, studio.address);
        let opened = (0..20).filter(|_| {
            let start = Instant::now();
            let answer = studio.send(page.as_bytes());
            answer.is_some_and(|(status, _)| status == 200) && start.elapsed().as_secs() < 3
        });
        let opened = opened.count();
        ends.store(true, Ordering::Relaxed);
        assert_eq!(opened, 20);
    });
    lives(&studio);
}

/// They are refused by the op that makes them, before a pixel is computed.
#[test]
fn images_that_are_too_large_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let crop = "{ op = \"CenterCrop\", size = 64 }";
    let list = |ops: &str| json!({ "text": format!("[fields]\nimage = [\n    {ops},\n]\n") });
    let start = Instant::now();
    for (ops, op, index) in [
        ("{ op = \"Resize\", size = [13000, 13000] }".to_owned(), "Resize", 0),
        (format!("{{ op = \"Pad\", padding = 6000 }}, {crop}"), "Pad", 0),
        (format!("{crop},\n    {{ op = \"Resize\", size = [5000, 5000] }}, {crop}"), "Resize", 1),
    ] {
        for (call, pictures) in [("grid", "cells"), ("sample", "steps")] {
            let (header, found) = studio.pictures(call, &list(&ops), pictures);
            let fault = &header["fault"];
            let message = fault["message"].as_str().unwrap_or_default();
            assert!(message.starts_with(&format!("{op} makes an image of ")), "{call}: {header}");
            assert!(message.ends_with("the studio makes images of at most 16777216"), "{message}");
            assert_eq!(
                (&fault["path"], &fault["line"]),
                (&json!([index]), &json!(3 + index)),
                "{fault}"
            );
            assert!(fault["cure"].as_str().unwrap().starts_with("use smaller sizes"), "{fault}");
            assert!(found.is_empty());
        }
        let plan = studio.json("plan", &list(&ops));
        assert!(plan["fault"].is_object(), "{plan}");
    }
    // Images that are small enough, of which there are too many.
    let mut many = list("{ op = \"Resize\", size = [4000, 4000] }");
    (many["rows"], many["draws"]) = (json!(32), json!(4));
    let (header, _) = studio.pictures("grid", &many, "cells");
    let fault = &header["fault"];
    assert!(fault["message"].as_str().unwrap().contains("more than 134217728 pixels"), "{header}");
    assert!(fault["cure"].as_str().unwrap().contains("fewer samples or draws"), "{header}");
    (many["rows"], many["draws"]) = (json!(1), json!(2));
    let (header, pictures) = studio.pictures("grid", &many, "cells");
    assert_eq!(pictures.len(), 2, "{header}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    #[cfg(target_os = "linux")]
    assert!(studio.memory() < 800 << 20, "{} bytes", studio.memory());
    lives(&studio);
}

#[cfg(target_os = "linux")]
#[test]
fn work_ends_when_its_page_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let text = "[fields]\nimage = [{ op = \"Resize\", size = [1000, 1000] }, { op = \"GaussianBlur\", kernel_size = 23 }]";
    let body = json!({ "text": text, "rows": 8, "draws": 16 });
    // Compiled, and the images decoded.
    studio.call("grid", &json!({ "text": text, "rows": 8, "draws": 1 }));
    let before = studio.cpu();
    studio.call("grid", &body);
    let whole = studio.cpu() - before;
    let before = studio.cpu();
    let body = body.to_string();
    let (host, token) = (studio.address, &studio.token);
    let head = format!(
        "POST /{token}/api/grid HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    while studio.cpu() == before {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    // Until no more is computed.
    let mut last = 0;
    while last != studio.cpu() {
        last = studio.cpu();
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!((last - before) * 2 < whole, "{} of {whole} ticks", last - before);
    lives(&studio);
}

#[test]
fn an_op_is_added_where_it_fits() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let op = |name: &str, params: Value| json!({ "op": name, "params": params, "ops": [] });
    let list = json!([
        op("Resize", json!({ "size": [32, 32] })),
        op("Normalize", json!({ "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5] })),
        op("ToChannelsFirst", json!({})),
    ]);
    let place = |new: Value| {
        let body = json!({ "text": "", "field": "image", "ops": list, "op": new });
        studio.json("place", &body)["index"].clone()
    };
    // Two that work on levels alone, one that moves any pixels, and one that comes at the end.
    assert_eq!(place(op("RandomEqualize", json!({ "p": 1.0 }))), 1);
    assert_eq!(place(op("RandomInvert", json!({ "p": 1.0 }))), 1);
    assert_eq!(place(op("RandomHorizontalFlip", json!({}))), 3);
    assert_eq!(place(op("Convert", json!({ "to": "f16" }))), 3);
    // An op that fits nowhere goes to the end, where its error is shown.
    assert_eq!(place(op("OneHot", json!({ "classes": 8 }))), 3);
}

#[test]
fn a_list_that_no_loader_takes_is_not_saved() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton", "--pipeline", "new.toml"]);
    let text = |ops: &str| json!({ "text": format!("[fields]\nimage = [{{ op = \"Resize\", size = [16, 16] }}, {ops}]\n") });
    let refused =
        studio.json("save", &text("{ op = \"Normalize\", mean = [0.5, 0.5, 0.5], std = [0.5, 0.5, 0.5] }, { op = \"RandomEqualize\", p = 1.0 }"));
    let message = refused["fault"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("RandomEqualize takes"), "{refused}");
    assert_eq!(refused["fault"]["path"], json!([2]));
    assert!(!dir.path().join("new.toml").exists());
    let saved =
        studio.json("save", &text("{ op = \"RandomEqualize\", p = 1.0 }, \"ToChannelsFirst\""));
    assert_eq!(saved, json!({ "saved": "new.toml" }));
}

#[test]
fn hostile_pipelines_are_faults_and_the_server_lives() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let op = json!({ "op": "RandomHorizontalFlip", "params": {}, "ops": [] });
    let mut deep = op.clone();
    for _ in 0..30 {
        deep = json!({ "op": "RandomApply", "params": { "ops": null }, "ops": [deep] });
    }
    let long = vec![op.clone(); 300];
    let resize = |size: &str| json!({ "text": format!("[fields]\nimage = [{{ op = \"Resize\", size = {size} }}]") });
    for (what, body) in [
        ("no TOML", json!({ "text": "[[[" })),
        ("many ops", json!({ "text": "", "field": "image", "ops": long })),
        ("deep containers", json!({ "text": "", "field": "image", "ops": [deep] })),
        ("ops that are no ops", json!({ "text": "", "field": "image", "ops": [1, null, [], {}] })),
        ("a long text", json!({ "text": "#".repeat(2 << 20) })),
        ("deep TOML", json!({ "text": format!("a = {}", "[".repeat(100_000)) })),
        ("a huge picture", resize("1000000")),
        ("a negative size", resize("-1")),
        ("a size that is no number", resize("nan")),
        ("another op", json!({ "text": "[fields]\nimage = [\"RandomResizedCop\"]" })),
        ("another field", json!({ "text": "[fields]\nphoto = []" })),
    ] {
        let (header, pictures) = studio.pictures("grid", &body, "cells");
        assert!(header["fault"]["message"].is_string(), "{what}: {header}");
        assert!(pictures.is_empty(), "{what}");
        lives(&studio);
    }
    // Counts are cut to what a grid may have, and a sample that does not exist is a fault.
    let flips = "[fields]\nimage = [{ op = \"Resize\", size = [16, 16] }]";
    let most = u64::MAX;
    let body = json!({ "text": flips, "rows": most, "draws": most, "epoch": most, "side": most, "page": most });
    let (header, _) = studio.pictures("grid", &body, "cells");
    assert!(header["cells"].as_array().unwrap().len() <= 128, "{header}");
    let body = json!({ "text": flips, "rows": 4_000_000_000_u64, "draws": 4_000_000_000_u64, "epoch": 4_294_967_295_u64 });
    let (header, _) = studio.pictures("grid", &body, "cells");
    assert!(header["cells"].as_array().unwrap().len() <= 128, "{header}");
    let (header, _) = studio.pictures("sample", &json!({ "text": flips, "sample": most }), "steps");
    assert!(header["fault"].is_object(), "{header}");
    let (header, _) = studio.pictures("thumbs", &json!({ "offset": most, "count": most }), "cells");
    assert_eq!(header["cells"], json!([]));
    lives(&studio);
}

#[test]
fn an_error_has_its_place_and_its_cure() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let fault = |text: &str| {
        let (header, _) = studio.pictures("grid", &json!({ "text": text }), "cells");
        header["fault"].clone()
    };
    let found = fault(
        "[fields]\nimage = [\n    { op = \"RandomApply\", ops = [{ op = \"RandomHorizontalFlip\", p = 2.0 }] },\n]\n",
    );
    assert_eq!(
        (&found["field"], &found["path"], &found["param"]),
        (&json!("image"), &json!([0, 0]), &json!("p"))
    );
    assert_eq!(found["line"], 3);
    assert!(found["cure"].as_str().unwrap().starts_with("p takes a number"), "{found}");
    // An error of the plan, which is found when the loader is built.
    let found = fault(
        "[fields]\nimage = [\n    { op = \"Resize\", size = [16, 16] },\n    \"ToChannelsFirst\",\n    { op = \"OneHot\", classes = 8 },\n]\n",
    );
    assert_eq!((&found["path"], &found["line"]), (&json!([2]), &json!(5)), "{found}");
    assert_eq!(fault("seed = \"x\"")["line"], 1);
    // Images of a .beton file are no frames.
    let found = fault("[clips]\nsampler = \"random\"\nframes = 4\n");
    assert!(
        found["message"].as_str().unwrap().contains("open the folder of the images"),
        "{found}"
    );
}

#[test]
fn only_the_named_file_is_written() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let text = "[fields]\nimage = [{ op = \"Resize\", size = [16, 16] }]\n";
    let unnamed = Studio::start(dir.path(), &["demo/demo.beton"]);
    let body = json!({ "text": text, "path": "other.toml", "file": "other.toml" });
    assert!(unnamed.json("save", &body)["fault"].is_object());
    let named = Studio::start(dir.path(), &["demo/demo.beton", "--pipeline", "new.toml"]);
    assert_eq!(named.json("save", &body), json!({ "saved": "new.toml" }));
    assert_eq!(fs::read_to_string(dir.path().join("new.toml")).unwrap(), text);
    assert!(named.json("save", &json!({ "text": "[[[" }))["fault"].is_object());
    assert_eq!(named.json("load", &json!({})), json!({ "text": text }));
    assert!(!dir.path().join("other.toml").exists());
}

#[test]
fn code_has_the_pipeline() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    let text = "batch_size = 32\n[fields]\nimage = [{ op = \"RandomResizedCrop\", size = { from = 96, to = 128, epochs = 5, step = 32 } }, { op = \"RandomApply\", ops = [\"RandomVerticalFlip\"], p = 0.5 }]\n";
    let code = |language: &str| {
        let found: Value = studio.json("export", &json!({ "text": text, "language": language }));
        found["code"].as_str().unwrap().to_owned()
    };
    let python = code("python");
    for line in [
        "    batch_size=32,",
        "    image=lambda epoch: [",
        "        ops.RandomResizedCrop(size=round((96 + (128 - 96) * min(max((epoch - 0) / max(5 - 1, 1), 0), 1)) / 32) * 32),",
        "        ops.RandomApply(ops=[ops.RandomVerticalFlip()], p=0.5),",
    ] {
        assert!(python.contains(line), "{line}\n{python}");
    }
    assert!(code("rust").contains(text.trim_end()));
}
