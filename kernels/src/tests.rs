//! The guarantees of all row functions: the bits of the portable implementation, and no write outside
//! the row.

#![allow(unsafe_code, reason = "row functions are called by address")]

use super::*;

/// Returns every sign and exponent, with mantissas around the ties of the 16-bit floats; and numbers
/// around the ties and ends of the integers.
fn edges() -> Vec<f32> {
    let ties = [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001];
    let more = [0x17fff, 0x18000, 0x18001, 0x3f_ffff, 0x40_0000, 0x7f_efff, 0x7f_ffff];
    let mantissas = || ties.into_iter().chain(more);
    let mut edges: Vec<f32> =
        (0..512).flat_map(|top| mantissas().map(move |m| f32::from_bits(top << 23 | m))).collect();
    for whole in
        [0.0f32, 255.0, 32_767.0, 32_768.0, 65_535.0, 65_536.0, 2_147_483_648.0, 9.223_372e18]
    {
        for number in [whole - 0.5, whole, whole + 0.5, whole.next_up(), whole.next_down()] {
            edges.extend([number, -number]);
        }
    }
    edges
}

/// Returns the size of an element that a row function reads, and of one that it writes.
fn sizes(function: &RowFunction) -> [usize; 2] {
    let from = if function.name.starts_with("floats") { 4 } else { 1 };
    let to = function.name.trim_end_matches("_streamed").rsplit('_').next().unwrap();
    let bits: usize = to.trim_start_matches(|c: char| c.is_alphabetic()).parse().unwrap();
    [from, bits / 8]
}

const NUMBERS: [Numbers; 3] =
    [[117.0, 0.0171, -3e-10, 0.001], [-3.5, 1e6, 0.1, -7.0], [255.0, 1e-6, 0.0, 65_504.0]];

/// Memory for rows with any alignment: `lead` elements after a multiple of 64 bytes.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "read by address")] [u8; 64]);

/// Runs both implementations of a row function on `src`, `lead` elements after the start of a cache
/// line. Both must produce the same bits and leave the surrounding bytes unchanged.
fn assert_same(function: &RowFunction, src: &[u8], lead: usize) {
    let [from, to] = sizes(function);
    let n = src.len() / from;
    let mut source = vec![Line([0; 64]); src.len() / 64 + 2];
    let first = source.as_mut_ptr().cast::<u8>();
    let outputs = [function.entry(), function.portable()].map(|entry| {
        let mut out = vec![Line([0xab; 64]); (lead + n) * to / 64 + 2];
        let (len, start) = (64 * out.len(), out.as_mut_ptr().cast::<u8>());
        // SAFETY: `source` is at least `from` + `src.len()` bytes long, and is no other slice.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), first.add(from), src.len()) };
        // SAFETY: there are `n` elements at both addresses, which are multiples of an element's size.
        unsafe { entry(first.add(from), start.add(lead * to), n as u64, NUMBERS.as_ptr()) };
        end_streams();
        // SAFETY: the bytes of `out`, which were all written.
        unsafe { std::slice::from_raw_parts(start, len) }.to_vec()
    });
    let [fast, portable] = &outputs;
    let difference = fast.iter().zip(portable).position(|(a, b)| a != b);
    if let Some(byte) = difference {
        let element = (byte / to).wrapping_sub(lead);
        let value = src.get(element * from..(element + 1) * from);
        panic!("{} of {n}, {lead} in: element {element}, {value:x?}", function.name);
    }
    let inside = lead * to..(lead + n) * to;
    let around = portable.iter().enumerate().filter(|(byte, _)| !inside.contains(byte));
    assert!(around.into_iter().all(|(_, &byte)| byte == 0xab), "{}, {n}, {lead}", function.name);
}

/// Returns `count` elements of a source, taken from `values` from index `first` on.
fn source(function: &RowFunction, values: &[f32], first: usize, count: usize) -> Vec<u8> {
    let values = values.iter().cycle().skip(first).take(count);
    match sizes(function)[0] {
        4 => values.flat_map(|value| value.to_ne_bytes()).collect(),
        _ => (first..first + count).map(|byte| byte as u8).collect(),
    }
}

