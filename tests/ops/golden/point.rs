//! Ops that use a pixel or a histogram: invert, posterize, solarize, autocontrast, equalize, gamma, hue,
//! grey, channel order, and a jitter of four ops in all its orders.

use super::support::{Image, cases, number, run, sha256};
use fuseloop::internals::plan::block::nth_order;
use fuseloop_ops::*;
use serde_json::Value as Json;

/// Checks the results of all cases of `op`, each with the list that `make` returns for it. `count` is
/// the number of cases, so that none is lost.
fn check(op: &str, count: usize, make: impl Fn(&Json) -> Ops) {
    let mut seen = 0;
    for case in cases("point.json").iter().filter(|case| case["op"] == op) {
        let out = run(make(case), &Image::of(case), |_| ());
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen += 1;
    }
    assert_eq!(seen, count, "cases of {op}");
}

fn float(value: &Json) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn inverted_pictures_are_torchvisions() {
    check("invert", 12, |_| ops![RandomInvert::new(1.0).unwrap()]);
}

#[test]
fn autocontrast_is_torchvisions() {
    check("autocontrast", 12, |_| ops![RandomAutocontrast::new(1.0).unwrap()]);
}

#[test]
fn equalized_pictures_are_torchvisions() {
    check("equalize", 12, |_| ops![RandomEqualize::new(1.0).unwrap()]);
}

#[test]
fn posterized_pictures_are_torchvisions() {
    check("posterize", 18, |case| {
        ops![RandomPosterize::new(number(&case["bits"])).unwrap().p(1.0).unwrap()]
    });
}

#[test]
fn solarized_pictures_are_torchvisions() {
    check("solarize", 18, |case| {
        ops![RandomSolarize::new(float(&case["threshold"])).unwrap().p(1.0).unwrap()]
    });
}

#[test]
fn solarize_add_is_timms() {
    check("solarize_add", 12, |case| {
        ops![
            SolarizeAdd::new(float(&case["add"]))
                .unwrap()
                .threshold(float(&case["thresh"]))
                .unwrap()
        ]
    });
}

#[test]
fn gamma_is_torchvisions() {
    check("adjust_gamma", 26, |case| {
        ops![Gamma::new(float(&case["gamma"])).unwrap().gain(float(&case["gain"])).unwrap()]
    });
}

#[test]
fn channel_orders_are_torchvisions() {
    check("permute_channels", 6, |case| {
        let order = [0, 1, 2].map(|c| number(&case["permutation"][c]) as usize);
        ops![PermuteChannels::new(order).unwrap()]
    });
}

#[test]
fn hues_are_torchvisions() {
    check("adjust_hue", 40, |case| {
        let hue = float(&case["hue_factor"]);
        ops![RandomHue::new(hue..=hue).unwrap().p(1.0).unwrap()]
    });
}

/// Some goldens have one channel: Fuseloop's output has three equal ones.
#[test]
fn grey_is_torchvisions() {
    let mut seen = 0;
    for case in cases("point.json").iter().filter(|case| case["op"] == "rgb_to_grayscale") {
        let channels = number(&case["num_output_channels"]) as u16;
        let op = Grayscale::new().num_output_channels(channels).unwrap();
        assert_eq!(sha256(&run(ops![op], &Image::of(case), |_| ())), case["sha256"], "{case}");
        let op = RandomGrayscale::new(1.0).unwrap();
        let mut out = run(ops![op], &Image::of(case), |_| ());
        if channels == 1 {
            out = out.into_iter().step_by(3).collect();
        }
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn colour_jitter_with_hue_is_torchvisions_in_all_24_orders() {
    const PARTS: [&str; 4] = ["brightness", "contrast", "saturation", "hue"];
    let mut seen = [0; 24];
    for case in cases("point.json").iter().filter(|case| case["op"] == "color_jitter") {
        let order = case["order"].as_array().unwrap();
        let is_it = |&index: &usize| nth_order(4, index).map(|part| PARTS[part]).eq(order.iter());
        let index = (0..24).find(is_it).unwrap();
        let [b, c, s, h] = [0, 1, 2, 3].map(|part| float(&case["factors"][part]));
        let jitter = ColorJitter::new(b..=b, c..=c, s..=s).unwrap().hue(h..=h).unwrap();
        let out = run(ops![jitter], &Image::of(case), |draws| draws.orders = vec![(0, index)]);
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen[index] += 1;
    }
    assert!(seen.iter().all(|&n| n >= 2), "{seen:?}");
}
