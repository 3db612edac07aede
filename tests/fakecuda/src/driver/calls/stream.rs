//! Streams. Waiting for a stream, or querying it, needs no current context; giving it work does.

use crate::abi::{Handle, Out, export};
use crate::driver::code::Code;
use crate::driver::stream::Stream;
use crate::driver::world::current;
use crate::driver::{call, driver};
use std::sync::Arc;

export! { call => i32;
    fn cuStreamCreate(handle: Out<Handle>, _flags: u32) {
        create(&handle)
    }

    fn cuStreamCreateWithPriority(handle: Out<Handle>, _flags: u32, _priority: i32) {
        create(&handle)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        driver().world().here()?;
        least.put(0)?;
        Ok(greatest.put(-5)?)
    }

    fn cuStreamDestroy_v2(handle: Handle) {
        driver().world().streams.remove(&handle).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    fn cuStreamSynchronize(handle: Handle) {
        let stream = find(handle)?;
        synchronize(&stream)
    }

    fn cuStreamQuery(handle: Handle) {
        let stream = find(handle)?;
        if stream.is_idle() { Ok(()) } else { Err(Code::NOT_READY) }
    }

    fn cuStreamWaitEvent(handle: Handle, event: Handle, _flags: u32) {
        let mut world = driver().world();
        let device = current().ok_or(Code::INVALID_CONTEXT)?;
        let stream = world.stream(handle, device)?;
        let event = world.event(event)?;
        if let Some(code) = world.broken(stream.device) {
            return Err(code);
        }
        if driver().settings.is_deaf(stream.number, event.by()) {
            return Ok(());
        }
        let number = event.recorded();
        stream.push(move || event.wait(number))
    }
}

fn create(handle: &Out<Handle>) -> Result<(), Code> {
    let mut world = driver().world();
    let device = world.here()?;
    let stream = world.start_stream(device);
    let new = world.handle();
    handle.put(new)?;
    world.streams.insert(new, stream);
    Ok(())
}

/// Returns a stream by its handle; a default stream is the current context's.
fn find(handle: Handle) -> Result<Arc<Stream>, Code> {
    let mut world = driver().world();
    if handle <= 2 {
        return world.stream_here(handle);
    }
    let stream = world.stream(handle, 0)?;
    world.broken(stream.device).map_or(Ok(stream), Err)
}

/// Waits until all work of a stream is done.
pub(crate) fn synchronize(stream: &Stream) -> Result<(), Code> {
    let _ = stream.end()?.recv();
    driver().world().broken(stream.device).map_or(Ok(()), Err)
}
