//! Events.

use crate::abi::{Handle, Out, export};
use crate::driver::code::Code;
use crate::driver::stream::Event;
use crate::driver::world::current;
use crate::driver::{call, driver};

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: u32 = 2;

export! { call => i32;
    fn cuEventCreate(handle: Out<Handle>, flags: u32) {
        let mut world = driver().world();
        let device = world.here()?;
        let new = world.handle();
        handle.put(new)?;
        world.events.insert(new, Event::new(device, flags & NO_TIMING == 0));
        Ok(())
    }

    fn cuEventDestroy_v2(handle: Handle) {
        driver().world().events.remove(&handle).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    fn cuEventRecord(handle: Handle, stream: Handle) {
        let mut world = driver().world();
        let device = current().ok_or(Code::INVALID_CONTEXT)?;
        let event = world.event(handle)?;
        let stream = world.stream(stream, device)?;
        if let Some(code) = world.broken(stream.device) {
            return Err(code);
        }
        if event.device != stream.device {
            return Err(Code::INVALID_HANDLE);
        }
        event.record(&stream)
    }

    fn cuEventQuery(handle: Handle) {
        let event = driver().world().event(handle)?;
        if !event.is_reached() {
            return Err(Code::NOT_READY);
        }
        driver().world().broken(event.device).map_or(Ok(()), Err)
    }

    fn cuEventSynchronize(handle: Handle) {
        let event = driver().world().event(handle)?;
        if !driver().settings.is_deaf(0, event.by()) {
            event.wait(event.recorded());
        }
        driver().world().broken(event.device).map_or(Ok(()), Err)
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(&milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(&milliseconds, start, end)
    }
}

fn elapsed(milliseconds: &Out<f32>, start: Handle, end: Handle) -> Result<(), Code> {
    let world = driver().world();
    let events = [world.event(start)?, world.event(end)?];
    if events.iter().any(|event| !event.timed || event.recorded() == 0) {
        return Err(Code::INVALID_HANDLE);
    }
    let [Some(from), Some(to)] = events.map(|event| event.when()) else {
        return Err(Code::NOT_READY);
    };
    Ok(milliseconds.put(to.saturating_duration_since(from).as_secs_f32() * 1e3)?)
}
