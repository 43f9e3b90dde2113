//! What the emulator says when arguments and memory disagree.

use cuda_std::emulator::Emulator;
use gpu_kernels::distances::{DistanceArgs, Distances, Loads, Measure, TileWidth};
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::{Buffer as _, Stream as _};
use jasper_core::ElementKind;

#[test]
fn a_row_behind_the_last_is_told_with_its_place() {
    let stream = EmulatedStream::new(Emulator::new(1));
    let rows = stream.upload(&[0_u8; 8 * 16]).unwrap();
    let ids = stream.upload(&[7_u32, 8]).unwrap();
    let mut distances = stream.allocate::<f32>(2).unwrap();
    let args = DistanceArgs {
        rows: rows.input(),
        queries: rows.input(),
        ids: ids.input(),
        distances: distances.output(),
        row_bytes: 16,
        queries_len: 1,
        ids_per_query: 2,
    };
    let kernel = Distances::new(ElementKind::U8, Measure::SquaredL2, Loads::Chunked, TileWidth::Four);
    // SAFETY: one id names no row, which the emulator finds before it reads there.
    let fault = unsafe { stream.launch(&kernel, args) }.unwrap_err().to_string();
    for part in ["distances_u8_l2_chunked_w4", "src/tile.rs", "[u8; 128]", "out of bounds"] {
        assert!(fault.contains(part), "{fault}");
    }
}
