//! `fuseloop studio`: a page that shows a pipeline live.
//!
//! ```text
//! browser ──▶ http ──▶ guard ──▶ calls ──▶ grid, sample, plan, dataset, epoch, export ──▶ session
//!                                                                                          │
//!      text ⇄ cards (pipeline), errors (fault), decoded images (pictures), samples and their clips (samples, strip)
//! ```
//!
//! The page sends the text of a pipeline, or the ops of one field in place of those that the text has; the answer has
//! the new text and the pixels, so that one request serves a change. The server holds no state of the page but caches.
//! The page is in `page/`: plain modules of JavaScript, which the command contains.

mod calls;
mod connections;
mod controls;
mod dataset;
mod epoch;
mod export;
mod fault;
mod grid;
mod guard;
mod http;
mod limits;
mod pictures;
mod pipeline;
mod plan;
mod request;
mod sample;
mod samples;
mod server;
mod session;
mod strip;

use super::folder::InFolder;
use super::output;
use super::print::{note, say};
use super::problem::Problem;
use fuseloop::internals::source::ObjectField;
use fuseloop::source::{Dataset, FieldKind, Source};
use fuseloop::{Loader, Spec};
use session::Session;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Edit a pipeline on a local web page, with live samples
///
/// The server listens only on this machine, at an address with a random token. It reads the dataset and the
/// pipeline file, and writes only the pipeline file, when you save.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop studio photos/
  fuseloop studio train.beton --pipeline imagenet.toml
  fuseloop studio clips/ --pipeline clips.toml
  fuseloop studio coco/annotations/instances_val2017.json --pipeline detection.toml --port 8800")]
pub(super) struct Args {
    /// Dataset to show
    dataset: PathBuf,
    /// Pipeline file to read and save (created on saving if missing)
    #[arg(long, short, value_name = "FILE.toml", value_parser = output::local())]
    pipeline: Option<PathBuf>,
    /// Port, or 0 for a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Address to listen on. At any but a loopback address, other machines that know the token can see the
    /// dataset and change the pipeline file, and the token crosses the network unencrypted.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    #[command(flatten)]
    folder: InFolder,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let dataset = args.folder.open(&args.dataset)?;
    let source: Arc<dyn Source> = match &dataset {
        Dataset::Beton(beton) => Arc::clone(beton) as Arc<dyn Source>,
        Dataset::Folder(folder) => Arc::clone(folder) as Arc<dyn Source>,
        Dataset::Source(source) => Arc::clone(source),
        Dataset::Stream(_) => return Err(Problem::InSequence { path: args.dataset.clone() }),
    };
    if source.len() == 0 {
        return Err(Problem::Empty { path: args.dataset.clone() });
    }
    let text = match &args.pipeline {
        Some(file) if file.exists() => session::read(file)?,
        _ => beginning(&dataset, &*source),
    };
    let address = SocketAddr::new(args.host, args.port);
    let failed = |error| Problem::Io { path: Path::new(&address.to_string()).to_owned(), error };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let guard = guard::Guard::new(address.port(), !address.ip().is_loopback())
        .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
    let shown = if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    };
    if !address.ip().is_loopback() {
        note(
            "other machines can reach this address: anyone with the token can see the dataset and change the pipeline file, and the token crosses the network unencrypted",
        );
    }
    say(&format!(
        "studio: http://{shown}/{}/\nOpen it in a browser; Ctrl-C stops the server.\n",
        guard.token()
    ))?;
    let session = Session::new(&args.dataset, dataset, source, (args.pipeline.clone(), text));
    server::serve(&listener, guard, session);
    Ok(())
}

/// The clips that a new file begins with, of a dataset of video files.
const CLIPS: &str = "[clips]\nsampler = \"random\"\nframes = 16\nstride = 4\n\n";

/// Returns the pipeline that a new file begins with: the first of some usual lists that the dataset's first image field
/// can have, or the clips of its video files. Masks follow their image.
fn beginning(dataset: &Dataset, source: &dyn Source) -> String {
    let known = source.object_fields().ok().flatten().unwrap_or_default();
    let is_mask = |image: &String| known.get(image) == Some(ObjectField::Mask);
    let (masks, images): (Vec<String>, Vec<String>) =
        dataset::image_fields(source).into_iter().partition(is_mask);
    let videos = dataset::video_fields(source);
    let (image, clips) = match (images.first(), videos.first()) {
        (Some(image), _) => (image.as_str(), ""),
        // The frames are called so, unless another field is.
        (None, Some(own)) => (source.field_index("video").map_or("video", |_| own.as_str()), CLIPS),
        (None, None) => return "[fields]\n".to_owned(),
    };
    let field = key(image);
    let stats = source.field_index(image).and_then(|index| source.image_stats(index));
    let kind = source.field_index(image).map(|index| &source.fields()[index].kind);
    let size = match kind {
        Some(FieldKind::NdArray { shape, .. }) => shape.iter().rev().take(2).min().copied(),
        _ => stats.and_then(|stats| stats.uniform()).map(|size| size.height.min(size.width).into()),
    };
    let crop = match size {
        Some(size @ 8..=96) => format!("{{ op = \"RandomCrop\", size = {size}, padding = 4 }}"),
        _ => {
            let size = if clips.is_empty() { 224 } else { 112 };
            format!("{{ op = \"RandomResizedCrop\", size = {size}, scale = [0.35, 1.0] }}")
        }
    };
    let batch_size = if clips.is_empty() { 64 } else { 8 };
    let flip = "\"RandomHorizontalFlip\"".to_owned();
    let jitter = "{ op = \"ColorJitter\", brightness = 0.3, contrast = 0.3, saturation = 0.3 }";
    let lists = [vec![crop.clone(), flip.clone(), jitter.to_owned()], vec![crop, flip], vec![]];
    let masks =
        masks.iter().map(|mask| format!("{} = {{ as = \"mask\", fill = 255 }}\n", key(mask)));
    let masks: String = masks.collect();
    let targets = match masks.is_empty() {
        true => String::new(),
        false => format!("\n[targets.{field}]\n{masks}"),
    };
    let texts = lists.map(|list| {
        let ops: String = list.iter().map(|op| format!("    {op},\n")).collect();
        let fields = format!("[fields]\n{field} = [\n{ops}]\n");
        let settings = format!("batch_size = {batch_size}\norder = \"random\"\nseed = 0\n\n");
        format!("{settings}{clips}{fields}{targets}")
    });
    let can_have = |text: &&String| {
        let Ok(spec) = text.parse::<Spec>() else { return false };
        let builder = spec.apply(Loader::from_dataset(dataset.clone()));
        builder.device("cpu").in_memory(false).build().is_ok()
    };
    texts.iter().find(can_have).unwrap_or(&texts[0]).clone()
}

/// Returns a name as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match name.chars().all(is_bare) && !name.is_empty() {
        true => name.to_owned(),
        false => serde_json::Value::from(name).to_string(),
    }
}
