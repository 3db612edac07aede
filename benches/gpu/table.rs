//! The output: rows of a table, or lines of JSON.

use serde_json::json;

/// The bound that a ratio should meet.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }

    fn words(self, ratio: f64) -> String {
        let met = if self.is_met(ratio) { "" } else { "  MISSED" };
        match self {
            Self::AtLeast(least) => format!(">= {least}{met}"),
            Self::AtMost(most) => format!("<= {most}{met}"),
        }
    }
}

pub(crate) struct Table {
    as_json: bool,
    group: String,
}

impl Table {
    pub(crate) fn new(as_json: bool) -> Self {
        Self { as_json, group: String::new() }
    }

    /// Prints a line of text.
    pub(crate) fn says(&self, words: &str) {
        if self.as_json {
            println!("{}", json!({ "about": words }));
        } else {
            println!("{words}");
        }
    }

    /// Prints a measured number, and its ratio to the yardstick of its group.
    pub(crate) fn row(
        &mut self,
        group: &str,
        name: &str,
        value: f64,
        unit: &str,
        ratio: Option<f64>,
        aim: Option<Aim>,
    ) {
        let met = aim.zip(ratio).map(|(aim, ratio)| aim.is_met(ratio));
        if self.as_json {
            let line = json!({
                "group": group, "name": name, "value": value, "unit": unit, "ratio": ratio,
                "met": met,
            });
            println!("{line}");
            return;
        }
        if self.group != group {
            group.clone_into(&mut self.group);
            println!("\n{:<54} {:>17} {:>7}  aim", group, "", "ratio");
        }
        let over = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let words = aim.zip(ratio).map_or_else(String::new, |(aim, ratio)| aim.words(ratio));
        println!("  {name:<52} {value:>12.2} {unit:<4} {over:>7}  {words}");
    }
}
