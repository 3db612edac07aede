//! `fuseloop capacity`: computes from measured costs whether machines feed their GPUs, and what they lack.

mod measure;
mod model;

use super::number;
use super::print::{bytes, count, counted, rate, say, say_json};
use super::problem::Problem;
use super::source::Pipeline;
use measure::Figures;
use model::{Allowed, Cluster, LoaderNodes, Resource};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

/// The usual number of GPUs in a node.
const GPUS_OF_A_NODE: u32 = 8;

/// Compute whether machines feed their GPUs: the bound, and the cores or nodes needed
///
/// Capacity planning for a training on one or more machines (nodes). With a dataset, the command measures the CPU time and
/// the bytes of an image on this machine; without one, it takes those of workload W1 on photographs of ImageNet. A
/// resource without a figure, such as the network without `--network`, is not checked. Nothing is started on other
/// machines.
///
/// Bandwidths are in bytes or bits per second, such as 2.5GB or 100Gbit.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop capacity --gpus 64 --images-per-gpu 3000 --cores 26 --nodes 8
  fuseloop capacity train.beton --gpus 8 --images-per-gpu 2500 --cores 16 --copy 25GB
  fuseloop capacity train.beton --pipeline imagenet.toml --gpus 16 --images-per-gpu 900 --cores 64 --storage 3GB
  fuseloop capacity --gpus 64 --images-per-gpu 3000 --cores 8 --network 100Gbit --shared-storage 20GB
  fuseloop capacity --gpus 32 --images-per-gpu 3000 --cores 8 --loader-cores 96 --network 50Gbit --json")]
pub(super) struct Args {
    /// Dataset to measure: any kind that `fuseloop info` shows
    #[arg(value_name = "DATASET")]
    dataset: Option<PathBuf>,
    /// Number of GPUs of all nodes
    #[arg(long, value_parser = number::at_least_one::<NonZeroU32>)]
    gpus: NonZeroU32,
    /// Number of nodes with GPUs [default: one per 8 GPUs]
    #[arg(long, value_parser = number::at_least_one::<NonZeroU32>)]
    nodes: Option<NonZeroU32>,
    /// Number of images per second that one GPU consumes
    #[arg(long, value_name = "IMAGES", value_parser = number::positive)]
    images_per_gpu: f64,
    /// Number of CPU cores for loading, per node
    #[arg(long, value_parser = number::at_least_one::<NonZeroU32>)]
    cores: NonZeroU32,
    /// Number of CPU cores of a loader node, which has no GPU [default: that of --cores]
    #[arg(long, value_name = "CORES", value_parser = number::at_least_one::<NonZeroU32>)]
    loader_cores: Option<NonZeroU32>,
    /// CPU time of an image in milliseconds, as `fuseloop bench` prints it [default: measured]
    #[arg(long, value_name = "MS", value_parser = number::positive)]
    cpu_ms: Option<f64>,
    /// Bytes of an image in the dataset [default: measured]
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    stored: Option<f64>,
    /// Bytes of an image in a batch, with its labels [default: measured]
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    delivered: Option<f64>,
    /// Bandwidth of storage per node, such as of local disks
    #[arg(long, value_name = "RATE", value_parser = number::bytes_per_second)]
    storage: Option<f64>,
    /// Bandwidth of storage behind the network, for all nodes together
    #[arg(long, value_name = "RATE", value_parser = number::bytes_per_second)]
    shared_storage: Option<f64>,
    /// Bandwidth of the network per node in each direction, for loading
    #[arg(long, value_name = "RATE", value_parser = number::bytes_per_second)]
    network: Option<f64>,
    /// Bandwidth of copies from host to device, per GPU
    #[arg(long, value_name = "RATE", value_parser = number::bytes_per_second)]
    copy: Option<f64>,
    /// Memory for the page cache, per node
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    memory: Option<f64>,
    /// Size of the dataset, for the page cache [default: that of the dataset]
    #[arg(long, value_name = "BYTES", value_parser = number::bytes)]
    dataset_size: Option<f64>,
    /// Number of batches to measure
    #[arg(long, default_value = "100", value_parser = number::at_least_one::<NonZeroU64>)]
    batches: NonZeroU64,
    #[command(flatten)]
    pipeline: Pipeline,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let (gpus, nodes) = (args.gpus.get(), nodes(args)?);
    let figures = Figures::of(args)?;
    let cached = match (args.memory, args.dataset_size.or(figures.dataset_size)) {
        (None, _) => 0.0,
        (Some(memory), Some(size)) => model::cached(memory, size),
        (Some(_), None) => {
            return Err(Problem::Refused {
                message: "--memory: the size of the dataset is not known".to_owned(),
                help: "set `--dataset-size`, such as to 150GB, or name a dataset to measure",
            });
        }
    };
    let cluster = Cluster {
        gpus: f64::from(gpus),
        nodes: f64::from(nodes),
        images_per_gpu: args.images_per_gpu,
        cores: f64::from(args.cores.get()),
        loader_cores: f64::from(args.loader_cores.unwrap_or(args.cores).get()),
        cpu_ms: figures.cpu_ms.value,
        stored: figures.stored.value,
        delivered: figures.delivered.value,
        cached,
        storage: args.storage,
        shared_storage: args.shared_storage,
        network: args.network,
        copy: args.copy,
    };
    if args.json {
        say_json(&as_json(&cluster, &figures))
    } else {
        say(&in_words(&cluster, &figures))
    }
}

