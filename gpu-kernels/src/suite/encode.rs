//! Codes of vectors and queries equal those of the quantizer, bit for bit.

use jasper_core::{Element, MatrixView, Metric, f16, padded_len, synthetic};
use jasper_quant::{
    EncodeBuffers, Mixed, MixedParams, Quantizer, Rabitq, RabitqParams, Rotation, ThreadPoolBuilder,
};
use rand::RngExt;
use rand::seq::SliceRandom;

use super::vectors;
use crate::encode::{DeviceQuantizer, RowSelection};
use crate::residuals::{Rotate, RotateArgs};
use crate::{Buffer, Stream};

/// Vectors to train on, and vectors among them to encode.
const TRAINED: usize = 40;
const CODED: usize = 5;

/// Dimensions of which every number of bits is tested: below and above 64, powers of two and not, odd ones, and one
/// whose window is much shorter than it. Long ones take a few numbers of bits.
const DIMENSIONS: [usize; 12] = [1, 2, 3, 31, 64, 65, 100, 128, 191, 300, 768, 1600];

/// Vectors of which two are equal, one is zero, and the first is far from the others.
fn rows<T: Element>(rng: &mut impl rand::Rng, dimension: usize) -> Vec<T> {
    let stride = padded_len::<T>(dimension);
    let mut rows = vectors::<T>(rng, TRAINED, dimension, 1.0);
    rows[..dimension].iter_mut().for_each(|x| *x = T::from_f32(x.to_f32() * 3.0));
    rows.copy_within(stride..2 * stride, 2 * stride);
    rows[3 * stride..4 * stride].fill(T::default());
    rows
}

fn view<T: Element>(rows: &[T], dimension: usize) -> MatrixView<'_, T> {
    MatrixView::with_stride(rows, dimension, padded_len::<T>(dimension)).unwrap()
}

fn rabitq<T: Element>(rows: &[T], dimension: usize, params: &RabitqParams) -> Box<dyn Quantizer> {
    Box::new(Rabitq::train(view(rows, dimension), params).unwrap())
}

fn mixed<T: Element>(rows: &[T], dimension: usize, metric: Metric, sectors: u32) -> Box<dyn Quantizer> {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let params = MixedParams { metric, sectors, seed: 1 };
    Box::new(Mixed::train(view(rows, dimension), &params, &pool).unwrap())
}