#[test]
fn edges_have_the_twins_bits() {
    let edges = edges();
    for function in &ROW_FUNCTIONS {
        assert_same(function, &source(function, &edges, 0, edges.len()), 0);
    }
}

#[test]
fn every_length_and_start_has_the_twins_bits_and_nothing_else_is_written() {
    let edges = edges();
    for function in &ROW_FUNCTIONS {
        for count in 0..=70 {
            for lead in [0, 1, 2, 7, 8, 15, 31, 33] {
                assert_same(function, &source(function, &edges, 97 * count + lead, count), lead);
            }
        }
        for count in [128, 224, 672] {
            (0..66).for_each(|lead| {
                assert_same(function, &source(function, &edges, 11 * lead, count), lead);
            });
        }
    }
}

#[test]
fn any_bits_have_the_twins_bits() {
    arbtest::arbtest(|u| {
        let values: Vec<f32> =
            u.arbitrary_iter()?.map(|b| Ok(f32::from_bits(b?))).collect::<Result<_, _>>()?;
        let lead = u.int_in_range(0..=65)?;
        for function in ROW_FUNCTIONS.iter().filter(|_| !values.is_empty()) {
            assert_same(function, &source(function, &values, 0, values.len()), lead);
        }
        Ok(())
    })
    .budget_ms(1_000);
}

#[test]
fn no_elements_need_no_memory() {
    for function in &ROW_FUNCTIONS {
        for entry in [function.entry(), function.portable()] {
            // SAFETY: if `n` is 0, no pointer is read.
            unsafe { entry(std::ptr::null(), std::ptr::null_mut(), 0, std::ptr::null()) };
        }
    }
}

#[test]
fn names_are_found_and_are_their_own() {
    for function in &ROW_FUNCTIONS {
        let found = RowFunction::named(function.name).unwrap();
        assert!(std::ptr::eq(found, function), "{} twice", function.name);
    }
    assert!(RowFunction::named("floats_u8").is_none());
}

/// Checks a few values by hand, so that both implementations are known to be correct and not only
/// equal.
#[test]
fn twins_mean_what_they_say() {
    let row = |name: &str, src: &[f32]| -> Vec<u8> {
        let function = RowFunction::named(name).unwrap();
        let mut out = vec![0u64; src.len()];
        let to = out.as_mut_ptr().cast::<u8>();
        // SAFETY: the source is a row of floats, and there are 8 bytes for each result, which is enough
        // for every type.
        unsafe { function.portable()(src.as_ptr().cast(), to, src.len() as u64, std::ptr::null()) };
        let bytes: Vec<u8> = out.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes[..src.len() * sizes(function)[1]].to_vec()
    };
    let i16s = |values: [i16; 4]| values.map(i16::to_ne_bytes).concat();
    assert_eq!(row("floats_i16", &[0.5, -1.5, 1e9, f32::NAN]), i16s([0, -2, i16::MAX, 0]));
    let u16s = |values: [u16; 6]| values.map(u16::to_ne_bytes).concat();
    assert_eq!(
        row("floats_u16", &[0.5, -1.5, 40_001.5, 65_534.5, 1e9, f32::NAN]),
        u16s([0, 0, 40_002, 65_534, u16::MAX, 0])
    );
    let i32s = |values: [i32; 3]| values.map(i32::to_ne_bytes).concat();
    assert_eq!(row("floats_i32", &[2.5, 3e9, f32::NEG_INFINITY]), i32s([2, i32::MAX, i32::MIN]));
    let i64s = |values: [i64; 3]| values.map(i64::to_ne_bytes).concat();
    assert_eq!(
        row("floats_i64", &[-0.5, 1e18, 3e9]),
        i64s([0, 999_999_984_306_749_440, 3_000_000_000])
    );
    assert_eq!(row("floats_f64", &[0.1]), f64::from(0.1f32).to_ne_bytes());
    assert_eq!(
        row("floats_f16", &[1.0, 65_520.0]),
        [0x3c00u16, 0x7c00].map(u16::to_ne_bytes).concat()
    );
    assert_eq!(
        row("floats_bf16", &[1.0, -2.0]),
        [0x3f80u16, 0xc000].map(u16::to_ne_bytes).concat()
    );
}
