//! timm's RandAugment: the meaning of its strings, and the arguments of its actions.

use super::support::{cases, number};
use fuseloop_ops::RandAugment;
use fuseloop_ops::internals::timm::{Config, Set, TimmAction};
use serde_json::Value as Json;

const SETS: [Set; 5] =
    [Set::Plain, Set::Increasing, Set::Weights, Set::ThreeAugment, Set::ThreeAugmentWeights];

fn cases_of(op: &str) -> Vec<Json> {
    let cases: Vec<Json> = cases("timm.json").into_iter().filter(|case| case["op"] == op).collect();
    assert!(!cases.is_empty(), "no cases of {op}");
    cases
}

#[test]
fn strings_say_what_they_say_to_timm() {
    for case in cases_of("config") {
        let text = case["config"].as_str().unwrap();
        let config = match Config::parse(text) {
            Ok(config) => config,
            Err(error) => {
                assert!(case["error"].is_string(), "{error}: {case}");
                assert!(RandAugment::timm(text).is_err());
                continue;
            }
        };
        assert!(case["error"].is_null(), "{config:?}: {case}");
        assert_eq!(config.n, number(&case["n"]), "{case}");
        assert_eq!(f64::from(config.m), case["magnitude"].as_f64().unwrap(), "{case}");
        assert_eq!(config.p, case["p"].as_f64().unwrap(), "{case}");
        assert_eq!(config.mstd, case["mstd"].as_f64().unwrap_or(f64::INFINITY), "{case}");
        assert_eq!(config.mmax.map(u64::from), case["mmax"].as_u64(), "{case}");
        let ops = case["ops"].as_array().unwrap().iter();
        assert!(ops.eq(config.set.actions().iter().map(|action| action.name())), "{case}");
        assert_weights(config.set.weights(), &case["weights"]);
    }
}

/// timm's weights are normalized in f32.
fn assert_weights(ours: Option<&[f64]>, theirs: &Json) {
    let Some(ours) = ours else { return assert!(theirs.is_null(), "{theirs}") };
    let (sum, theirs) = (ours.iter().sum::<f64>(), theirs.as_array().unwrap());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours / sum - theirs.as_f64().unwrap()).abs() < 1e-7);
    }
}

#[test]
fn actions_are_called_with_what_timm_calls_them_with() {
    let actions: Vec<TimmAction> = SETS.iter().flat_map(|set| set.actions()).copied().collect();
    let mut unused = vec![];
    for case in cases_of("level_to_arg") {
        let name = case["name"].as_str().unwrap();
        let Some(action) = actions.iter().find(|action| action.name() == name) else {
            unused.push(name.to_owned());
            continue;
        };
        let negated = case["negated"].as_bool().unwrap();
        let levels = case["levels"].as_array().unwrap().iter();
        for (level, args) in levels.zip(case["args"].as_array().unwrap()) {
            let ours = action.argument(level.as_f64().unwrap(), negated);
            let theirs = args.get(0).and_then(Json::as_f64);
            // The JSON reader may be off in the last bit.
            let off = ours.zip(theirs).map_or(0.0, |(a, b)| (a - b).abs() / a.abs().max(1.0));
            assert!(ours.is_some() == theirs.is_some() && off < 1e-15, "{ours:?} {level} {case}");
        }
    }
    unused.dedup();
    assert_eq!(unused, ["PosterizeOriginal", "TranslateX", "TranslateY", "GaussianBlurRand"]);
}
