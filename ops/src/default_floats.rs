//! The floating-point mode that numbers are computed in, whatever mode the program has set.
//!
//! A mode is a register of a thread: how results are rounded (`fesetround`), whether denormal numbers count as
//! zero (`torch.set_flush_denormal(True)`, or a library built with `-ffast-math`), and which exceptions stop the
//! program (`feenableexcept`). A thread inherits the mode of the thread that started it. Rust and LLVM assume the
//! mode that a process starts with: results are rounded to the nearest value, denormals are kept, no exception
//! stops.
//!
//! | | register | bits |
//! |---|---|---|
//! | x86-64 | `MXCSR` | 0 to 5: exceptions so far; 6: denormal operands are zero; 7 to 12: exceptions that do not stop; 13 and 14: rounding; 15: denormal results are zero |
//! | AArch64 | `FPCR` | all 0 in the default mode |
//!
//! On other architectures nothing is done.

#![allow(unsafe_code, reason = "the register of the floating-point mode")]

use std::hint::black_box;

/// The floating-point mode of a thread, which it gets back when this is dropped.
#[derive(Debug)]
pub struct DefaultFloats {
    /// The register of the thread, if it had another mode.
    before: Option<Word>,
}

impl DefaultFloats {
    /// Runs `work` in the default mode. The thread has its own mode and its record of exceptions again afterwards,
    /// also after a panic.
    pub fn during<R>(work: impl FnOnce() -> R) -> R {
        let mode = Self::set();
        // The compiler knows nothing of modes. It moves no arithmetic on these values out of the two barriers.
        let result = black_box(run(black_box(work)));
        drop(mode);
        result
    }

    /// Sets the default mode for the rest of the thread's life. For threads that the library starts.
    pub fn keep() {
        std::mem::forget(Self::set());
    }

    #[inline(never)]
    fn set() -> Self {
        let found = read();
        if is_default(found) {
            return Self { before: None };
        }
        write(DEFAULT);
        Self { before: Some(found) }
    }
}

impl Drop for DefaultFloats {
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            write(before);
        }
    }
}

/// Calls `work`, as a function of its own.
#[inline(never)]
fn run<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Returns the `f32` nearest to `value`, in any mode of the thread.
pub(crate) fn nearest_f32(value: f64) -> f32 {
    DefaultFloats::during(|| value as f32)
}

#[cfg(target_arch = "x86_64")]
use x86::{DEFAULT, Word, is_default, read, write};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    /// The register.
    pub(super) type Word = u32;

    /// All exceptions masked, rounding to the nearest value, denormals kept, no exception so far.
    pub(super) const DEFAULT: Word = 0x1f80;

    /// The bits that record exceptions.
    const EXCEPTIONS: Word = 0x3f;

    pub(super) fn is_default(word: Word) -> bool {
        word & !EXCEPTIONS == DEFAULT
    }

    pub(super) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: the instruction writes the 4 bytes at the address, which are those of `word`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: the instruction reads the 4 bytes of `word`. They are `DEFAULT` or what `read` returned, so no
        // reserved bit is set, which would fault.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags, readonly));
        }
    }
}

#[cfg(target_arch = "aarch64")]
use arm::{DEFAULT, Word, is_default, read, write};

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::asm;

    /// The register.
    pub(super) type Word = u64;

    /// No trap, rounding to the nearest value, denormals kept.
    pub(super) const DEFAULT: Word = 0;

    pub(super) fn is_default(word: Word) -> bool {
        word == DEFAULT
    }

    pub(super) fn read() -> Word {
        let word: Word;
        // SAFETY: programs may read the register.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nostack, preserves_flags)) };
        word
    }

    pub(super) fn write(word: Word) {
        // SAFETY: programs may write the register; `word` is `DEFAULT` or what `read` returned.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other::{DEFAULT, Word, is_default, read, write};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other {
    pub(super) type Word = ();
    pub(super) const DEFAULT: Word = ();

    pub(super) fn is_default((): Word) -> bool {
        true
    }

    pub(super) fn read() -> Word {}

    pub(super) fn write((): Word) {}
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Denormals are zero, as operands and as results, and results are rounded up.
    const OTHER: Word = DEFAULT | 1 << 15 | 1 << 6 | 2 << 13;

    /// A call, which the compiler doesn't move past another change of the mode, as it would move the divisions alone.
    #[inline(never)]
    fn third_and_denormal() -> [f64; 2] {
        [black_box(1.0) / black_box(3.0), black_box(f64::MIN_POSITIVE) / black_box(4.0)]
    }

    #[test]
    fn work_has_the_default_mode_and_the_thread_its_own_again() {
        let here = read();
        write(OTHER);
        let other = third_and_denormal();
        let default = DefaultFloats::during(third_and_denormal);
        let nested = DefaultFloats::during(|| DefaultFloats::during(third_and_denormal));
        let tenth = nearest_f32(black_box(0.1));
        let panicked =
            catch_unwind(AssertUnwindSafe(|| DefaultFloats::during(|| panic!("a test"))));
        let after = read();
        write(here);
        assert!(panicked.is_err());
        assert_eq!(after & !0x3f, OTHER);
        assert_eq!(default, [1.0 / 3.0, f64::MIN_POSITIVE / 4.0]);
        assert_eq!(nested, default);
        assert!(other[0] > default[0] && other[1] == 0.0, "{other:?}");
        assert_eq!(tenth, 0.1);
    }

    #[test]
    fn a_thread_inherits_the_mode_and_keeps_the_default_one() {
        let here = read();
        write(OTHER);
        let thread = std::thread::spawn(|| {
            let inherited = third_and_denormal();
            DefaultFloats::keep();
            (inherited, third_and_denormal())
        });
        write(here);
        let (inherited, kept) = thread.join().unwrap();
        assert!(inherited[0] > kept[0] && inherited[1] == 0.0);
        assert_eq!(kept, [1.0 / 3.0, f64::MIN_POSITIVE / 4.0]);
    }
}
