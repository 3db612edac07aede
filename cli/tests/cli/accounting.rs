//! `replay` of batches after a cursor, and `diff` of logs of fingerprints.

use crate::command::{dataset, fuseloop, npy, refused, stdout_of};
use fuseloop::loader::FingerprintLog;
use fuseloop::order::{Ranks, Uneven};
use fuseloop::{Loader, Order, Spec};
use std::fs;
use std::path::Path;

const FILE: &str = "[fields]\nimage = [{ op = 'RandomResizedCrop', size = 16 }, \
    { op = 'Convert', to = 'f32' }, { op = 'MixUp', alpha = 0.4 }]\n\
    label = [{ op = 'OneHot', classes = 2 }, { op = 'MixUp', alpha = 0.4 }]";

fn loader(path: &Path, seed: u64, rank: u32, world: u32) -> Loader {
    let spec = Spec::open(&path.join("p.toml")).unwrap();
    let loader = spec.apply(Loader::open(path.join("photos.beton")).unwrap());
    let ranks = Ranks::new(rank, world, Uneven::Pad).unwrap();
    let loader = loader.batch_size(1).seed(seed).order(Order::Random).ranks(ranks);
    loader.workers(1).build().unwrap()
}

#[test]
fn a_batch_of_any_rank_is_replayed_from_a_cursor() {
    let dir = dataset();
    let path = dir.path();
    fs::write(path.join("p.toml"), FILE).unwrap();
    // Taken by rank 0 after its first batch.
    let saver = loader(path, 9, 0, 2);
    let mut run = saver.epoch(3).unwrap();
    run.next().unwrap().unwrap();
    let cursor = run.cursor().unwrap().to_string();
    let state =
        serde_json::json!({ "fuseloop": 1, "cursor": cursor, "next_epoch": 4, "batches": 1 });
    fs::write(path.join("state.json"), state.to_string()).unwrap();
    fs::write(path.join("cursor.json"), format!("{cursor}\n")).unwrap();
    for rank in 0..2 {
        let batches: Vec<_> =
            loader(path, 9, rank, 2).epoch(3).unwrap().map(Result::unwrap).collect();
        for (number, batch) in batches[1..].iter().enumerate() {
            let (rank_text, number_text) = (rank.to_string(), number.to_string());
            let out = format!("out{rank}");
            let from = ["state.json", "cursor.json", &cursor][number % 3];
            let args = [
                &["replay", "photos.beton", "-p", "p.toml", "-b", "1", "--set", "order=random"][..],
                &["--cursor", from, "--batch", &number_text, "--out", &out],
                &["--rank", &rank_text, "--world-size", "2"],
            ];
            let text = stdout_of(path, &args.concat());
            let expected = format!(
                "photos.beton: p.toml, seed 9, rank {rank} of 2\nepoch 3, batch {}, 1 sample\n\
                 fingerprint {:016x}\nsamples {}\nsaved 2 files in {out}\n",
                number + 1,
                batch.fingerprint(),
                batch.ids()[0]
            );
            assert_eq!(text, expected);
            for name in ["image", "label"] {
                let file = path.join(&out).join(format!("{name}_{:04}.npy", number + 1));
                assert_eq!(npy(&file).2, batch.bytes(name).unwrap());
            }
            assert_eq!(refused(path, &args.concat()).0, 1, "nothing is overwritten");
        }
    }
    let base =
        ["replay", "photos.beton", "-p", "p.toml", "-b", "1", "--rank", "0", "--world-size", "2"];
    let of = |more: &[&str]| refused(path, &[&base[..], more].concat());
    let random = ["--set", "order=random", "--cursor", "cursor.json"];
    let (code, errors) = of(&[&random[..], &["--batch", "2"]].concat());
    assert_eq!(code, 1);
    assert!(errors.contains("no batch 2 after the cursor: 2 batches left in epoch 3"), "{errors}");
    let (_, errors) = of(&[&random[..], &["--seed", "8"]].concat());
    assert!(errors.contains("the cursor belongs to another seed: 9, expected 8"), "{errors}");
    let (_, errors) = of(&["--sequential", "--cursor", "cursor.json"]);
    assert!(errors.contains("another order: random"), "{errors}");
    let (_, errors) = of(&["--cursor", "p.toml"]);
    assert!(errors.contains("p.toml: not a cursor: "), "{errors}");
    let (_, errors) = of(&["--cursor", "none.json"]);
    assert!(errors.contains("none.json: "), "{errors}");
    assert_eq!(of(&["--cursor", "cursor.json", "--sample", "1"]).0, 2);
    assert_eq!(refused(path, &["replay", "photos.beton"]).0, 2);
    assert_eq!(refused(path, &["replay", "photos.beton", "--sample", "1", "--batch", "1"]).0, 2);
}

