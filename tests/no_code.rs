//! A dataset is data: no name, path or value of one starts a program, reads the environment, opens a
//! connection or is unpickled.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use fuseloop::SampleId;
use fuseloop::source::{Dataset, FieldKind, OwnedValue, Source, Tar};
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path) -> Result<Arc<dyn Source>, String> {
    Dataset::open(path).map(|set| set.source().unwrap()).map_err(|error| error.to_string())
}

/// Names that a shell, Python or WebDataset would make something of, each leaving `marker`.
fn names(marker: &Path) -> Vec<String> {
    let marker = marker.display();
    let dir = "${PWD}";
    vec![
        format!("pipe:touch {marker}"),
        format!("pipe:touch {marker}; cat x.tar"),
        format!("|touch {marker}"),
        format!("$(touch {marker}).tar"),
        format!("`touch {marker}`.tar"),
        format!("x.tar; touch {marker}"),
        format!("x.tar && touch {marker}"),
        format!("!touch {marker}"),
        format!("__import__('os').system('touch {marker}')"),
        format!("{dir}/x.tar"),
        "$HOME/x.tar".to_owned(),
        "~/x.tar".to_owned(),
        "%USERPROFILE%/x.tar".to_owned(),
    ]
}

#[test]
fn a_name_is_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("marker");
    for name in names(&marker) {
        assert!(open(Path::new(&name)).is_err(), "{name}");
        assert!(!marker.exists(), "{name}");
    }
}

/// In the columns of a table, which name files and hold text.
#[test]
fn a_path_in_a_table_is_a_path_and_a_text_is_a_text() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("marker");
    let mut paths = names(&marker);
    paths.extend(
        ["http", "https", "s3", "gs", "ftp"].map(|kind| format!("{kind}://{address}/a.jpg")),
    );
    paths.extend([format!("http://{address}/a.jpg"), format!("\\\\{address}\\a.jpg")]);
    let mut table = "path,text,label\n".to_owned();
    for path in &paths {
        let text = path.replace('"', "\"\"");
        table.push_str(&format!("\"{text}\",\"{text}\",1\n"));
    }
    fs::write(dir.path().join("labels.csv"), table).unwrap();
    let source = open(&dir.path().join("labels.csv")).unwrap();
    assert_eq!(source.len(), paths.len() as u64);
    for sample in 0..source.len() {
        assert!(source.read(SampleId(sample)).is_err(), "{}", paths[sample as usize]);
    }
    assert!(!marker.exists());
    let connection = listener.accept().map(|_| ()).unwrap_err();
    assert_eq!(connection.kind(), io::ErrorKind::WouldBlock, "somebody came");
}

/// A pickle that makes the file `marker` when it is unpickled.
fn pickle(marker: &Path) -> Vec<u8> {
    format!("cos\nsystem\n(S'touch {}'\ntR.", marker.display()).into_bytes()
}

#[test]
fn a_pickle_is_bytes_and_an_array_of_objects_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("marker");
    let pickle = pickle(&marker);
    let archive = |members: &[(&str, &[u8])]| {
        let mut archive = tar::Builder::new(vec![]);
        for (name, data) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(data.len() as u64);
            archive.append_data(&mut header, name, *data).unwrap();
        }
        archive.into_inner().unwrap()
    };
    let extensions = ["pkl", "pickle", "pyd", "pth", "pt", "ten", "mp"];
    let members: Vec<(String, &[u8])> =
        extensions.iter().map(|ext| (format!("a.{ext}"), &pickle[..])).collect();
    let members: Vec<(&str, &[u8])> = members.iter().map(|(name, data)| (&**name, *data)).collect();
    let limits = fuseloop::Limits::DEFAULT;
    let tar = Tar::from_bytes(&archive(&members), &limits).unwrap();
    assert_eq!(tar.fields().len(), extensions.len());
    for (value, field) in tar.read(SampleId(0)).unwrap().iter().zip(tar.fields()) {
        assert_eq!((value, &field.kind), (&OwnedValue::Bytes(pickle.clone()), &FieldKind::Bytes));
    }
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    let header = format!("{header:<117}\n");
    let npy = [&b"\x93NUMPY\x01\x00\x76\x00"[..], header.as_bytes(), &pickle].concat();
    let told = Tar::from_bytes(&archive(&[("a.npy", &npy)]), &limits).map(drop).unwrap_err();
    assert!(told.to_string().contains("pickle"), "{told}");
    assert!(!marker.exists());
}
