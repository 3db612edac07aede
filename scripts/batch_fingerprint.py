#!/usr/bin/env python3
"""Computes the fingerprints that the test of engine/src/batch/fingerprint.rs expects, from the formula in its comment."""

WORD = 2**64 - 1
ODD = 0x9E3779B97F4A7C15


def mix(word: int) -> int:
    """The finaliser of SplitMix64, after its step."""
    z = (word + ODD) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def fingerprint(origin: int, epoch: int, index: int, rows: list[tuple[int, int]]) -> int:
    """Returns the fingerprint of a batch of these rows, each a sample and its repeat."""
    start = mix(mix(origin ^ epoch) ^ index)
    lanes = [start + lane & WORD for lane in range(4)]
    for row, (sample, repeat) in enumerate(rows):
        lanes[row % 4] = mix(lanes[row % 4] ^ (sample + repeat * ODD & WORD))
    for lane in lanes:
        start = mix(start ^ lane)
    return start


print(f"0x{fingerprint(7, 1, 2, []):016x}")
print(f"0x{fingerprint(7, 1, 2, [(5, 0), (0, 0), (1 << 40, 0), (7, 0), (6, 0)]):016x}")
print(f"0x{fingerprint(WORD, 0, 0, [(5, 3)]):016x}")
