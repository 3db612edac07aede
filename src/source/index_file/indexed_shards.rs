//! Opens the shards of a dataset with their indexes: from a joined index, from the file beside a shard, or by a scan.

use super::joined::JoinedIndex;
use super::listed_file::ListedFile;
use super::{Kind, digest, load};
use crate::error::{Error, fail};
use crate::parallel;
use crate::sample::Limits;
#[cfg(feature = "tar")]
use crate::source::columns::As;
use crate::source::file::FileBytes;
use crate::source::shards::{MemberNames, PackedIndex, Shard, ShardIndex, Shards};
use crate::source::{BoxError, Location};
use crate::threads::ThreadsError;
use crate::warnings::warn;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of shards without an index from which an index is advised.
const MANY: usize = 1000;

/// The number of samples whose positions are not packed, as far as their shards have no joined index: of so many, they take
/// 65 MB.
const LISTED_SAMPLES: usize = 1_000_000;

/// The number of folders up to which their indexes stay open: a run then goes on with its index while another is written.
const MANY_FOLDERS: usize = 64;

/// The shards of a dataset, with the positions of their samples.
#[cfg_attr(not(feature = "tar"), allow(dead_code, reason = "TFRecords need half of it"))]
pub(in crate::source) struct IndexedShards {
    pub(in crate::source) shards: Shards,
    pub(in crate::source) indexes: Vec<PackedIndex>,
    /// The names of the members of all shards.
    pub(in crate::source) names: MemberNames,
    /// Shards that were scanned and may have been cut short.
    pub(in crate::source) unended: Vec<Location>,
}

/// The samples of a shard that was scanned.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::source) struct Scanned {
    pub(in crate::source) index: ShardIndex,
    /// True if the archive ends without the zeros that end one: it may have been cut short.
    pub(in crate::source) is_open: bool,
}

/// The index of a shard that was opened.
struct Opened {
    index: PackedIndex,
    /// By the numbers that `index` has for them.
    names: Vec<String>,
    is_open: bool,
}

impl IndexedShards {
    /// Opens the shards of a list. Those that are listed in a joined index of their folder are not looked at.
    ///
    /// # Errors
    ///
    /// Fails if a joined index is damaged, if a shard can't be opened, or if its index does not belong to it; or as `scan`
    /// does.
    pub(in crate::source) fn at<E>(
        locations: &[Location],
        kind: Kind,
        limits: &Limits,
        scan: impl Fn(&Shard) -> Result<Scanned, E> + Sync + Send,
    ) -> Result<Self, E>
    where
        E: From<Error> + From<BoxError> + From<ThreadsError> + Send,
    {
        let mut names = MemberNames::default();
        let listed = listed(locations, kind, limits, &mut names)?;
        let others = locations.iter().zip(&listed).filter(|(_, listed)| listed.is_none());
        let others: Vec<Location> = others.map(|(location, _)| location.clone()).collect();
        let others = match others.is_empty() {
            true => Self::none(names),
            false => Self::with(Shards::at(&others)?, kind, scan, names)?,
        };
        let Self { shards, indexes, names, unended } = others;
        let mut others = shards.all().iter().cloned().zip(indexes);
        let all = listed.into_iter().filter_map(|listed| listed.or_else(|| others.next()));
        let (all, indexes): (Vec<Shard>, Vec<PackedIndex>) = all.unzip();
        Ok(Self { shards: Shards::new(all), indexes, names, unended })
    }

    /// Reads the indexes of open shards, or scans them.
    ///
    /// # Errors
    ///
    /// Fails as [`at`](Self::at) does.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(in crate::source) fn of<E>(
        shards: Shards,
        kind: Kind,
        scan: impl Fn(&Shard) -> Result<Scanned, E> + Sync + Send,
    ) -> Result<Self, E>
    where
        E: From<Error> + From<BoxError> + From<ThreadsError> + Send,
    {
        Self::with(shards, kind, scan, MemberNames::default())
    }

    fn none(names: MemberNames) -> Self {
        Self { shards: Shards::new([]), indexes: vec![], names, unended: vec![] }
    }

    fn with<E>(
        shards: Shards,
        kind: Kind,
        scan: impl Fn(&Shard) -> Result<Scanned, E> + Sync + Send,
        mut names: MemberNames,
    ) -> Result<Self, E>
    where
        E: From<Error> + From<BoxError> + From<ThreadsError> + Send,
    {
        let (scans, listed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let open = |shard: &Shard| -> Result<Opened, E> {
            let (index, is_open) = match load(shard, kind)? {
                Some(index) => (index, false),
                None => {
                    let is_local = matches!(shard.location, Location::Path(_));
                    if is_local && scans.fetch_add(1, Ordering::Relaxed) + 1 == MANY {
                        advise(&shards);
                    }
                    let Scanned { index, is_open } = scan(shard)?;
                    (index, is_open)
                }
            };
            let (mut packed, names) = pack(shard, kind, &index)?;
            let samples = packed.len();
            if listed.fetch_add(samples, Ordering::Relaxed).saturating_add(samples)
                <= LISTED_SAMPLES
            {
                packed = packed.unpacked(index);
            }
            Ok(Opened { index: packed, names, is_open })
        };
        let opened = parallel::map(shards.all(), open)?;
        let (mut indexes, mut unended) = (vec![], vec![]);
        for (opened, shard) in opened.into_iter().zip(shards.all()) {
            let Opened { mut index, names: own, is_open } = opened?;
            let numbered = index.rename(|name| names.add(own.get(name as usize)?));
            numbered.ok_or_else(|| too_many(shard))?;
            indexes.push(index);
            unended.extend(is_open.then(|| shard.location.clone()));
        }
        Ok(Self { shards, indexes, names, unended })
    }
}

