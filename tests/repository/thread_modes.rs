//! No thread of the library, the command or the Python package computes in the floating-point mode of the thread that
//! starts it: all are started where `DefaultFloats::keep` is called first.

use crate::layers::{code, rust_files};

/// Where threads are started, each with the file in which the new thread calls `DefaultFloats::keep`.
const STARTS: [(&str, &str); 4] = [
    ("engine/src/threads.rs", "engine/src/threads.rs"),
    ("engine/src/run/engine.rs", "engine/src/run/worker.rs"),
    ("src/parallel.rs", "src/parallel.rs"),
    ("src/source/remote/runtime.rs", "src/source/remote/runtime.rs"),
];

/// What starts a thread by other means than `threads::builder`.
const STARTERS: [&str; 11] = [
    "thread::spawn(",
    "thread::Builder",
    "scope.spawn(",
    "s.spawn(",
    "ThreadPoolBuilder",
    "rayon::spawn",
    "rayon::scope",
    "rayon::join",
    "new_multi_thread",
    "Runtime::new(",
    "tokio::main",
];

/// The code of a file before its module of tests.
fn shipped(text: &str) -> String {
    let code = code(text);
    let is_of_tests = |&(at, _): &(usize, &str)| {
        let mut after = code[at..].lines().skip_while(|line| line.starts_with("#["));
        after.next().is_some_and(|line| line.ends_with('{') && line.contains("mod "))
    };
    let mut tests = code.match_indices("#[cfg(test)]");
    let end = tests.find(is_of_tests).map_or(code.len(), |(at, _)| at);
    code[..end].to_owned()
}

/// True for a file of tests or of benchmarks inside of `src`.
fn is_of_tests(path: &str) -> bool {
    path.split('/').any(|part| part.trim_end_matches(".rs").ends_with("tests"))
}

#[test]
fn threads_are_started_only_where_they_keep_the_default_floating_point_mode() {
    let crates =
        ["src", "ops/src", "engine/src", "jpeg/src", "kernels/src", "cli/src", "python/src"];
    let integrations = ["integrations"];
    let files = crates.iter().chain(&integrations).flat_map(|dir| rust_files(dir));
    let mut found = vec![];
    for (path, text) in files.filter(|(path, _)| !is_of_tests(path)) {
        let code = shipped(&text);
        let by = STARTERS.iter().find(|starter| code.contains(*starter));
        // An iterator of rayon runs in the pool of its caller, or in one of the process that begins with it.
        let iterates =
            ["par_iter", "par_chunks", "par_bridge"].iter().any(|name| code.contains(name));
        let in_pool = ["install(", "on_all_cores("].iter().any(|pool| code.contains(pool));
        let allowed = STARTS.iter().any(|(start, _)| *start == path);
        if let Some(by) = by.filter(|_| !allowed) {
            found.push(format!("{path} has `{by}`: start threads by `threads::builder`"));
        }
        if iterates && !in_pool {
            found.push(format!("{path} iterates in rayon's global pool: use `on_all_cores`"));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_place_that_starts_threads_keeps_the_mode() {
    let files = [rust_files("src"), rust_files("engine/src")].concat();
    let text =
        |path: &str| files.iter().find(|(file, _)| file == path).map(|(_, text)| shipped(text));
    for (start, keep) in STARTS {
        let code = text(start).unwrap_or_else(|| panic!("{start} does not exist"));
        assert!(STARTERS.iter().any(|starter| code.contains(starter)), "{start} starts none");
        assert!(text(keep).unwrap().contains("DefaultFloats::keep"), "{start}: {keep}");
    }
}
