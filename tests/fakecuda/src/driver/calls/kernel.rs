//! Modules, their functions, and launches.

use crate::abi::{Array, Handle, Host, Null, Out, Text, export};
use crate::driver::code::Code;
use crate::driver::launch::Launch;
use crate::driver::module::{Function, Module};
use crate::driver::{call, driver, on_device};
use crate::ptx::Grid;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `CU_JIT_ERROR_LOG_BUFFER` and its size option: option values are pointers, or numbers stored as
/// pointers.
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;

export! { call => i32;
    fn cuModuleLoadData(module: Out<Handle>, image: Host) {
        load(&module, image).map_err(|(code, _)| code)
    }

    fn cuModuleLoadDataEx(
        module: Out<Handle>,
        image: Host,
        count: u32,
        options: Array<u32>,
        values: Array<Host>,
    ) {
        let (options, values) = (options.read(count as usize)?, values.read(count as usize)?);
        let value = |which| options.iter().position(|option| *option == which).map(|at| values[at]);
        load(&module, image).map_err(|(code, log)| {
            if let (Some(to), Some(room)) = (value(ERROR_LOG), value(ERROR_LOG_BYTES)) {
                let _ = put_log(to, room.address() as usize, &log);
            }
            code
        })
    }

    fn cuModuleUnload(handle: Handle) {
        let mut world = driver().world();
        world.here()?;
        world.modules.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        world.functions.retain(|_, function| function.of != handle);
        Ok(())
    }

    fn cuModuleGetFunction(handle: Out<Handle>, module: Handle, name: Text) {
        let mut world = driver().world();
        world.here()?;
        let found = world.modules.get(&module).cloned().ok_or(Code::INVALID_HANDLE)?;
        let entry = found.entry(&name.read()?).ok_or(Code::NOT_FOUND)?;
        let new = world.handle();
        handle.put(new)?;
        world.functions.insert(new, Arc::new(Function { of: module, module: found, entry }));
        Ok(())
    }

    fn cuLaunchKernel(
        function: Handle,
        gx: u32,
        gy: u32,
        gz: u32,
        bx: u32,
        by: u32,
        bz: u32,
        shared: u32,
        stream: Handle,
        parameters: Array<Host>,
        extra: Array<Host>,
    ) {
        let mut world = driver().world();
        let stream = world.stream_here(stream)?;
        let function = world.functions.get(&function).cloned().ok_or(Code::INVALID_HANDLE)?;
        drop(world);
        let grid = Grid { blocks: [gx, gy, gz], block: [bx, by, bz] };
        if !Launch::fits(&grid, shared) || extra.read(1).is_ok() {
            return Err(Code::INVALID_VALUE);
        }
        if function.module.device != stream.device {
            return Err(Code::INVALID_HANDLE);
        }
        let arguments = arguments(&parameters, &function.entry.sizes())?;
        let launch = Launch { function, grid, arguments, number: number() };
        let device = stream.device;
        stream.push(move || on_device(device, || launch.run()))
    }
}

fn load(handle: &Out<Handle>, image: Host) -> Result<(), (Code, String)> {
    let device = driver().world().here().map_err(|code| (code, String::new()))?;
    let module = Module::load(device, image)?;
    let mut world = driver().world();
    let new = world.handle();
    handle.put(new).map_err(|Null| (Code::INVALID_VALUE, String::new()))?;
    world.modules.insert(new, module);
    Ok(())
}

/// Writes as much of the log as fits, and a NUL.
fn put_log(to: Host, room: usize, log: &str) -> Result<(), Null> {
    let text = format!("ptxas application ptx input; fatal : {log}");
    let kept = text.len().min(room.checked_sub(1).ok_or(Null)?);
    to.span(room)?.write(&[&text.as_bytes()[..kept], &[0]].concat());
    Ok(())
}

/// Copies the arguments, as a launch does.
fn arguments(parameters: &Array<Host>, sizes: &[usize]) -> Result<Vec<Vec<u8>>, Code> {
    let pointers = parameters.read(sizes.len())?;
    let copied = pointers.iter().zip(sizes).map(|(from, &size)| Ok(from.span(size)?.to_vec()));
    copied.collect()
}

/// Returns the number of this launch, counted from the seed on.
fn number() -> u64 {
    static LAUNCHES: AtomicU64 = AtomicU64::new(0);
    driver().settings.seed.wrapping_add(LAUNCHES.fetch_add(1, Ordering::Relaxed))
}
