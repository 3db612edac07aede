//! A training loop that can be stopped at any step and resumed on any number of ranks:
//!
//! ```sh
//! cargo run --release --example resume -- train.beton            # stop it with Ctrl-C, run it again
//! torchrun --no-python --nproc-per-node 4 target/release/examples/resume train.beton
//! ```
//!
//! The checkpoint here is only the cursor; a training script stores the cursor with the model.

use fuseloop::ops::*;
use fuseloop::order::Ranks;
use fuseloop::{Batches, Cursor, Loader, OnDamaged, Order};
use std::error::Error;
use std::fs;

/// Rows of a step on all ranks together. This number must stay the same when the run is resumed.
const GLOBAL_BATCH: usize = 64;

const EPOCHS: u32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: resume FILE.beton")?;
    // The ranks that torchrun, Slurm or MPI set in the environment; `None` for a single process.
    let ranks = Ranks::from_env()?;
    let (rank, world) = ranks.as_ref().map_or((0, 1), |ranks| (ranks.rank(), ranks.world_size()));
    let loader = Loader::open(&path)?
        .ranks(ranks)
        .batch_size(GLOBAL_BATCH / world as usize)
        .order(Order::Random)
        .seed(42)
        .on_damaged(OnDamaged::Substitute)
        .pipeline(
            "image",
            ops![
                RandomResizedCrop::new(224)?,
                RandomHorizontalFlip::new(0.5)?,
                Normalize::imagenet(),
                ToChannelsFirst,
            ],
        )
        .build()?;

    // All ranks resume at the same step, so one file is enough.
    let checkpoint = format!("{path}.cursor");
    let mut batches = match fs::read_to_string(&checkpoint) {
        Ok(text) => loader.resume(&text.parse::<Cursor>()?)?,
        Err(_) => loader.epoch(0)?,
    };
    loop {
        train(&mut batches, rank, &checkpoint)?;
        let next = batches.epoch().index() + 1;
        if next == EPOCHS {
            break;
        }
        batches = loader.epoch(next)?;
    }
    if rank == 0 {
        let _ = fs::remove_file(&checkpoint);
        print!("{}", loader.quarantine());
    }
    Ok(())
}

fn train(batches: &mut Batches, rank: u32, checkpoint: &str) -> Result<(), Box<dyn Error>> {
    while let Some(batch) = batches.next() {
        let batch = batch?;
        if rank == 0 {
            println!("epoch {} step {}: {} images", batch.epoch().0, batch.index(), batch.len());
            // Written to a temporary file and renamed: a run that is killed in between leaves the
            // old file.
            let beside = format!("{checkpoint}.part");
            fs::write(&beside, batches.cursor()?.to_string())?;
            fs::rename(&beside, checkpoint)?;
        }
    }
    Ok(())
}
