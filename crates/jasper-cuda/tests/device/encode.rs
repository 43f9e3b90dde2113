//! Codes computed on a device equal those of the CPU.

use jasper_core::synthetic::Clusters;
use jasper_core::{Element, MatrixView, Metric, f16};
use jasper_cuda::{Context, encode_on_device};
use jasper_data::ThreadPoolBuilder;
use jasper_quant::{CodeTable, Mixed, MixedParams, Quantizer, Rabitq, RabitqParams};

fn agrees<T: Element>(context: &Context, rows: usize, dimension: usize) {
    let pool = ThreadPoolBuilder::new().build().unwrap();
    let values: Vec<T> = Clusters::new(dimension, 3).rows(rows, 0);
    let view = MatrixView::new(&values, dimension).unwrap();
    let sample = view.slice(0..rows.min(2000));
    for metric in Metric::ALL {
        let params = MixedParams { metric, sectors: 2, seed: 1 };
        let mut quantizers: Vec<Box<dyn Quantizer>> =
            vec![Box::new(Mixed::train(sample, &params, &pool).unwrap())];
        for bits in [1, 4, 8] {
            quantizers.push(Box::new(Rabitq::train(sample, &RabitqParams::new(metric, bits)).unwrap()));
        }
        for quantizer in quantizers {
            let found = encode_on_device(context, &*quantizer, view, &pool).unwrap();
            let expected = CodeTable::from_vectors(&*quantizer, view, &pool);
            assert!(
                found.words() == expected.words(),
                "{} x {dimension}, {:?}",
                T::KIND,
                quantizer.quantization()
            );
        }
    }
}

#[test]
fn codes_are_those_of_the_cpu() {
    let Some(context) = crate::common::context() else { return };
    for (rows, dimension) in [(2, 3), (3000, 100), (5000, 384)] {
        agrees::<f32>(&context, rows, dimension);
        agrees::<f16>(&context, rows, dimension);
        agrees::<u8>(&context, rows, dimension);
        agrees::<i8>(&context, rows, dimension);
    }
    // More rows than are on the device at once.
    agrees::<f32>(&context, 100_000, 200);
}

#[test]
fn no_rows_have_no_codes() {
    let Some(context) = crate::common::context() else { return };
    let pool = ThreadPoolBuilder::new().build().unwrap();
    let values = [1.0_f32, 2.0, 3.0, 5.0];
    let view = MatrixView::new(&values, 2).unwrap();
    let quantizer = Rabitq::train(view, &RabitqParams::new(Metric::L2, 2)).unwrap();
    assert!(encode_on_device(&context, &quantizer, view.slice(0..0), &pool).unwrap().is_empty());
}
