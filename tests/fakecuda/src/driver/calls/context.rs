//! Contexts: each device has its primary one, and each thread a stack of them.

use crate::abi::{Handle, Out, export};
use crate::driver::code::Code;
use crate::driver::world::{context, current, pop_context, push_context};
use crate::driver::{call, driver};

export! { call => i32;
    fn cuDevicePrimaryCtxRetain(handle: Out<Handle>, device: i32) {
        let mut world = driver().world();
        let device = world.device(device)?;
        handle.put(context(device))?;
        world.devices[device].retained += 1;
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let mut world = driver().world();
        let device = world.device(device)?;
        let retained = &mut world.devices[device].retained;
        *retained = retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        let mut world = driver().world();
        let device = world.device(device)?;
        world.devices[device].flags = flags;
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let world = driver().world();
        let device = &world.devices[world.device(device)?];
        flags.put(device.flags)?;
        Ok(active.put(i32::from(device.retained > 0))?)
    }

    fn cuCtxGetCurrent(handle: Out<Handle>) {
        if !driver().world().initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        Ok(handle.put(current().map_or(0, context))?)
    }

    fn cuCtxSetCurrent(handle: Handle) {
        let device = if handle == 0 { None } else { Some(driver().world().of_context(handle)?) };
        // The top of an empty stack is null already.
        let _ = pop_context();
        if device.is_some() {
            push_context(device);
        }
        Ok(())
    }

    fn cuCtxPushCurrent_v2(handle: Handle) {
        let device = driver().world().of_context(handle)?;
        push_context(Some(device));
        Ok(())
    }

    fn cuCtxPopCurrent_v2(handle: Out<Handle>) {
        let popped = pop_context()?;
        if !handle.is_null() {
            handle.put(popped.map_or(0, context))?;
        }
        Ok(())
    }

    fn cuCtxGetDevice(device: Out<i32>) {
        Ok(device.put(current().ok_or(Code::INVALID_CONTEXT)? as i32)?)
    }

    fn cuCtxSynchronize() {
        let (device, streams) = {
            let world = driver().world();
            let device = world.here()?;
            (device, world.streams_of(device))
        };
        for stream in streams {
            let _ = stream.end()?.recv();
        }
        driver().world().broken(device).map_or(Ok(()), Err)
    }
}
