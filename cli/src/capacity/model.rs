//! The arithmetic of feeding GPUs: the images/s that each resource allows, and which of them is the bound.
//!
//! ```text
//! GPUs              gpus * images per GPU
//! CPU               nodes * cores * 1000 / CPU-ms
//! storage           nodes * storage / read
//! shared storage    shared storage / read
//! network           nodes * network / read                    if the storage is shared, and so behind the network
//! copy              gpus * copy / delivered
//!
//! read              stored * (1 - cached)                     bytes of an image that come from storage
//! cached            f + (1 - f) * ln(1 - f)                   with f = memory / dataset; 1 from f = 1 on
//! ```
//!
//! `stored` and `delivered` are the bytes of an image in the dataset and in a batch; bandwidths are in bytes per second.
//! A bandwidth that is not known allows any rate. The least of the rates is that of the training, and the first row
//! that has it is the bound: the GPUs themselves, if nothing else is slower.
//!
//! `cached` is the share of the reads that a page cache serves which drops what was read longest ago, if one node reads
//! whole epochs, each a new permutation. Between the reads of a sample at position `x` of an epoch and `y` of the next one
//! (0 to 1), a share `x * (1 - y)` of the samples is not read, and the sample is still cached if this share is above
//! `1 - f`, which has the probability above. With more nodes, each of which reads a part of each epoch, the share of the
//! reads lies between this one and `f`.
//!
//! Loader nodes have no GPU. They prepare batches and send them to the nodes of the GPUs, each of which receives
//!
//! ```text
//! local * read + remote * delivered <= network               `read` counts if the storage is shared
//! ```
//!
//! bytes per second for `local` images that it prepares itself and `remote` images. It prepares as many as its cores and
//! its storage allow; fewer if files are larger than their rows of a batch and the network has no room for these files.

use std::fmt;

/// The machines, and the cost of an image. All numbers are positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cluster {
    pub(super) gpus: f64,
    pub(super) nodes: f64,
    /// Images per second that one GPU consumes.
    pub(super) images_per_gpu: f64,
    /// Cores of a node with GPUs.
    pub(super) cores: f64,
    /// Cores of a node without GPUs.
    pub(super) loader_cores: f64,
    /// Processor time of an image, in milliseconds.
    pub(super) cpu_ms: f64,
    /// Bytes of an image in the dataset.
    pub(super) stored: f64,
    /// Bytes of an image in a batch.
    pub(super) delivered: f64,
    /// Share of the reads that the page cache serves, 0 to 1.
    pub(super) cached: f64,
    /// Bytes per second that one node reads from storage.
    pub(super) storage: Option<f64>,
    /// Bytes per second that all nodes together read from shared storage.
    pub(super) shared_storage: Option<f64>,
    /// Bytes per second in each direction of the network of a node.
    pub(super) network: Option<f64>,
    /// Bytes per second that are copied to one GPU.
    pub(super) copy: Option<f64>,
}

/// A resource that may limit the images/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Gpus,
    Cpu,
    Storage,
    SharedStorage,
    Network,
    Copy,
}

/// The images/s that a resource of all nodes allows; infinite if an image needs nothing of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Allowed {
    pub(super) resource: Resource,
    pub(super) images_per_second: f64,
}

/// The gain by nodes without GPUs, which prepare batches and send them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LoaderNodes {
    /// The nodes of the GPUs prepare as many images as are consumed or copied.
    NotNeeded,
    /// The network of the nodes of the GPUs is full without batches.
    NoNetwork,
    /// They raise the rate.
    Raise {
        /// Images/s of all nodes with them.
        images_per_second: f64,
        /// Number of loader nodes for this rate.
        count: f64,
        /// Bytes per second that a node of the GPUs receives.
        received: f64,
        /// True if more of them would not help, because the network of the nodes of the GPUs is full.
        is_network_full: bool,
    },
}

impl Resource {
    /// Returns the name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gpus => "gpus",
            Self::Cpu => "cpu",
            Self::Storage => "storage",
            Self::SharedStorage => "shared_storage",
            Self::Network => "network",
            Self::Copy => "copy",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpus => "GPUs",
            Self::Cpu => "CPU",
            Self::Storage => "storage",
            Self::SharedStorage => "shared storage",
            Self::Network => "network",
            Self::Copy => "copy to the GPUs",
        })
    }
}