/// Returns the number of nodes, which all have the same number of GPUs.
fn nodes(args: &Args) -> Result<u32, Problem> {
    let gpus = args.gpus.get();
    let nodes = args.nodes.map_or_else(|| gpus.div_ceil(GPUS_OF_A_NODE), NonZeroU32::get);
    if gpus.is_multiple_of(nodes) {
        return Ok(nodes);
    }
    Err(Problem::Refused {
        message: format!(
            "{} are not {} with the same number of GPUs each",
            counted(gpus.into(), "GPU"),
            counted(nodes.into(), "node")
        ),
        help: "set `--nodes` to a divisor of `--gpus`; for nodes that differ, run the command for each kind",
    })
}

fn in_words(cluster: &Cluster, figures: &Figures) -> String {
    let mut text = format!(
        "{} in {} consume {} images/s, {} each\n",
        counted(whole(cluster.gpus), "GPU"),
        counted(whole(cluster.nodes), "node"),
        rate(cluster.demand()),
        rate(cluster.images_per_gpu),
    );
    let image = if figures.is_clips { "an image, which is a clip" } else { "an image" };
    let _ = writeln!(text, "{image}: {}\n", image_words(figures));
    add_table(&mut text, cluster);
    let bound = cluster.bound();
    let _ = writeln!(text, "\nbound         {}", bound_words(cluster, &bound));
    let _ = writeln!(text, "cores         {}", cores_words(cluster));
    let _ = writeln!(text, "loader nodes  {}", loader_nodes_words(cluster, &bound));
    let _ = writeln!(text, "batches       {}", batches_words(cluster, figures.batch_size));
    text
}

/// Describes the cost of an image, with the origin of each figure, or once that of all.
fn image_words(figures: &Figures) -> String {
    let Figures { cpu_ms, stored, delivered, .. } = figures;
    let words = [
        (format!("{:.3} CPU-ms", cpu_ms.value), cpu_ms.origin),
        (format!("{} stored", size(stored.value)), stored.origin),
        (format!("{} in a batch", size(delivered.value)), delivered.origin),
    ];
    if words.iter().all(|(_, origin)| *origin == words[0].1) {
        let figures = words.each_ref().map(|(figure, _)| figure.as_str()).join(", ");
        return format!("{figures} ({})", words[0].1);
    }
    words.map(|(figure, origin)| format!("{figure} ({origin})")).join(", ")
}