/// Packs the index of a shard. Returns it with the names of members, by the numbers that it has for them.
///
/// # Errors
///
/// Fails if the index does not fit.
pub(in crate::source) fn pack(
    shard: &Shard,
    kind: Kind,
    index: &ShardIndex,
) -> Result<(PackedIndex, Vec<String>), Error> {
    #[cfg(feature = "tar")]
    let is_array = |name: &str| kind == Kind::Tar && As::of_extension(name) == As::NdArray;
    #[cfg(not(feature = "tar"))]
    let is_array = |_: &str| false;
    let layout = kind.layout().ok_or_else(|| too_many(shard))?;
    let digest = if kind == Kind::Tar { digest(index) } else { 0 };
    let packed = PackedIndex::pack(index, (layout, shard.bytes.len(), digest), is_array);
    let packed = packed.ok_or_else(|| too_many(shard))?;
    Ok((packed, index.names().to_vec()))
}

fn too_many(shard: &Shard) -> Error {
    fail!(Format, "more samples, members or names of members than an index has room for")
        .at(&shard.location)
}

/// Advises an index for shards of which many were scanned.
fn advise(shards: &Shards) {
    warn(format_args!(
        "{}: many shards have no index, so the headers of all their samples are read at each start: \
         `fuseloop index --join SHARDS` writes one index for all",
        shards.name()
    ));
}

/// Returns the shards that a joined index of their folder lists, and adds the names of their members to `names`.
fn listed(
    locations: &[Location],
    kind: Kind,
    limits: &Limits,
    names: &mut MemberNames,
) -> Result<Vec<Option<(Shard, PackedIndex)>>, Error> {
    let local = |location: &Location| match location {
        Location::Path(path) => path.parent().map(Path::to_owned),
        Location::Url(_) => None,
    };
    // Most shards are in the folder of the shard before.
    let mut folders = BTreeSet::new();
    let mut last = None;
    for folder in locations.iter().map(local).filter(Option::is_some) {
        if folder != last {
            folders.extend(folder.clone());
            last = folder;
        }
    }
    let mut joined = HashMap::new();
    for folder in &folders {
        if let Some(found) = JoinedIndex::open(folder, folders.len() > MANY_FOLDERS, limits)? {
            let path: Arc<Path> = found.file.path().into();
            let numbers: Option<Vec<u32>> =
                found.names.iter().map(|name| names.add(name)).collect();
            joined.insert(folder.as_path(), (found.shards, path, numbers.unwrap_or_default()));
        }
    }
    let one = |location: &Location| {
        let Location::Path(path) = location else { return Ok(None) };
        let found = path.parent().and_then(|folder| joined.get(folder));
        let Some((shards, joined_path, numbers)) = found else { return Ok(None) };
        let Some(listed) = shards.get(location.file_name()).filter(|one| one.kind == kind) else {
            return Ok(None);
        };
        let mut index = listed.index.clone();
        // Numbers of names were checked when the directory was read.
        if index.rename(|name| numbers.get(name as usize).copied()).is_none() {
            return Ok(None);
        }
        let file = ListedFile::new(path, (index.shard_len, listed.ends), joined_path);
        let bytes = FileBytes::from_reader(Arc::new(file)).map_err(Error::from)?;
        Ok(Some((Shard { location: location.clone(), bytes: Arc::new(bytes) }, index)))
    };
    if joined.is_empty() {
        return Ok(locations.iter().map(|_| None).collect());
    }
    locations.iter().map(one).collect()
}