/// Returns the share of the reads that a page cache of `memory` bytes serves, of a dataset of `dataset` bytes.
pub(super) fn cached(memory: f64, dataset: f64) -> f64 {
    let held = memory / dataset;
    if held < 1.0 { (held + (1.0 - held) * (1.0 - held).ln()).max(0.0) } else { 1.0 }
}

impl Cluster {
    /// Returns the images/s that the GPUs consume.
    pub(super) fn demand(&self) -> f64 {
        self.gpus * self.images_per_gpu
    }

    /// Returns the cores of a node that its GPUs need, not rounded.
    pub(super) fn cores_needed(&self) -> f64 {
        self.demand() / self.nodes * self.cpu_ms / 1e3
    }

    /// Returns the bytes of an image that come from storage.
    fn read(&self) -> f64 {
        self.stored * (1.0 - self.cached)
    }

    /// Returns the bytes of an image's file that a node receives over the network.
    fn read_by_network(&self) -> f64 {
        if self.shared_storage.is_some() { self.read() } else { 0.0 }
    }

    /// Returns the rates of all resources that are known, the GPUs first.
    pub(super) fn allowed(&self) -> Vec<Allowed> {
        let cpu = self.nodes * self.cores * 1e3 / self.cpu_ms;
        let network = self.network.filter(|_| self.shared_storage.is_some());
        let rates = [
            (Resource::Gpus, Some(self.demand())),
            (Resource::Cpu, Some(cpu)),
            (Resource::Storage, self.storage.map(|bytes| self.nodes * per(bytes, self.read()))),
            (Resource::SharedStorage, self.shared_storage.map(|bytes| per(bytes, self.read()))),
            (Resource::Network, network.map(|bytes| self.nodes * per(bytes, self.read()))),
            (Resource::Copy, self.copy.map(|bytes| self.gpus * per(bytes, self.delivered))),
        ];
        let known = rates
            .into_iter()
            .filter_map(|(resource, rate)| Some(Allowed { resource, images_per_second: rate? }));
        known.collect()
    }

    /// Returns the bound: the resource that allows the least.
    pub(super) fn bound(&self) -> Allowed {
        let gpus = Allowed { resource: Resource::Gpus, images_per_second: self.demand() };
        self.allowed().into_iter().fold(gpus, |least, next| {
            if next.images_per_second < least.images_per_second { next } else { least }
        })
    }

    /// Returns the images/s per node that are consumed, or that remain of them where the copy or the shared storage
    /// allows less: no number of loader nodes gives more.
    fn target(&self) -> f64 {
        let others = [Resource::Gpus, Resource::SharedStorage, Resource::Copy];
        let known = self.allowed().into_iter().filter(|allowed| others.contains(&allowed.resource));
        known.fold(f64::INFINITY, |least, next| least.min(next.images_per_second)) / self.nodes
    }

    /// Returns what loader nodes can do.
    pub(super) fn loader_nodes(&self) -> LoaderNodes {
        let (target, network) = (self.target(), self.network.unwrap_or(f64::INFINITY));
        let storage = self.storage.map_or(f64::INFINITY, |bytes| per(bytes, self.read()));
        let (file, batch) = (self.read_by_network(), self.delivered);
        let prepared = target.min(self.cores * 1e3 / self.cpu_ms).min(storage);
        let alone = prepared.min(per(network, file));
        if alone >= target {
            return LoaderNodes::NotNeeded;
        }
        let (local, remote) = if file <= batch {
            (alone, (target - alone).min((network - alone * file) / batch))
        } else if target * batch <= network {
            let local = prepared.min((network - target * batch) / (file - batch));
            (local, target - local)
        } else {
            // Batches are smaller than files, and fill the network.
            (0.0, network / batch)
        };
        let rate = local + remote;
        // The network that files fill has no room but for rounding.
        if rate <= alone * (1.0 + 1e-9) {
            return LoaderNodes::NoNetwork;
        }
        let one = (self.loader_cores * 1e3 / self.cpu_ms)
            .min(storage)
            .min(per(network, file))
            .min(network / batch);
        LoaderNodes::Raise {
            images_per_second: self.nodes * rate,
            count: (self.nodes * remote / one - 1e-9).ceil().max(1.0),
            received: local * file + remote * batch,
            is_network_full: rate < target * (1.0 - 1e-9),
        }
    }
}

