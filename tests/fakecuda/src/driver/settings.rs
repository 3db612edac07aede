//! The environment variables that configure the fake driver, read once.
//!
//! | variable             | meaning                                                    | if absent |
//! |----------------------|------------------------------------------------------------|-----------|
//! | `FAKE_CUDA_DEVICES`  | the number of GPUs                                         | 1         |
//! | `FAKE_CUDA_DRIVER`   | the CUDA version, as `cuDriverGetVersion` returns it       | 13000     |
//! | `FAKE_CUDA_SM`       | compute capability of every GPU, two or three digits       | 90        |
//! | `FAKE_CUDA_MEMORY`   | bytes of memory of each GPU                                | 2^32      |
//! | `FAKE_CUDA_DELAY_US` | the longest wait of a stream before each piece of work     | 300       |
//! | `FAKE_CUDA_SLOW`     | `work:us`, separated by `,`: work of that kind takes that  | nothing   |
//! |                      | much longer: `upload`, `download`, `copy`, `kernel`        |           |
//! | `FAKE_CUDA_SEED`     | seed of the delays and of the order of threads             | 1         |
//! | `FAKE_CUDA_FAIL`     | `name:n:code`, separated by `,`: the n-th call, from 1, of | nothing   |
//! |                      | that function returns code. `*` for n: every call          |           |
//! | `FAKE_CUDA_DEAF`     | `a<b`, separated by `,`: stream a does not wait for events | nothing   |
//! |                      | of stream b. Counted from 1 as created; 0 is the host      |           |
//! | `FAKE_CUDA_LOG`      | if set, calls are logged: `fake_cuda_log` returns them     | no        |

use super::code::Code;
use std::env;
use std::str::FromStr;

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    pub(crate) driver: i32,
    pub(crate) sm: u32,
    pub(crate) memory: u64,
    pub(crate) delay_us: u64,
    /// Kinds of work, and the microseconds by which each takes longer.
    pub(crate) slow: Vec<(String, u64)>,
    pub(crate) seed: u64,
    pub(crate) failures: Vec<Failure>,
    /// Pairs (waiting stream, recording stream) whose waits are ignored: simulates a forgotten
    /// wait.
    pub(crate) deaf: Vec<(u64, u64)>,
    pub(crate) log: bool,
}

/// A call that fails on purpose.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    /// The number of the call, from 1; `None` for every call.
    pub(crate) number: Option<u64>,
    pub(crate) code: Code,
}

impl Settings {
    /// # Panics
    ///
    /// If a variable cannot be parsed: a test that runs with other settings than it asked for
    /// proves nothing.
    pub(crate) fn from_env() -> Self {
        Self {
            devices: number("FAKE_CUDA_DEVICES", 1),
            driver: number("FAKE_CUDA_DRIVER", 13000),
            sm: number("FAKE_CUDA_SM", 90),
            memory: number("FAKE_CUDA_MEMORY", 1 << 32),
            delay_us: number("FAKE_CUDA_DELAY_US", 300),
            slow: each("FAKE_CUDA_SLOW", slow),
            seed: number("FAKE_CUDA_SEED", 1),
            failures: each("FAKE_CUDA_FAIL", failure),
            deaf: each("FAKE_CUDA_DEAF", deaf),
            log: env::var_os("FAKE_CUDA_LOG").is_some(),
        }
    }
}

impl Settings {
    /// Returns true if stream `who` ignores events of stream `whom`.
    pub(crate) fn is_deaf(&self, who: u64, whom: u64) -> bool {
        self.deaf.contains(&(who, whom))
    }
}

fn deaf(text: &str) -> (u64, u64) {
    let read = || {
        let (who, whom) = text.split_once('<')?;
        Some((who.trim().parse().ok()?, whom.trim().parse().ok()?))
    };
    read().unwrap_or_else(|| panic!("FAKE_CUDA_DEAF: {text:?} is no a<b"))
}

fn number<T: FromStr>(name: &str, otherwise: T) -> T {
    let Ok(text) = env::var(name) else { return otherwise };
    text.trim().parse().unwrap_or_else(|_| panic!("{name}: {text:?} is no such number"))
}

fn each<T>(name: &str, read: fn(&str) -> T) -> Vec<T> {
    let text = env::var(name).unwrap_or_default();
    text.split(',').filter(|part| !part.is_empty()).map(read).collect()
}

fn slow(text: &str) -> (String, u64) {
    let read = text.split_once(':').and_then(|(kind, us)| Some((kind, us.trim().parse().ok()?)));
    let known = read.filter(|(kind, _)| ["upload", "download", "copy", "kernel"].contains(kind));
    let (kind, us) = known.unwrap_or_else(|| panic!("FAKE_CUDA_SLOW: {text:?} is no work:us"));
    (kind.to_owned(), us)
}

fn failure(text: &str) -> Failure {
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let read = || {
        let &[name, number, code] = parts.as_slice() else { return None };
        let number = if number == "*" { None } else { Some(number.parse().ok()?) };
        Some(Failure { name: name.to_owned(), number, code: Code(code.parse().ok()?) })
    };
    read().unwrap_or_else(|| panic!("FAKE_CUDA_FAIL: {text:?} is no name:n:code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_name_a_number_and_a_code() {
        let first = Failure { name: "cuInit".into(), number: Some(2), code: Code(100) };
        assert_eq!(failure("cuInit:2:100"), first);
        assert_eq!(failure(" cuInit : * : 100").number, None);
    }

    #[test]
    #[should_panic(expected = "is no name:n:code")]
    fn a_failure_without_a_code_is_refused() {
        failure("cuInit:2");
    }
}
