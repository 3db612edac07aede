//! The hashes of files that an index lists, compared by `verify`: sha1, sha256, sha384 and sha512. Others are not compared.

use crate::source::shards::Shard;
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use std::fmt::Write as _;

/// The bytes of a file that are read at once.
const PIECE: u64 = 1 << 20;

/// Returns what is wrong with a file: it can't be read, or one of its hashes is another.
pub(super) fn difference(file: &Shard, hashes: &[(String, String)]) -> Option<String> {
    let known = hashes.iter().find_map(|(name, digest)| Some((algorithm(name)?, name, digest)));
    let (algorithm, name, listed) = known?;
    let (mut context, mut buffer, mut at) = (Context::new(algorithm), vec![], 0);
    while at < file.bytes.len() {
        let size = PIECE.min(file.bytes.len() - at);
        match file.bytes.get(at, size, &mut buffer) {
            Ok(bytes) => context.update(bytes),
            Err(error) => return Some(format!("{}: {error}", file.location)),
        }
        at += size;
    }
    let mut found = String::new();
    for byte in context.finish().as_ref() {
        let _ = write!(found, "{byte:02x}");
    }
    (found != *listed).then(|| {
        format!(
            "{}: its {name} is {found}, and the index lists {listed}: copy the shard again",
            file.location
        )
    })
}

fn algorithm(name: &str) -> Option<&'static Algorithm> {
    Some(match name {
        "sha1" => &SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => &SHA256,
        "sha384" => &SHA384,
        "sha512" => &SHA512,
        _ => return None,
    })
}