#[test]
fn the_first_batch_that_differs_is_named() {
    let dir = dataset();
    let path = dir.path();
    fs::write(path.join("p.toml"), FILE).unwrap();
    for (name, seed) in [("a", 9), ("b", 9), ("c", 7)] {
        let loader = loader(path, seed, 0, 1);
        let log = FingerprintLog::open(path.join(name)).unwrap();
        loader.log_fingerprints(log.with_ids());
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    }
    assert_eq!(stdout_of(path, &["diff", "a", "b"]), "the same 6 batches\n");
    let differ = fuseloop(path, &["diff", "a", "c"]);
    assert_eq!(differ.status.code(), Some(1));
    let text = String::from_utf8(differ.stdout).unwrap();
    let expected = "epoch 0, batch 0 differs, after 0 batches that are the same\n  a: line 2\n  c: line 2\n  \
        cause: the seed: 9 in the first log and 7 in the second\n";
    assert!(text.starts_with(expected), "{text}");
    let errors = String::from_utf8(differ.stderr).unwrap();
    assert_eq!(errors, "error: the logs differ at epoch 0, batch 0\n");
    let lines = fs::read_to_string(path.join("a")).unwrap();
    let short = lines.lines().take(4).collect::<Vec<_>>().join("\n");
    fs::write(path.join("short"), &short).unwrap();
    fs::write(path.join("resumed"), format!("{short}\n{lines}")).unwrap();
    let differ = fuseloop(path, &["diff", "a", "short"]);
    let text = String::from_utf8(differ.stdout).unwrap();
    assert!(
        text.ends_with(
            "  a: line 5\n  short: at its end\n  cause: the second log ends after 3 equal batches\n"
        ),
        "{text}"
    );
    let text = stdout_of(path, &["diff", "a", "resumed"]);
    assert_eq!(
        text,
        "the same 6 batches\nresumed: 3 lines repeat a batch, as of a run that was resumed\n"
    );
    let (header, batches) = lines.split_once('\n').unwrap();
    let later: Vec<_> = batches.lines().skip(2).collect();
    fs::write(path.join("later"), format!("{header}\n{}", later.join("\n"))).unwrap();
    let text = stdout_of(path, &["diff", "later", "a"]);
    assert_eq!(
        text,
        "the same 4 batches\na: 2 batches before the first of the other log, not compared\n"
    );
    let changed = later[0].replacen("\"fingerprint\":\"", "\"fingerprint\":\"f", 1);
    let changed = changed.replacen("\",\"ids\"", "#", 1);
    let cut = changed.find('#').unwrap();
    let changed = format!("{}\",\"ids\"{}", &changed[..cut - 1], &changed[cut + 1..]);
    fs::write(path.join("changed"), format!("{lines}{changed}\n")).unwrap();
    let differ = fuseloop(path, &["diff", "a", "changed"]);
    assert_eq!(differ.status.code(), Some(1));
    let text = String::from_utf8(differ.stdout).unwrap();
    assert!(
        text.ends_with("changed: line 8 repeats epoch 0, batch 2 with another fingerprint\n"),
        "{text}"
    );
    let (code, errors) = refused(path, &["diff", "a", "photos.beton"]);
    assert_eq!(code, 1);
    assert!(errors.starts_with("error: photos.beton: line 1: "), "{errors}");
    assert_eq!(refused(path, &["diff", "a"]).0, 2);
}
