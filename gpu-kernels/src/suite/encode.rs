//! Encoded queries equal those of the quantizer, bit for bit.

use jasper_core::{Element, MatrixView, Metric, f16, padded_len, synthetic};
use jasper_quant::{Mixed, MixedParams, Quantizer, Rabitq, RabitqParams, Rotation, ThreadPoolBuilder};
use rand::RngExt;

use super::vectors;
use crate::encode::DeviceQuantizer;
use crate::residuals::{Rotate, RotateArgs};
use crate::{Buffer, Stream};

/// Vectors to train on, and vectors among them to encode as queries.
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

/// Queries have the levels and the factors that the quantizer gives them: every number of bits in every dimension, every
/// element and metric, mixed codes of some sizes, and vectors that all coincide.
///
/// # Panics
/// Panics if they have not, or the stream fails.
pub fn coded_queries_agree_with_the_quantizer(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for dimension in DIMENSIONS {
        let rows = rows::<f32>(&mut rng, dimension);
        for bits in (1..=8).filter(|bits| dimension < 300 || [1, 4, 7].contains(bits)) {
            let metric = Metric::ALL[(dimension + bits as usize) % Metric::ALL.len()];
            let params = RabitqParams { seed, ..RabitqParams::new(metric, bits) };
            queries_agree(stream, &*rabitq(&rows, dimension, &params), &rows);
        }
    }
    for metric in Metric::ALL {
        for dimension in [2, 33, 130] {
            let f32s = rows::<f32>(&mut rng, dimension);
            queries_agree(stream, &*mixed(&f32s, dimension, metric, 1), &f32s);
            let f16s = rows::<f16>(&mut rng, dimension);
            queries_agree(stream, &*rabitq(&f16s, dimension, &RabitqParams::new(metric, 3)), &f16s);
            queries_agree(stream, &*mixed(&f16s, dimension, metric, 3), &f16s);
            let u8s = rows::<u8>(&mut rng, dimension);
            queries_agree(stream, &*rabitq(&u8s, dimension, &RabitqParams::new(metric, 4)), &u8s);
            let i8s = rows::<i8>(&mut rng, dimension);
            queries_agree(stream, &*rabitq(&i8s, dimension, &RabitqParams::new(metric, 7)), &i8s);
        }
        let equal = vec![2.0_f32; TRAINED * padded_len::<f32>(64)];
        queries_agree(stream, &*rabitq(&equal, 64, &RabitqParams::new(metric, 4)), &equal);
        queries_agree(stream, &*mixed(&equal, 64, metric, 1), &equal);
    }
}

fn queries_agree<T: Element>(stream: &impl Stream, quantizer: &dyn Quantizer, rows: &[T]) {
    let on_device = DeviceQuantizer::new(stream, quantizer).unwrap();
    let mut codes = on_device.query_codes(stream, CODED).unwrap();
    assert!(on_device.fits(&codes, CODED) && !on_device.fits(&codes, CODED + 1));
    let rows_there = stream.upload(rows).unwrap();
    // SAFETY: there are more rows than that, which live until the downloads have waited.
    unsafe {
        on_device.encode_queries(stream, T::KIND, rows_there.input().cast(), CODED, &mut codes).unwrap()
    };
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
