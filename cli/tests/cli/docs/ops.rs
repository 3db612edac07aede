//! The tables of all ops in docs/ops.md are made from the registry.

use fuseloop::ops::internals::registry::{OpInfo, ParamDefault, ParamInfo, registry};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The lines of docs/ops.md around the tables.
const BEGIN: &str = "<!-- FUSELOOP_WRITE_DOCS=1 cargo test -p fuseloop-cli --test cli docs:: -->\n";
const END: &str = "<!-- end -->\n";

/// A table for each family of ops.
fn tables(ops: &[OpInfo]) -> String {
    let mut text = String::new();
    for family in ops.chunk_by(|a, b| a.class == b.class) {
        let _ = write!(
            text,
            "\n### {}\n\n| op | parameters | meaning |\n|---|---|---|\n",
            family[0].class
        );
        for op in family {
            let params: Vec<String> = op.params.iter().map(parameter).collect();
            let _ = writeln!(text, "| `{}` | {} | {} |", op.name, params.join(", "), op.summary);
        }
    }
    text.push('\n');
    text
}

fn parameter(param: &ParamInfo) -> String {
    match param.need {
        ParamDefault::Required(_) => format!("`{}`", param.name),
        ParamDefault::Default(default) => format!("`{} = {default}`", param.name),
        ParamDefault::Optional => format!("`[{}]`", param.name),
    }
}

#[test]
fn the_tables_of_ops_are_those_of_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ops.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = tables(registry());
    if std::env::var_os("FUSELOOP_WRITE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, &expected, END, after].concat()).unwrap();
        return;
    }
    assert!(found == expected, "docs/ops.md is not up to date. Write its tables with {BEGIN}");
}
