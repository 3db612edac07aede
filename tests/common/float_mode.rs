//! Floating-point modes of a thread other than the one that a process starts with.

#![allow(unsafe_code, reason = "the register of the floating-point mode")]

use std::arch::asm;

/// Modes by name: what `torch.set_flush_denormal(True)` sets, and two of `fesetround`.
pub const MODES: [(&str, u32); 3] = [
    ("denormals are zero", 1 << 15 | 1 << 6),
    ("rounded up", 2 << 13),
    ("rounded towards zero", 3 << 13),
];

/// Runs `work` in a mode, and checks that the mode is unchanged afterwards.
pub fn under<R>((name, mode): (&str, u32), work: impl FnOnce() -> R) -> R {
    let before = read();
    write(0x1f80 | mode);
    let result = std::hint::black_box(run(work));
    let after = read();
    write(before);
    assert_eq!(after & !0x3f, 0x1f80 | mode, "{name}: the mode of the thread was changed");
    result
}

#[inline(never)]
fn run<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn read() -> u32 {
    let mut word = 0u32;
    // SAFETY: the instruction writes the 4 bytes of `word`.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

fn write(word: u32) {
    // SAFETY: the instruction reads the 4 bytes of `word`, which has no reserved bit.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags)) };
}
