//! The fake driver: `libcuda.so.1` for machines without a GPU.
//!
//! ```text
//!  program ──cu*()──▶ calls/ ──▶ World: contexts, allocations, streams, events, modules
//!                        │            ▲ checked again
//!                        └──job──▶ stream's thread, late ──▶ copies; kernels: ptx or host build
//! ```
//!
//! It is stricter than a real driver where a real driver is lenient or fast:
//!
//! | situation                                | the fake                                          |
//! |------------------------------------------|---------------------------------------------------|
//! | the work of a stream                     | is done after a random delay                      |
//! | page-locked memory                       | is read and written when the stream gets there    |
//! | other host memory                        | is read during the call                           |
//! | memory freed while a stream still uses it | `ILLEGAL_ADDRESS` when the stream gets there     |
//! | memory, stream, event of another device  | an error                                          |
//! | a call that needs a context              | an error without one                              |
//! | `ILLEGAL_ADDRESS` and similar errors     | every later call on that device returns them      |
//! | resources that were not released         | are counted: `fake_cuda_report`                   |
//!
//! It does not support the driver's own memory pools, graphs, textures, peers, several contexts of
//! one device, or unified memory.

mod calls;
mod code;
mod launch;
mod module;
mod settings;
mod stream;
mod world;

use code::Code;
use settings::Settings;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use world::World;

/// The only driver of the process.
#[derive(Debug)]
struct Driver {
    settings: Settings,
    world: Mutex<World>,
}

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let settings = Settings::from_env();
        let world = Mutex::new(World::new(settings.devices));
        Driver { settings, world }
    })
}

impl Driver {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the code that the environment plans for this call.
    fn planned(&self, name: &'static str) -> Option<Code> {
        let mut world = self.world();
        let number = world.count_call(name);
        let asked = |failure: &&settings::Failure| {
            failure.name == name && failure.number.is_none_or(|n| n == number)
        };
        let code = self.settings.failures.iter().find(asked)?.code;
        if let (true, Ok(device)) = (code.is_sticky(), world.here()) {
            world.fault(device, code, format!("{name}, as FAKE_CUDA_FAIL asks"));
        }
        Some(code)
    }
}

/// Sleeps for the extra time that the settings plan for this kind of work.
fn linger(kind: &str) {
    let slow = driver().settings.slow.iter().filter(|(name, _)| name == kind);
    let us = slow.map(|(_, us)| us).sum();
    if us > 0 {
        thread::sleep(Duration::from_micros(us));
    }
}

/// Runs one call from C: counts it, logs it, and catches a panic.
fn call(
    name: &'static str,
    arguments: &[&dyn Debug],
    body: impl FnOnce() -> Result<(), Code>,
) -> i32 {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        let driver = driver();
        let answer = driver.planned(name).map_or_else(body, Err);
        let number = answer.map_or_else(|code| code.0, |()| 0);
        if driver.settings.log {
            driver.world().log.push(format!("{name}{arguments:?} = {number}"));
        }
        number
    }));
    answer.unwrap_or(Code::UNKNOWN.0)
}

/// Does a stream's work, unless its device is broken; if the work fails, the device becomes broken.
fn on_device(device: usize, work: impl FnOnce() -> Result<(), (Code, String)>) {
    if driver().world().broken(device).is_some() {
        return;
    }
    if let Err((code, text)) = work() {
        driver().world().fault(device, code, text);
    }
}
