//! What a scan launches.

use std::borrow::Cow;

use super::{Round, SELECT_THREADS, SELECT_TILE, ScanArgs, THREADS, TILE, Tiles};
use crate::{Buffer, In, Kernel, Launch, Stream};

/// Bytes of shared memory with which a block of `threads` learns its place: a word for the number of its tile, one for
/// the sum before the tile, and one for the sum of each warp.
const fn place_bytes(threads: u32) -> u32 {
    (2 + threads / 32) * size_of::<u32>() as u32
}

/// The launch of a kernel that selects, in tiles of `round`.
pub(crate) fn select_launch(round: &Round) -> Launch {
    Launch::linear(round.tiles, SELECT_THREADS).with_shared(place_bytes(SELECT_THREADS))
}

/// Tiles of a selection from `len` numbers. The last one writes how many were wanted, so that there must be one.
pub(crate) const fn select_tiles(len: u32) -> u32 {
    if len == 0 { 1 } else { len.div_ceil(SELECT_TILE) }
}

/// The kernel of a scan: reads and writes each element once.
#[derive(Clone, Copy, Debug)]
pub struct Scan;

impl Kernel for Scan {
    type Args = ScanArgs;

    fn entry(&self) -> Cow<'static, str> {
        "scan".into()
    }

    fn launch(&self, args: &ScanArgs) -> Launch {
        Launch::linear(args.round.tiles, THREADS).with_shared(place_bytes(THREADS))
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ScanArgs) {
        super::kernel::scan
    }
}

impl<S: Stream> Tiles<S> {
    /// What scans of up to `capacity` elements need: [`bytes_for_scans`](Self::bytes_for_scans) of device memory.
    ///
    /// # Errors
    /// When there is not that much memory.
    pub fn for_scans(stream: &S, capacity: u32) -> Result<Self, S::Error> {
        Self::allocate(stream, tiles_of(capacity) as usize, 1)
    }

    /// Bytes of device memory for scans of up to `capacity` elements: 8 for every 4096.
    pub const fn bytes_for_scans(capacity: u32) -> u64 {
        Self::bytes(tiles_of(capacity) as usize, 1)
    }
}

/// Tiles of `len` elements.
const fn tiles_of(len: u32) -> u32 {
    (len as usize).div_ceil(TILE) as u32
}

/// What a sum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// The elements before this one.
    Exclusive,
    /// The elements before this one, and this one.
    Inclusive,
}

/// Sums of the first `len` elements of `input` modulo 2^32, written to `output`: one launch, 8 bytes an element.
///
/// # Errors
/// Of the device.
///
/// # Panics
/// If `len` is more than `input`, `output` or `tiles` have room for.
pub fn scan<S: Stream>(
    stream: &S,
    kind: ScanKind,
    input: &S::Buffer<u32>,
    output: &mut S::Buffer<u32>,
    len: u32,
    tiles: &mut Tiles<S>,
) -> Result<(), S::Error> {
    assert!(len as usize <= input.len(), "a scan of {len} elements reads past the {} there are", input.len());
    let source = input.input();
    queue(stream, kind, source, output, len, tiles)
}

/// As [`scan`], each sum in the place of its element.
///
/// # Errors
/// Of the device.
///
/// # Panics
/// If `len` is more than `values` or `tiles` have room for.
pub fn scan_in_place<S: Stream>(
    stream: &S,
    kind: ScanKind,
    values: &mut S::Buffer<u32>,
    len: u32,
    tiles: &mut Tiles<S>,
) -> Result<(), S::Error> {
    let source = values.input();
    queue(stream, kind, source, values, len, tiles)
}

/// Queues the scan of `len` elements, which `input` has.
fn queue<S: Stream>(
    stream: &S,
    kind: ScanKind,
    input: In<u32>,
    output: &mut S::Buffer<u32>,
    len: u32,
    tiles: &mut Tiles<S>,
) -> Result<(), S::Error> {
    assert!(
        len as usize <= output.len(),
        "a scan of {len} elements writes past the {} there are",
        output.len()
    );
    let output = output.output();
    let own = if kind == ScanKind::Inclusive { u32::MAX } else { 0 };
    // SAFETY: both arrays hold `len` elements as was asserted, each tile reads its own before it writes them, and the
    // round is of all tiles of the launch.
    tiles.round(stream, tiles_of(len), |round| unsafe {
        stream.launch(&Scan, ScanArgs { input, output, round, len, own })
    })
}
