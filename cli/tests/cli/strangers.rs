//! The command on files by other writers and odd layouts: tests/strangers/README.md says what a case is.

#[allow(dead_code, reason = "tests of the library share it, and compare fields and pixels, too")]
#[path = "../../../tests/strangers/case.rs"]
mod case;

use super::command::fuseloop;
use case::Case;
use std::fs;
use std::process::Output;

/// The lines of stderr that begin with a word.
fn lines<'a>(stderr: &'a str, word: &str) -> Vec<&'a str> {
    stderr.lines().filter_map(|line| line.strip_prefix(word)).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Compares what the command does with the outcome of the case. The error says how they differ.
fn wrong(case: &Case, dir: &std::path::Path) -> Result<(), String> {
    let path = case.path.to_str().unwrap();
    let pipeline = dir.join("pipeline.toml");
    fs::write(&pipeline, case.toml()).unwrap();
    let run = ["bench", path, "--pipeline", pipeline.to_str().unwrap(), "--epochs", "1", "-j", "1"];
    let bench = fuseloop(dir, &run);
    let verify = fuseloop(dir, &["verify", path, "--json"]);
    let (bench_text, verify_text) = (stderr(&bench), stderr(&verify));
    if let Some(words) = &case.error {
        let failed = [(&bench, &bench_text), (&verify, &verify_text)];
        let says = failed
            .iter()
            .any(|(output, text)| output.status.code() == Some(1) && text.contains(&**words));
        return if says {
            Ok(())
        } else {
            Err(format!("no error {words:?}: {bench_text}{verify_text}"))
        };
    }
    case.check_warnings(&lines(&bench_text, "warning: "))
        .map_err(|text| format!("bench: {text}"))?;
    if case.damaged.is_empty() {
        let code = bench.status.code();
        if code != Some(0) {
            return Err(format!("bench: {code:?}: {bench_text}"));
        }
    }
    let report: serde_json::Value = serde_json::from_slice(&verify.stdout)
        .map_err(|_| format!("verify: {:?}: {verify_text}", verify.status.code()))?;
    let damaged = report["damaged"].as_array().unwrap();
    let damaged: Vec<String> = damaged
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or("").to_owned();
            format!("{}: {} ({}): {}", text("path"), text("key"), text("field"), text("error"))
        })
        .collect();
    case.check_damaged(&damaged)
}

#[test]
fn every_case_has_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let cases = Case::all();
    assert!(!cases.is_empty());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.name, wrong(case, dir.path()).err()?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
