//! The driver and its devices. Attributes are those of `CUdevice_attribute`; attributes that the
//! fake does not define are 0, memory pools (115) among them.

use crate::abi::{Host, Out, export};
use crate::driver::code::Code;
use crate::driver::{call, driver};
use std::ffi::{CStr, c_char};

export! { call => i32;
    fn cuDriverGetVersion(version: Out<i32>) {
        Ok(version.put(driver().settings.driver)?)
    }

    fn cuInit(_flags: u32) {
        if driver().settings.devices == 0 {
            return Err(Code::NO_DEVICE);
        }
        driver().world().initialised = true;
        Ok(())
    }

    fn cuDeviceGetCount(count: Out<i32>) {
        let world = driver().world();
        if !world.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        Ok(count.put(world.devices.len() as i32)?)
    }

    fn cuDeviceGet(device: Out<i32>, ordinal: i32) {
        Ok(device.put(driver().world().device(ordinal)? as i32)?)
    }

    fn cuDeviceGetName(name: Host, len: i32, device: i32) {
        let device = driver().world().device(device)?;
        put_text(name, len, &format!("Fake GPU {device}"))
    }

    fn cuDeviceGetPCIBusId(id: Host, len: i32, device: i32) {
        let device = driver().world().device(device)?;
        put_text(id, len, &format!("0000:{:02X}:00.0", device + 1))
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) {
        put_uuid(&uuid, device)
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) {
        put_uuid(&uuid, device)
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        driver().world().device(device)?;
        Ok(bytes.put(driver().settings.memory as usize)?)
    }

    fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) {
        driver().world().device(device)?;
        let sm = driver().settings.sm as i32;
        Ok(value.put(match attribute {
            1..=3 => 1024,          // threads of a block, and along x and y
            4 => 64,                    // along z
            5 => 0x7fff_ffff,           // blocks along x
            6 | 7 => 0xffff,            // along y and z
            8 => 48 << 10,              // shared memory of a block
            10 => 32,                   // threads of a warp
            16 => 4,                    // multiprocessors
            19 | 31 | 41 | 99 => 1,     // maps host memory, runs kernels side by side, one address space, registers
            39 => 2048,                 // threads of a multiprocessor
            40 => 2,                    // copies beside kernels, both ways
            75 => sm / 10,
            76 => sm % 10,
            _ => 0,
        })?)
    }

    fn cuGetErrorString(code: i32, text: Out<*const c_char>) {
        put_words(&text, Code(code).words().map(|words| words.1))
    }

    fn cuGetErrorName(code: i32, text: Out<*const c_char>) {
        put_words(&text, Code(code).words().map(|words| words.0))
    }
}

fn put_words(text: &Out<*const c_char>, words: Option<&'static CStr>) -> Result<(), Code> {
    text.put(words.map_or(std::ptr::null(), CStr::as_ptr))?;
    words.map(|_| ()).ok_or(Code::INVALID_VALUE)
}

/// Writes as much of the text as fits, and a NUL.
fn put_text(to: Host, len: i32, text: &str) -> Result<(), Code> {
    let room = usize::try_from(len).map_err(|_| Code::INVALID_VALUE)?;
    let kept = text.len().min(room.checked_sub(1).ok_or(Code::INVALID_VALUE)?);
    to.span(room)?.write(&[&text.as_bytes()[..kept], &[0]].concat());
    Ok(())
}

fn put_uuid(uuid: &Out<[u8; 16]>, device: i32) -> Result<(), Code> {
    let device = driver().world().device(device)?;
    let mut bytes = *b"fake GPU, no. 00";
    bytes[15] += device as u8;
    Ok(uuid.put(bytes)?)
}
