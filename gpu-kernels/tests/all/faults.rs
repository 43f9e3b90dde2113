//! What the emulator reports when arguments and memory disagree.

use cuda_std::emulator::Emulator;
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::graph::{DistanceForm, DistanceOpKind, GraphArgs};
use gpu_kernels::search::{BeamArgs, CandidateArgs, FilterArgs, Search, SearchArgs, StartArgs};
use gpu_kernels::{Buffer as _, DevicePtr, RowShape, Stream as _};
use jasper_core::ElementKind;

#[test]
fn a_row_past_the_end_is_reported_with_its_place() {
    let stream = EmulatedStream::new(Emulator::new(1));
    let rows = stream.upload(&[0_u8; 8 * 16]).unwrap();
    let start_points = stream.upload(&[7_u32, 8]).unwrap();
    let mut results = stream.allocate(1).unwrap();
    let mut work = stream.allocate(2).unwrap();
    let args = SearchArgs {
        graph: GraphArgs {
            vectors: rows.input(),
            edges: DevicePtr::null(),
            terms: DevicePtr::null(),
            keys: DevicePtr::null(),
            start_points: start_points.input(),
            start_points_len: 2,
            shape: RowShape::new(16),
            edges_stride: 32,
            capacity: u32::MAX,
            origins: Default::default(),
        },
        queries: rows.input(),
        query_rows: DevicePtr::null(),
        results: results.output(),
        costs: work.output(),
        queries_len: 1,
        k: 1,
        form: DistanceForm::SquaredL2,
        beam: BeamArgs::scan(1),
        filter: FilterArgs::ALL,
        start: StartArgs::OF_GRAPH,
        candidates: CandidateArgs::NONE,
    };
    let kernel = Search::for_rows(ElementKind::U8, DistanceOpKind::SquaredL2, 16, 1, 1);
    // SAFETY: one start point has no row, which the emulator finds before it reads there.
    let fault = unsafe { stream.launch(&kernel, args) }.unwrap_err().to_string();
    for part in ["search_u8_l2_r1", "src/tile.rs", "[u8; 128]", "out of bounds"] {
        assert!(fault.contains(part), "{fault}");
    }
}