/// Calls `each` with rows and quantizers: every number of bits in every dimension, every element and metric, mixed codes
/// of some sizes, and rows that all coincide.
fn for_quantizers(seed: u64, each: &mut impl FnMut(&dyn Quantizer, AnyRows<'_>)) {
    let mut rng = synthetic::rng(seed);
    for dimension in DIMENSIONS {
        let rows = rows::<f32>(&mut rng, dimension);
        for bits in (1..=8).filter(|bits| dimension < 300 || [1, 4, 7].contains(bits)) {
            let metric = Metric::ALL[(dimension + bits as usize) % Metric::ALL.len()];
            each(
                &*rabitq(&rows, dimension, &RabitqParams { seed, ..RabitqParams::new(metric, bits) }),
                (&rows).into(),
            );
        }
    }
    for metric in Metric::ALL {
        for dimension in [2, 33, 130] {
            let f32s = rows::<f32>(&mut rng, dimension);
            each(&*mixed(&f32s, dimension, metric, 1), (&f32s).into());
            let f16s = rows::<f16>(&mut rng, dimension);
            each(&*rabitq(&f16s, dimension, &RabitqParams::new(metric, 3)), (&f16s).into());
            each(&*mixed(&f16s, dimension, metric, 3), (&f16s).into());
            let u8s = rows::<u8>(&mut rng, dimension);
            each(&*rabitq(&u8s, dimension, &RabitqParams::new(metric, 4)), (&u8s).into());
            let i8s = rows::<i8>(&mut rng, dimension);
            each(&*rabitq(&i8s, dimension, &RabitqParams::new(metric, 7)), (&i8s).into());
        }
        let equal = vec![2.0_f32; TRAINED * padded_len::<f32>(64)];
        each(&*rabitq(&equal, 64, &RabitqParams::new(metric, 4)), (&equal).into());
        each(&*mixed(&equal, 64, metric, 1), (&equal).into());
    }
}

/// Padded rows of any element.
enum AnyRows<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    U8(&'a [u8]),
    I8(&'a [i8]),
}

macro_rules! any_rows {
    ($($variant:ident $element:ty),*) => { $(
        impl<'a> From<&'a Vec<$element>> for AnyRows<'a> {
            fn from(rows: &'a Vec<$element>) -> Self {
                Self::$variant(rows)
            }
        }
    )* };
}
any_rows!(F32 f32, F16 f16, U8 u8, I8 i8);

/// Rows of every kind have the codes that the quantizer gives them.
///
/// # Panics
/// Panics if they have not, or the stream fails.
pub fn codes_agree_with_the_quantizer(stream: &impl Stream, seed: u64) {
    for_quantizers(seed, &mut |quantizer, rows| match rows {
        AnyRows::F32(rows) => codes_agree(stream, quantizer, rows),
        AnyRows::F16(rows) => codes_agree(stream, quantizer, rows),
        AnyRows::U8(rows) => codes_agree(stream, quantizer, rows),
        AnyRows::I8(rows) => codes_agree(stream, quantizer, rows),
    });
}

fn codes_agree<T: Element>(stream: &impl Stream, quantizer: &dyn Quantizer, rows: &[T]) {
    let words = quantizer.layout().words();
    let mut codes = stream.allocate::<u32>(CODED * words).unwrap();
    let on_device = DeviceQuantizer::new(stream, quantizer).unwrap();
    on_device
        .encode(stream, &stream.upload(rows).unwrap(), &RowSelection::Range(0..CODED), &mut codes)
        .unwrap();
    let found = stream.download(&codes).unwrap();
    let expected = expected(quantizer, rows, 0..CODED);
    for (i, (found, expected)) in found.chunks(words).zip(expected.chunks(words)).enumerate() {
        assert_eq!(found, expected, "row {i} of {}, {:?}", T::KIND, quantizer.parameters());
    }
}

/// The codes that the quantizer gives to some of the padded rows.
fn expected<T: Element>(
    quantizer: &dyn Quantizer,
    rows: &[T],
    selection: impl ExactSizeIterator<Item = usize>,
) -> Vec<u32> {
    let rows = view(rows, quantizer.dimension());
    let mut codes = vec![0; selection.len() * quantizer.layout().words()];
    let mut values: Vec<f32> = selection.flat_map(|row| rows.row(row)).map(|x| x.to_f32()).collect();
    quantizer.encode(&mut values, &mut EncodeBuffers::default(), &mut codes);
    codes
}

/// Queries of every kind have the levels and the factors that the quantizer gives them.
///
/// # Panics
/// Panics if they have not, or the stream fails.
pub fn coded_queries_agree_with_the_quantizer(stream: &impl Stream, seed: u64) {
    for_quantizers(seed, &mut |quantizer, rows| match rows {
        AnyRows::F32(rows) => queries_agree(stream, quantizer, rows),
        AnyRows::F16(rows) => queries_agree(stream, quantizer, rows),
        AnyRows::U8(rows) => queries_agree(stream, quantizer, rows),
        AnyRows::I8(rows) => queries_agree(stream, quantizer, rows),
    });
}

fn queries_agree<T: Element>(stream: &impl Stream, quantizer: &dyn Quantizer, rows: &[T]) {
    let on_device = DeviceQuantizer::new(stream, quantizer).unwrap();
    let mut codes = on_device.query_codes(stream, CODED).unwrap();
    assert!(on_device.fits(&codes, CODED) && !on_device.fits(&codes, CODED + 1));
    let rows_there = stream.upload(rows).unwrap();
    // SAFETY: there are more rows than that, which live until the downloads have waited.
    unsafe { on_device.encode_queries(stream, rows_there.input(), CODED, &mut codes).unwrap() };
    let levels = stream.download(&codes.levels).unwrap();
    let levels: &[i8] = bytemuck::cast_slice(&levels);
    let query_factors = stream.download(&codes.query_factors).unwrap();
    let queries = view(rows, quantizer.dimension());
    for (i, (levels, query_factors)) in levels.chunks(levels.len() / CODED).zip(query_factors).enumerate() {
        let query: Vec<f32> = queries.row(i).iter().map(|x| x.to_f32()).collect();
        let expected = quantizer.query(&query);
        assert_eq!(levels, expected.levels(), "query {i} of {}, {:?}", T::KIND, quantizer.parameters());
        let bits = bytemuck::cast::<_, [u32; 6]>;
        assert_eq!(
            bits(query_factors),
            bits((*expected.factors()).into()),
            "query {i}, {:?}",
            quantizer.parameters()
        );
    }
}

/// Encoding some slots writes the codes of these slots and no others.
///
/// # Panics
/// Panics if they are not, or the stream fails.
pub fn codes_go_to_their_slots(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let rows = rows::<f32>(&mut rng, 70);
    for quantizer in [rabitq(&rows, 70, &RabitqParams::new(Metric::L2, 2)), mixed(&rows, 70, Metric::L2, 1)] {
        let words = quantizer.layout().words();
        let mut slots: Vec<u32> = (0..TRAINED as u32).collect();
        slots.shuffle(&mut rng);
        slots.truncate(17);
        let first = rng.random_range(0..10);
        for selection in
            [RowSelection::Slots(&slots), RowSelection::Slots(&[]), RowSelection::Range(first..first + 9)]
        {
            let mut codes = stream.upload(&vec![7; TRAINED * words]).unwrap();
            let on_device = DeviceQuantizer::new(stream, &*quantizer).unwrap();
            on_device.encode(stream, &stream.upload(&rows).unwrap(), &selection, &mut codes).unwrap();
            let listed: Vec<usize> = match &selection {
                RowSelection::Slots(slots) => slots.iter().map(|slot| *slot as usize).collect(),
                RowSelection::Range(range) => range.clone().collect(),
            };
            let coded = expected(&*quantizer, &rows, listed.iter().copied());
            let mut all = vec![7; TRAINED * words];
            for (slot, code) in listed.iter().zip(coded.chunks(words)) {
                all[slot * words..][..words].copy_from_slice(code);
            }
            assert!(stream.download(&codes).unwrap() == all, "{selection:?}");
        }
    }
}

/// Rotates rows in global memory, as rows that do not fit in shared memory are.
///
/// # Panics
/// Panics if they are not what the rotation gives, or the stream fails.
pub fn long_rows_are_rotated_in_place(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for dimension in [64, 128, 192, 1088, 2048] {
        let rotation = Rotation::new(dimension, seed);
        let rows: Vec<f32> = (0..2 * dimension).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut expected = vec![0.0; rows.len()];
        rotation.rotate(&rows, &mut expected, dimension);
        let factors = stream.upload(rotation.factors()).unwrap();
        for rotate in [Rotate::InShared, Rotate::InGlobal] {
            let mut values = stream.upload(&rows).unwrap();
            let args = RotateArgs {
                values: values.output(),
                factors: factors.input(),
                rows_len: 2,
                dimension: dimension as u32,
            };
            // SAFETY: the buffers have the shapes that the arguments say, and live until the download has waited.
            unsafe { stream.launch(&rotate, args).unwrap() };
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert!(bits(&stream.download(&values).unwrap()) == bits(&expected), "{dimension}, {rotate:?}");
        }
    }
}
