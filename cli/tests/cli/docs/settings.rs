//! The table of settings in docs/pipelines.md is made from their declarations.

use super::assert_written;
use fuseloop::spec::Settings;

#[test]
fn the_table_of_settings_is_that_of_their_declarations() {
    let rows = Settings::documented().map(|(name, meaning)| format!("| `{name}` | {meaning} |\n"));
    let table = "| setting | meaning |\n|---|---|\n".to_owned() + &rows.collect::<String>();
    assert_written("docs/pipelines.md", &table);
}
