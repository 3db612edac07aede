//! The hashes of files that an index lists, compared by `verify`: sha1 and sha256. Others are not compared.

use crate::source::shards::Shard;
use hmac_sha256::Hash as Sha256;
use sha1_smol::Sha1;
use std::fmt::Write as _;

/// The bytes of a file that are read at once.
const PIECE: u64 = 1 << 20;

/// Returns what is wrong with a file: it can't be read, or one of its hashes is another.
pub(super) fn difference(file: &Shard, hashes: &[(String, String)]) -> Option<String> {
    let known = hashes.iter().find_map(|(name, digest)| Some((Hasher::new(name)?, name, digest)));
    let (mut hasher, name, listed) = known?;
    let (mut buffer, mut at) = (vec![], 0);
    while at < file.bytes.len() {
        let size = PIECE.min(file.bytes.len() - at);
        match file.bytes.get(at, size, &mut buffer) {
            Ok(bytes) => hasher.update(bytes),
            Err(error) => return Some(format!("{}: {error}", file.location)),
        }
        at += size;
    }
    let found = hasher.hex();
    (found != *listed).then(|| {
        format!(
            "{}: its {name} is {found}, and the index lists {listed}: copy the shard again",
            file.location
        )
    })
}

/// A hash of bytes that arrive in pieces.
enum Hasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    fn new(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(Self::Sha1(Sha1::new())),
            "sha256" => Some(Self::Sha256(Sha256::new())),
            _ => None,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    fn hex(self) -> String {
        match self {
            Self::Sha1(hash) => hash.digest().to_string(),
            Self::Sha256(hash) => hash.finalize().iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            }),
        }
    }
}
