//! A plan replaced in the middle of an epoch: the rows are the old plan's up to a batch and the new
//! plan's from that batch on, each as in an epoch of its own.

use super::{all, builder, crops, pictures, rows};
use fuseloop::loader::Pipeline;
use fuseloop::ops::*;

#[test]
fn at_any_batch() {
    let (_dir, path) = pictures(31);
    let old = all(builder(&path).build().unwrap().epoch(3).unwrap());
    let new = builder(&path).pipeline("image", crops(24)).build().unwrap();
    let new = all(new.epoch(3).unwrap());
    for taken in 0..=old.len() {
        let loader = builder(&path).build().unwrap();
        let mut batches = loader.epoch(3).unwrap();
        for want in &old[..taken] {
            assert!(rows(&batches.next().unwrap().unwrap()) == *want);
        }
        loader.set_pipeline("image", crops(24)).unwrap();
        let rest = loader.renew(batches).unwrap();
        assert_eq!(rest.remaining(), (old.len() - taken) as u64);
        assert!(all(rest) == new[taken..], "after {taken} batches");
        assert!(all(loader.epoch(3).unwrap()) == new, "and in the epochs to come");
    }
}

#[test]
fn a_plan_that_does_not_fit_changes_nothing() {
    let (_dir, path) = pictures(13);
    let loader = builder(&path).build().unwrap();
    let want = all(loader.epoch(0).unwrap());
    assert!(loader.set_pipeline("picture", crops(24)).is_err());
    assert!(loader.set_pipeline("image", ops![OneHot::new(3).unwrap()]).is_err());
    let failing = Pipeline::by_epoch(|epoch| Err(format!("no list for {epoch:?}")));
    let error = loader.set_pipeline("image", failing).unwrap_err().to_string();
    assert!(error.contains("no list for Epoch(0)"), "{error}");
    assert!(all(loader.epoch(0).unwrap()) == want);
}

#[test]
fn branches_follow_and_views_do_not() {
    let (_dir, path) = pictures(13);
    let make = |side: u32| {
        builder(&path)
            .pipeline("image", crops(side))
            .branch("gray", "image", 2, ops![Grayscale::new()])
            .view("second", "image", crops(8))
    };
    let loader = make(16).build().unwrap();
    loader.set_pipeline("image", crops(24)).unwrap();
    assert!(all(loader.epoch(0).unwrap()) == all(make(24).build().unwrap().epoch(0).unwrap()));
}

#[test]
fn an_image_and_its_label_are_changed_together() {
    let (_dir, path) = pictures(13);
    let mixup = || MixUp::new(0.4).unwrap();
    let with = |last: fn() -> Ops| {
        builder(&path).pipeline("image", [crops(16), last()].concat()).pipeline("label", last())
    };
    let loader = with(|| ops![MixUp::new(0.4).unwrap()]).build().unwrap();
    let mixed = all(loader.epoch(1).unwrap());
    for (output, list) in [("image", crops(16)), ("label", ops![])] {
        let error = loader.set_pipeline(output, list).unwrap_err().to_string();
        assert!(error.contains("MixUp, with the same parameters"), "{error}");
    }
    loader.set_pipelines([("image", crops(16)), ("label", ops![])]).unwrap();
    let plain = all(with(|| ops![]).build().unwrap().epoch(1).unwrap());
    assert!(all(loader.epoch(1).unwrap()) == plain && plain != mixed);
    assert!(loader.set_pipelines([("image", crops(24)), ("labels", ops![])]).is_err());
    let half = [("image", [crops(16), ops![mixup()]].concat()), ("label", ops![Squeeze])];
    assert!(loader.set_pipelines(half).is_err());
    assert!(all(loader.epoch(1).unwrap()) == plain, "a change that fails changes nothing");
    loader.set_pipelines::<Ops>([]).unwrap();
    let again = [("image", [crops(16), ops![mixup()]].concat()), ("label", ops![mixup()])];
    loader.set_pipelines(again).unwrap();
    assert!(all(loader.epoch(1).unwrap()) == mixed);
}
