//! Pictures of all formats, SVG with its budgets included: decoded within limits, here without worker
//! processes, so that what they would hide is seen.

#![no_main]

use crosshash_features::picture::{self, Limits};
use crosshash_fuzz::watch_panics;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    watch_panics();
    let limits = Limits { pixels: 1 << 20, ..Limits::default() };
    if let Ok(raster) = picture::decode(data, &limits) {
        assert!(raster.width() * raster.height() <= 1 << 20);
    }
});