/// Returns how often `bytes` is in a bandwidth; infinite for none.
fn per(bandwidth: f64, bytes: f64) -> f64 {
    if bytes > 0.0 { bandwidth / bytes } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 nodes of 4 GPUs that consume 1,000 images/s each: 8,000 in all, 4,000 a node. An image takes 1 ms, has 100 kB
    /// in the dataset and 600 kB in a batch. 5 cores a node prepare 5,000 images/s, 10,000 in all.
    const CLUSTER: Cluster = Cluster {
        gpus: 8.0,
        nodes: 2.0,
        images_per_gpu: 1e3,
        cores: 5.0,
        loader_cores: 5.0,
        cpu_ms: 1.0,
        stored: 1e5,
        delivered: 6e5,
        cached: 0.0,
        storage: None,
        shared_storage: None,
        network: None,
        copy: None,
    };

    /// Asserts that two numbers are the same up to rounding.
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, not {expected}");
    }

    #[test]
    fn the_bound_is_as_computed_by_hand() {
        type Change<'a> = &'a dyn Fn(&mut Cluster);
        let of = |change: Change<'_>| {
            let mut cluster = CLUSTER;
            change(&mut cluster);
            let Allowed { resource, images_per_second } = cluster.bound();
            (resource, images_per_second)
        };
        let cases: [(Change<'_>, (Resource, f64)); 12] = [
            // 10,000 images/s of the cores are more than 8,000.
            (&|_| (), (Resource::Gpus, 8e3)),
            // 2 nodes * 3 cores * 1000 / 1 ms.
            (&|c| c.cores = 3.0, (Resource::Cpu, 6e3)),
            // 2 * 5 * 1000 / 2.5 ms.
            (&|c| c.cpu_ms = 2.5, (Resource::Cpu, 4e3)),
            // 2 nodes * 300 MB/s / 100 kB.
            (&|c| c.storage = Some(3e8), (Resource::Storage, 6e3)),
            // A half of it is in the page cache: 12,000, and the GPUs are the bound again.
            (&|c| (c.storage, c.cached) = (Some(3e8), 0.5), (Resource::Gpus, 8e3)),
            // 300 MB/s / 100 kB, for all nodes.
            (&|c| c.shared_storage = Some(3e8), (Resource::SharedStorage, 3e3)),
            // Two nodes of 250 MB/s read files of 100 kB.
            (
                &|c| (c.shared_storage, c.network) = (Some(1e9), Some(2.5e8)),
                (Resource::Network, 5e3),
            ),
            // Files on disks of the nodes don't take the network.
            (&|c| (c.storage, c.network) = (Some(1e9), Some(1e3)), (Resource::Gpus, 8e3)),
            // 8 GPUs * 300 MB/s / 600 kB.
            (&|c| c.copy = Some(3e8), (Resource::Copy, 4e3)),
            // All in the page cache: no storage is needed.
            (&|c| (c.storage, c.cached) = (Some(1.0), 1.0), (Resource::Gpus, 8e3)),
            // The least of two: 6,000 by the cores, 4,000 by the copy.
            (&|c| (c.cores, c.copy) = (3.0, Some(3e8)), (Resource::Copy, 4e3)),
            // The GPUs are named first of equal ones: 2 * 4 * 1000 / 1 ms = 8,000.
            (&|c| c.cores = 4.0, (Resource::Gpus, 8e3)),
        ];
        for (row, (change, (resource, rate))) in cases.into_iter().enumerate() {
            let (found, images_per_second) = of(change);
            assert_eq!(found, resource, "row {row}");
            assert_near(images_per_second, rate);
        }
        // 4,000 images/s of 1 ms.
        assert_near(CLUSTER.cores_needed(), 4.0);
    }

    #[test]
    fn loader_nodes_are_as_computed_by_hand() {
        let short = Cluster { cores: 2.0, ..CLUSTER };
        assert_eq!(CLUSTER.loader_nodes(), LoaderNodes::NotNeeded);
        // A node prepares 2,000 of 4,000 images/s. The other 4,000 of both nodes are the work of 4 cores: 1 loader node
        // of 5. A node receives 2,000 * 600 kB.
        let raised = LoaderNodes::Raise {
            images_per_second: 8e3,
            count: 1.0,
            received: 1.2e9,
            is_network_full: false,
        };
        assert_eq!(short.loader_nodes(), raised);
        assert_eq!(Cluster { network: Some(2.5e9), ..short }.loader_nodes(), raised);
        // 600 MB/s are 1,000 images/s in batches: a node gets to 3,000 and not to 4,000. A loader node sends 1,000, so
        // that there are two.
        let full = LoaderNodes::Raise {
            images_per_second: 6e3,
            count: 2.0,
            received: 6e8,
            is_network_full: true,
        };
        assert_eq!(Cluster { network: Some(6e8), ..short }.loader_nodes(), full);
        // The files of 2,000 images take 200 MB/s of 800, which leaves the same 600.
        let shared = Cluster { shared_storage: Some(1e12), network: Some(8e8), ..short };
        let LoaderNodes::Raise { images_per_second, count, received, .. } = shared.loader_nodes()
        else {
            panic!("{:?}", shared.loader_nodes());
        };
        assert_near(images_per_second, 6e3);
        assert_near(received, 8e8);
        // One sends 800 MB/s / 600 kB = 1,333 images/s, and 2,000 are needed.
        assert_near(count, 2.0);
        // 150 MB/s are the files of 1,500 images, fewer than 2,000: no batch fits.
        let shared = Cluster { network: Some(1.5e8), ..shared };
        assert_eq!(shared.loader_nodes(), LoaderNodes::NoNetwork);
        // The copy allows 2,000 a node (4 * 300 MB/s / 600 kB), which the cores prepare.
        assert_eq!(Cluster { copy: Some(3e8), ..short }.loader_nodes(), LoaderNodes::NotNeeded);
    }

    #[test]
    fn large_files_are_left_to_loader_nodes() {
        // Files of 3 MB and batches of 600 kB an image. 4,000 images/s are 2.4 GB/s in batches; the 600 MB/s that remain of
        // 3 GB/s exchange 600 / (3 - 0.6) = 250 of these images for files.
        let shared = Cluster {
            cores: 2.0,
            stored: 3e6,
            shared_storage: Some(1e12),
            network: Some(3e9),
            ..CLUSTER
        };
        let LoaderNodes::Raise { images_per_second, count, received, is_network_full } =
            shared.loader_nodes()
        else {
            panic!("{:?}", shared.loader_nodes());
        };
        assert_near(images_per_second, 8e3);
        assert_near(received, 3e9);
        assert!(!is_network_full);
        // 2 * 3,750 images/s; a loader node receives the files of 1,000.
        assert_near(count, 8.0);
    }

    /// Calls `check` with clusters whose numbers vary by factors of 100.
    fn for_clusters(mut check: impl FnMut(Cluster)) {
        let mut state = 1u64;
        let mut next = || {
            // The generator of Knuth's MMIX; its upper bits are good enough here.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 40) as u32) / f64::from(1u32 << 24)
        };
        for _ in 0..20_000 {
            let mut around = |middle: f64| middle * 100f64.powf(next() - 0.5);
            let mut cluster = Cluster {
                cores: around(5.0),
                loader_cores: around(5.0),
                cpu_ms: around(1.0),
                stored: around(4e5),
                delivered: around(4e5),
                storage: Some(around(2e9)),
                shared_storage: Some(around(4e9)),
                network: Some(around(2e9)),
                copy: Some(around(8e8)),
                ..CLUSTER
            };
            cluster.cached = cached(next(), 1.0);
            for bandwidth in [
                &mut cluster.storage,
                &mut cluster.shared_storage,
                &mut cluster.network,
                &mut cluster.copy,
            ] {
                *bandwidth = bandwidth.filter(|_| next() < 0.7);
            }
            check(cluster);
        }
    }

    fn with_loader_nodes(cluster: &Cluster) -> f64 {
        match cluster.loader_nodes() {
            LoaderNodes::Raise { images_per_second, .. } => images_per_second,
            _ => cluster.bound().images_per_second,
        }
    }

    #[test]
    fn the_bound_that_is_named_is_the_least() {
        let mut named = vec![];
        for_clusters(|cluster| {
            let (bound, all) = (cluster.bound(), cluster.allowed());
            assert!(all.contains(&bound), "{cluster:?}");
            assert!(
                all.iter().all(|one| one.images_per_second >= bound.images_per_second),
                "{all:?}"
            );
            if !named.contains(&bound.resource) {
                named.push(bound.resource);
            }
        });
        assert_eq!(named.len(), 6, "each is the bound of some: {named:?}");
    }

    #[test]
    fn more_of_anything_never_lowers_the_rate() {
        for_clusters(|cluster| {
            let twice = |bandwidth: Option<f64>| bandwidth.map(|bytes| 2.0 * bytes);
            let larger = [
                Cluster { cores: cluster.cores * 1.5, ..cluster },
                Cluster { loader_cores: cluster.loader_cores * 1.5, ..cluster },
                Cluster { cpu_ms: cluster.cpu_ms / 1.5, ..cluster },
                Cluster { stored: cluster.stored / 1.5, ..cluster },
                Cluster { delivered: cluster.delivered / 1.5, ..cluster },
                Cluster { storage: twice(cluster.storage), ..cluster },
                Cluster { shared_storage: twice(cluster.shared_storage), ..cluster },
                Cluster { network: twice(cluster.network), ..cluster },
                Cluster { copy: twice(cluster.copy), ..cluster },
                Cluster { cached: f64::midpoint(1.0, cluster.cached), ..cluster },
                Cluster { images_per_gpu: cluster.images_per_gpu * 2.0, ..cluster },
            ];
            for (row, larger) in larger.into_iter().enumerate() {
                let least = 1.0 - 1e-9;
                let [before, after] = [cluster, larger].map(|one| one.bound().images_per_second);
                assert!(after >= before * least, "{row}: {cluster:?}: {before}, {after}");
                let [before, after] = [cluster, larger].map(|one| with_loader_nodes(&one));
                assert!(
                    after >= before * least,
                    "{row}, loader nodes: {cluster:?}: {before}, {after}"
                );
            }
            if let (
                LoaderNodes::Raise { count, images_per_second, .. },
                LoaderNodes::Raise { count: fewer, .. },
            ) = (
                cluster.loader_nodes(),
                Cluster { loader_cores: cluster.loader_cores * 1.5, ..cluster }.loader_nodes(),
            ) {
                assert!(count >= fewer && count >= 1.0, "{cluster:?}");
                assert!(images_per_second > cluster.bound().images_per_second, "{cluster:?}");
            }
        });
    }

    /// Tries local shares in steps of 2 %, and none.
    #[test]
    fn no_other_share_of_local_images_gives_more() {
        for_clusters(|cluster| {
            let network = cluster.network.unwrap_or(f64::INFINITY);
            let (file, target) = (cluster.read_by_network(), cluster.target());
            let storage = cluster.storage.map_or(f64::INFINITY, |bytes| per(bytes, cluster.read()));
            let prepared = target.min(cluster.cores * 1e3 / cluster.cpu_ms).min(storage);
            let shares = (0..400).map(|step| 0.98f64.powi(step)).chain([0.0]);
            let best = shares.map(|share| {
                let local = prepared * share;
                let room = network - local * file;
                if room < 0.0 {
                    0.0
                } else {
                    local + (target - local).min(room / cluster.delivered)
                }
            });
            let best = best.fold(0.0, f64::max) * cluster.nodes;
            let found = with_loader_nodes(&cluster);
            assert!(found >= best * (1.0 - 1e-9), "{cluster:?}: {found}, {best}");
            assert!(found <= best * 1.03, "{cluster:?}: {found}, {best}");
            if let LoaderNodes::Raise { received, .. } = cluster.loader_nodes() {
                assert!(received <= network * (1.0 + 1e-9), "{cluster:?}");
            }
        });
    }

    /// Reads epochs of 1,000 samples, each in a new order, through a cache that drops what was read longest ago.
    #[test]
    fn a_page_cache_serves_the_share_of_its_formula() {
        let (samples, epochs) = (1_000usize, 40u64);
        for held in [250usize, 500, 800, 950] {
            let (mut last_read, mut order) = (vec![u64::MAX; samples], Vec::from_iter(0..samples));
            let (mut state, mut hits) = (7u64, 0u64);
            let mut reads: Vec<usize> = vec![];
            for epoch in 0..epochs {
                for end in (1..samples).rev() {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    order.swap(end, (state >> 33) as usize % (end + 1));
                }
                for &sample in &order {
                    if epoch > 0 {
                        let since = &reads[last_read[sample] as usize + 1..];
                        let mut seen = vec![false; samples];
                        since.iter().for_each(|&other| seen[other] = true);
                        hits += u64::from(seen.iter().filter(|&&is_seen| is_seen).count() < held);
                    }
                    last_read[sample] = reads.len() as u64;
                    reads.push(sample);
                }
            }
            let found = hits as f64 / ((epochs - 1) * samples as u64) as f64;
            let expected = cached(held as f64, samples as f64);
            assert!((found - expected).abs() < 0.02, "{held}: {found}, {expected}");
        }
        assert_eq!([cached(2.0, 1.0), cached(1.0, 1.0)], [1.0, 1.0]);
        // 0.5 + 0.5 ln 0.5
        assert_near(cached(1.0, 2.0), 0.153_426_409_720_027_35);
        assert!(cached(1e-12, 1.0) >= 0.0);
    }
}
