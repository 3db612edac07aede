//! Generates the text of an image's fused ops: a function for each op, and the calls in order.

use super::image::ImageCode;
use super::translate::function;
use super::translation::Translation;
use super::{KernelBuilder, Untranslatable};
use crate::jit::multiply;
use crate::plan::PaintedRect;
use crate::plan::block::{FusedOp, OpGroup, reduction};
use std::fmt::Write as _;

impl ImageCode<'_> {
    /// Returns the offset of an op parameter of the plan in the record, in words.
    pub(super) fn param(&self, param: usize) -> usize {
        self.layout.param(param - self.block.params.start)
    }

    /// Generates the functions of all fused ops; returns the text that calls them in order.
    pub(super) fn steps(&self, to: &mut KernelBuilder, p: usize) -> Result<String, Untranslatable> {
        let (mut calls, mut shuffled, mut mean, mut written) = (String::new(), 0, 0, vec![]);
        for (k, step) in self.block.groups.iter().enumerate() {
            let mut links = vec![];
            for link in &step.fused_ops {
                let needs = reduction(self.plan.flat_ops(), *link).map(|_| {
                    mean += 1;
                    mean - 1
                });
                let name = self.op_function(to, p, *link, step, &mut written)?;
                links.push(self.link(p, *link, needs, name.as_deref()));
            }
            let body = match &links[..] {
                [one] => one.clone(),
                parts => {
                    let order = 4 * self.layout.order(shuffled);
                    shuffled += 1;
                    in_order(parts, order)
                }
            };
            let guarded = self.can_be_skipped(step);
            if guarded {
                let word = 4 * self.layout.active(k);
                let _ = writeln!(calls, "    if (load_word(record + {word}) >> {} & 1u)", k % 32);
            }
            let _ = write!(calls, "    {{\n{body}    }}\n");
        }
        Ok(calls)
    }

    /// Returns true if the op group may not run for some samples.
    fn can_be_skipped(&self, step: &OpGroup) -> bool {
        let leaf = &self.plan.flat_ops()[step.flat_ops[0]];
        !leaf.guards.is_empty() || leaf.kind.may_skip()
    }

    /// Generates the function of an arithmetic op, unless it exists already; returns its name.
    fn op_function(
        &self,
        to: &mut KernelBuilder,
        p: usize,
        link: FusedOp,
        step: &OpGroup,
        written: &mut Vec<FusedOp>,
    ) -> Result<Option<String>, Untranslatable> {
        let number = written.iter().position(|known| *known == link);
        let name = format!("p{p}_op{}", number.unwrap_or(written.len()));
        let frame = Translation::of(&name);
        if number.is_some() {
            return Ok(Some(name));
        }
        let translated = match link {
            FusedOp::Value { leaf, part, .. } => {
                let Some(op) = self.plan.flat_ops()[leaf].kind.pixel(part) else { return Ok(None) };
                let constants = op.normalizes.as_ref().map(|_| to.constants.len());
                let mean = op.statistic.is_some();
                function(Translation { mean, constants, ..frame }, &op.program)
            }
            FusedOp::Matrix { .. } => {
                let frame = Translation { param_count: 12, ..frame };
                function(frame, &frame.record(self.plan.rule(), multiply))
            }
            FusedOp::Table { .. } | FusedOp::Paint { .. } | FusedOp::Round => return Ok(None),
        };
        let refused = |what: String| {
            let reason = format!("it emits `{what}`, which no kernel has: put it before ToDevice");
            Untranslatable { leaf: step.flat_ops[0], reason }
        };
        let (text, words) = translated.map_err(refused)?;
        to.text.push_str(&text);
        to.constants.extend(words);
        written.push(link);
        Ok(Some(name))
    }

    /// Returns the text that applies a fused op to the group `g`.
    fn link(&self, p: usize, link: FusedOp, mean: Option<usize>, name: Option<&str>) -> String {
        let name = name.unwrap_or_default();
        let mean = match mean {
            None => "        const float mean = 0.0f;\n".to_owned(),
            Some(n) => format!(
                "        if (PASS == {}) return;\n        const float mean = p{p}_mean{n}(a, row);\n",
                n + 1
            ),
        };
        match link {
            FusedOp::Value { param, map, .. } => {
                let (position, row, column) = match map {
                    None => (String::new(), "y", "x + i".to_owned()),
                    Some(map) => {
                        (self.position(map), "own_row", "own_column + column_step * i".into())
                    }
                };
                let params = 4 * self.param(param);
                format!(
                    "{mean}{position}        EACH_PIXEL {name}(a, record + {params}, mean, {row}, {column}, g.v[0][i], g.v[1][i], g.v[2][i]);\n"
                )
            }
            FusedOp::Matrix { param } => {
                let params = 4 * self.param(param);
                format!(
                    "{mean}        EACH_PIXEL {name}(a, record + {params}, mean, y, x, g.v[0][i], g.v[1][i], g.v[2][i]);\n"
                )
            }
            FusedOp::Table { table, .. } => {
                let at = 4 * self.layout.table(table);
                format!(
                    "        EACH_CHANNEL EACH_PIXEL g.v[c][i] = float_of(load_word(record + {at} + 4 * (256 * c + ((u32)int_of(level(g.v[c][i])) & 255u))));\n"
                )
            }
            FusedOp::Round => {
                "        EACH_CHANNEL EACH_PIXEL g.v[c][i] = level(g.v[c][i]);\n".into()
            }
            FusedOp::Paint { region } => self.paint(region),
        }
    }

    /// Returns the text of the pixels' position in an op's coordinates. Integers wrap, as in compiled
    /// code.
    fn position(&self, map: usize) -> String {
        let at = 4 * (self.layout.map(0, map));
        format!(
            "        const u8* own = pass + {at};\n        \
             const i32 own_row = (i32)((u32)y * load_word(own) + load_word(own + 4));\n        \
             const i32 column_step = (i32)load_word(own + 8);\n        \
             const i32 own_column = (i32)((u32)x * load_word(own + 8) + load_word(own + 12));\n"
        )
    }

    fn paint(&self, region: usize) -> String {
        let at = 4 * self.layout.region(0, region);
        let PaintedRect { outside, fill, .. } = self.block.regions[region];
        let [r, g, b] = fill.map(|v| format!("float_of({:#010x}u)", v.to_bits()));
        let which = if outside { "!" } else { "" };
        format!(
            "        const u8* region = pass + {at};\n        \
             const i32 x0 = (i32)load_word(region), x1 = (i32)load_word(region + 4);\n        \
             const bool row_is_in = y >= (i32)load_word(region + 8) && y < (i32)load_word(region + 12);\n        \
             EACH_PIXEL if ({which}(row_is_in && x + i >= x0 && x + i < x1)) {{ g.v[0][i] = {r}; g.v[1][i] = {g}; g.v[2][i] = {b}; }}\n"
        )
    }
}

/// Returns the text that runs the ops of a shuffled op in the order that the record contains.
fn in_order(parts: &[String], order: usize) -> String {
    let mut text = format!(
        "        const u32 order = load_word(record + {order});\n        \
         for (u32 part = 0; part < {}; part++) {{\n        switch (order >> (4u * part) & 15u) {{\n",
        parts.len()
    );
    for (number, part) in parts.iter().enumerate() {
        let _ = write!(text, "        case {number}: {{\n{part}        }} break;\n");
    }
    text.push_str("        }\n        }\n");
    text
}
