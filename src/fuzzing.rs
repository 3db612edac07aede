//! What must hold for any bytes: the checks that fuzz targets run, and every test run for a
//! second.

use crate::sample::Limits;
use crate::source::Beton;

/// A `.beton` file of any bytes opens or is refused, and every value of one that opens reads
/// or is refused.
pub fn beton(bytes: &[u8]) {
    let Ok(file) = Beton::from_bytes(bytes, &Limits::SMALL) else { return };
    for field in 0..file.fields().len() {
        let _ = file.field_stats(field);
        for sample in file.samples() {
            let _ = file.image_size(sample, field);
            let _ = file.value(sample, field);
        }
    }
    let _ = file.allocations().count();
}
