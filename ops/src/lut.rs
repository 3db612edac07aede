//! Look-up table: a user-defined value for each level.

use crate::author::{Histogram, LevelTable, TableOp, Type};
use crate::author::{ImageType, Rng};
use crate::emit::apply_rule;
use crate::op::{Op, class, on_levels, on_rgb};
use crate::registry::BuiltOp;
use crate::registry::{OpArgs, ParamKind, ParamValue, SpecError, built, single};
use crate::{NumberRule, ParamError, TypeError};
use std::fmt;

/// Looks every value up in a table.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Lut.md"))]
///
/// ```text
/// out = table[channel][in]     truncated where the rule is Exact
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------|
/// | input  | image of levels                                                      |
/// | output | as the input; entries may have fractions under the Fused rule |
/// | random | nothing                                                       |
/// | cost   | one look-up per value                                         |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Lut::same(std::array::from_fn(|level| 255.0 - level as f32))?]; // inverts
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, PartialEq)]
#[op(COLOR, "looks every value up in a table", constructor = new, build = |args| Ok(built(lut(args)?)), draw = random, golden = "the user's own numbers")]
#[param(table: Vec<f64>, "what each level becomes, 0 to 255: for all channels, or red's, green's and blue's",
    kind = ParamKind::Levels, example = ParamValue::Ints(&INVERTED))]
pub struct Lut {
    /// The table of each channel, or one for all.
    tables: Vec<LevelTable>,
}

impl Lut {
    /// Builds the op from a table for each of red, green and blue.
    ///
    /// # Errors
    ///
    /// If an entry is not in `0.0..=255.0`.
    pub fn new(table: [[f32; 256]; 3]) -> Result<Self, ParamError> {
        Self::of(table.to_vec())
    }

    fn of(tables: Vec<[f32; 256]>) -> Result<Self, ParamError> {
        match tables.as_flattened().iter().find(|v| !(0.0..=255.0).contains(*v)) {
            Some(bad) => Err(ParamError::new("Lut", "table", bad, "entries in 0.0..=255.0")),
            None => Ok(Self { tables }),
        }
    }

    /// Builds the op from one table for all channels.
    ///
    /// # Errors
    ///
    /// If an entry is not in `0.0..=255.0`.
    pub fn same(table: [f32; 256]) -> Result<Self, ParamError> {
        Self::of(vec![table])
    }
}

/// Omits the table, which is too long to print.
impl fmt::Debug for Lut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lut").finish_non_exhaustive()
    }
}

#[class(Table)]
impl Op for Lut {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        if self.tables.len() > 1 {
            return on_rgb(self.name(), input);
        }
        on_levels(self.name(), input)
    }
}

impl TableOp for Lut {
    fn table(&self, rule: NumberRule, _: &[f32], _: &[Histogram], out: &mut [LevelTable]) {
        for (out, table) in out.iter_mut().zip(self.tables.iter().cycle()) {
            *out = table.map(|v| apply_rule(rule, v));
        }
    }
}

/// The example table: inverts the levels.
const INVERTED: [i64; 256] = {
    let (mut levels, mut i) = ([255; 256], 0);
    while i < 256 {
        levels[i] -= i as i64;
        i += 1;
    }
    levels
};

/// Reads one table for all channels, or one for each channel.
fn lut(args: &OpArgs<'_>) -> Result<Lut, SpecError> {
    if let Ok(one) = args.array::<256>("table") {
        return Ok(Lut::same(single("Lut", "table", one)?)?);
    }
    let all = single("Lut", "table", args.array::<768>("table")?)?;
    let mut tables = [[0.0; 256]; 3];
    tables.as_flattened_mut().copy_from_slice(&all);
    Ok(Lut::new(tables)?)
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let table = [0; 3].map(|_| [0; 256].map(|_| rng.uniform(0.0, 255.0)));
    Ok(built(Lut::new(table)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_and_truncated_only_where_the_rule_is_exact() {
        let lut = Lut::same(std::array::from_fn(|level| level as f32 / 2.0)).unwrap();
        let mut out = [[0.0; 256]; 3];
        lut.table(NumberRule::Fused, &[], &[[0; 256]; 3], &mut out);
        assert_eq!(out.map(|channel| channel[255]), [127.5; 3]);
        lut.table(NumberRule::Exact, &[], &[[0; 256]; 3], &mut out);
        assert_eq!(out.map(|channel| channel[255]), [127.0; 3]);
    }

    #[test]
    fn entries_out_of_range_are_refused() {
        for bad in [-0.5, 255.5, f32::NAN] {
            let mut table = [0.0; 256];
            table[255] = bad;
            assert!(Lut::same(table).is_err(), "{bad}");
        }
    }
}
