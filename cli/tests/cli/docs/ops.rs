//! The tables of all ops in docs/ops.md are made from the registry.

use super::assert_written;
use fuseloop::ops::internals::registry::{OpInfo, ParamDefault, ParamInfo, registry};
use std::fmt::Write as _;

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
    assert_written("docs/ops.md", &tables(registry()));
}