/// Adds a line for each resource, and one for those that are not known.
fn add_table(text: &mut String, cluster: &Cluster) {
    let _ = writeln!(text, "{:<18}{:>10}{:>10}", "", "images/s", "headroom");
    for Allowed { resource, images_per_second } in cluster.allowed() {
        let (allowed, headroom) = if images_per_second.is_finite() {
            let headroom = images_per_second / cluster.demand();
            (rate(images_per_second), format!("{headroom:.2}"))
        } else {
            ("any".to_owned(), String::new())
        };
        let name = resource.to_string();
        let line = format!("{name:<18}{allowed:>10}{headroom:>10}  {}", of_what(cluster, resource));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let options = [
        ("storage (`--storage`)", cluster.storage),
        ("shared storage (`--shared-storage`)", cluster.shared_storage),
        ("network (`--network`)", cluster.network),
        ("copy to the GPUs (`--copy`)", cluster.copy),
    ];
    let unknown: Vec<&str> =
        options.iter().filter(|(_, known)| known.is_none()).map(|(name, _)| *name).collect();
    if !unknown.is_empty() {
        let _ = writeln!(text, "not checked: {}", unknown.join(", "));
    }
}

/// Describes the amount of a resource.
fn of_what(cluster: &Cluster, resource: Resource) -> String {
    let bandwidth = |of: Option<f64>| of.map_or_else(String::new, |bytes| size(bytes) + "/s");
    let cached = match cluster.cached {
        0.0 => String::new(),
        share => format!(", {:.0} % of the reads from the page cache", 100.0 * share),
    };
    match resource {
        Resource::Gpus => String::new(),
        Resource::Cpu => format!("{} per node", counted(whole(cluster.cores), "core")),
        Resource::Storage => format!("{} per node{cached}", bandwidth(cluster.storage)),
        Resource::SharedStorage => {
            format!("{} for all nodes{cached}", bandwidth(cluster.shared_storage))
        }
        Resource::Network => format!("{} per node, for files", bandwidth(cluster.network)),
        Resource::Copy => format!("{} per GPU", bandwidth(cluster.copy)),
    }
}

fn bound_words(cluster: &Cluster, bound: &Allowed) -> String {
    if bound.resource == Resource::Gpus {
        return "the GPUs: nothing that was checked is slower".to_owned();
    }
    let share = 100.0 * bound.images_per_second / cluster.demand();
    let rate = rate(bound.images_per_second);
    format!("{}: {rate} images/s, {share:.0} % of what the GPUs consume", bound.resource)
}

fn cores_words(cluster: &Cluster) -> String {
    let needed = cluster.cores_needed();
    let of_gpu = needed * cluster.nodes / cluster.gpus;
    format!(
        "{} needed per node, {of_gpu:.2} per GPU; a node has {}",
        counted(whole_up(needed), "core"),
        count(whole(cluster.cores))
    )
}

fn loader_nodes_words(cluster: &Cluster, bound: &Allowed) -> String {
    match cluster.loader_nodes() {
        LoaderNodes::NotNeeded if bound.resource == Resource::Gpus => {
            "not needed: the nodes of the GPUs prepare all images".to_owned()
        }
        LoaderNodes::NotNeeded => format!("of no use: they don't help the {}", bound.resource),
        LoaderNodes::NoNetwork => {
            "of no use: the files fill the network of the nodes of the GPUs".to_owned()
        }
        LoaderNodes::Raise { images_per_second, count, received, is_network_full } => {
            let [before, after] = [bound.images_per_second, images_per_second].map(rate);
            let nodes = counted(whole(count), "node");
            let cores = counted(whole(cluster.loader_cores), "core");
            let network = match cluster.network {
                None => " (set `--network` to check it)".to_owned(),
                Some(_) if is_network_full => ", all that its network has".to_owned(),
                Some(network) => format!(" of {}/s", size(network)),
            };
            format!(
                "{nodes} of {cores} would raise {before} images/s to {after}; each node of the GPUs then receives {}/s{network}",
                size(received)
            )
        }
    }
}

fn batches_words(cluster: &Cluster, batch_size: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "batches are small")]
    let images = batch_size as f64;
    let batch = images * cluster.delivered;
    let of_node = cluster.demand() / cluster.nodes / images;
    let sent = match cluster.network {
        None => String::new(),
        Some(network) => format!("; its network carries {}", rate(network / batch)),
    };
    format!(
        "{} images have {}, {:.1} times the bytes of their files; a node consumes {} batches/s{sent}",
        count(batch_size as u64),
        size(batch),
        cluster.delivered / cluster.stored,
        rate(of_node),
    )
}

fn as_json(cluster: &Cluster, figures: &Figures) -> Value {
    let demand = cluster.demand();
    let bound = cluster.bound();
    let resource = |allowed: &Allowed| {
        // An infinite rate is null.
        json!({
            "resource": allowed.resource.name(),
            "images_per_second": allowed.images_per_second,
            "headroom": allowed.images_per_second / demand,
        })
    };
    let loader_nodes = match cluster.loader_nodes() {
        LoaderNodes::NotNeeded => json!({ "use": "not_needed" }),
        LoaderNodes::NoNetwork => json!({ "use": "no_network" }),
        LoaderNodes::Raise { images_per_second, count, received, is_network_full } => json!({
            "use": if is_network_full { "raise_to_the_network" } else { "raise" },
            "count": whole(count),
            "images_per_second": images_per_second,
            "received_bytes_per_second": received,
        }),
    };
    json!({
        "gpus": whole(cluster.gpus),
        "nodes": whole(cluster.nodes),
        "cores": whole(cluster.cores),
        "loader_cores": whole(cluster.loader_cores),
        "cpu_ms_per_image": cluster.cpu_ms,
        "cpu_ms_from": figures.cpu_ms.origin,
        "stored_bytes_per_image": cluster.stored,
        "stored_from": figures.stored.origin,
        "delivered_bytes_per_image": cluster.delivered,
        "delivered_from": figures.delivered.origin,
        "batch_size": figures.batch_size,
        "cached": cluster.cached,
        "demand": demand,
        "resources": cluster.allowed().iter().map(resource).collect::<Vec<_>>(),
        "bound": bound.resource.name(),
        "images_per_second": bound.images_per_second,
        "cores_needed_per_node": cluster.cores_needed(),
        "loader_nodes": loader_nodes,
    })
}

/// Formats bytes that are not whole.
fn size(value: f64) -> String {
    bytes(whole(value))
}

/// Rounds a number of whole things, or of bytes to show.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and `as` saturates"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// Rounds up, but for an error of rounding.
fn whole_up(number: f64) -> u64 {
    whole((number - 1e-9).ceil().max(1.0))
}
