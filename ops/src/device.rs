//! The device that holds a batch's tensors and computes them from [`ToDevice`](crate::ToDevice) on.

use crate::ParamError;
use std::fmt;
use std::str::FromStr;

/// A device that holds and computes tensors.
///
/// ```
/// # use fuseloop_ops::*;
/// let first = ToDevice::to(Device::Cuda(0));
/// assert_eq!(ToDevice::new("cuda:0")?, first);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// The host's memory and processor.
    Cpu,
    /// The GPU with this number. CUDA numbers the GPUs that the process sees from 0.
    Cuda(u32),
    /// The first GPU, if one can be used; the CPU otherwise.
    Auto,
}

/// The highest accepted GPU number.
const MAX_NUMBER: u32 = 1023;

impl FromStr for Device {
    type Err = ParamError;

    /// Parses `cpu`, `auto`, `cuda` (the same as `cuda:0`) or `cuda:N`.
    fn from_str(name: &str) -> Result<Self, ParamError> {
        let number = |digits: &str| digits.parse().ok().filter(|number| *number <= MAX_NUMBER);
        match name {
            "cpu" => Some(Self::Cpu),
            "auto" => Some(Self::Auto),
            "cuda" => Some(Self::Cuda(0)),
            _ => name.strip_prefix("cuda:").and_then(number).map(Self::Cuda),
        }
        .ok_or_else(|| {
            let found: String = name.chars().take(40).flat_map(char::escape_default).collect();
            ParamError::new("ToDevice", "device", found, "cpu, auto, cuda or cuda:N")
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_pytorch_writes_them() {
        for (name, device) in [
            ("cpu", Device::Cpu),
            ("auto", Device::Auto),
            ("cuda:0", Device::Cuda(0)),
            ("cuda:7", Device::Cuda(7)),
        ] {
            assert_eq!(name.parse(), Ok(device));
            assert_eq!(device.to_string(), name);
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
    }

    #[test]
    fn other_names_are_refused() {
        for name in
            ["", "gpu", "cuda:", "cuda:-1", "cuda:1024", "cuda:99999999999", "CPU", "\u{1b}"]
        {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains("cpu, auto, cuda or cuda:N"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
}
