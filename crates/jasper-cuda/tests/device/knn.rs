//! Exact neighbors computed on a device equal those of the CPU, ids and distances.

use std::ops::ControlFlow;

use jasper_core::synthetic::Clusters;
use jasper_core::{Element, MatrixView, Metric, f16, no_progress};
use jasper_cuda::{Context, DeviceKnnError, exact_knn_on_device};
use jasper_data::ThreadPoolBuilder;

fn agrees<T: Element>(context: &Context, rows: usize, dimension: usize, k: usize) {
    let set = Clusters::new(dimension, 11);
    let (base, queries): (Vec<T>, Vec<T>) = (set.rows(rows, 0), set.rows(77, 1));
    let base = MatrixView::new(&base, dimension).unwrap();
    let queries = MatrixView::new(&queries, dimension).unwrap();
    let pool = ThreadPoolBuilder::new().build().unwrap();
    for metric in Metric::ALL {
        let found = exact_knn_on_device(context, base, queries, k, metric, &pool, &mut no_progress).unwrap();
        let expected = jasper_data::exact_knn(base, queries, k, metric, &pool, &mut no_progress).unwrap();
        assert!(found == expected, "{} of {dimension}, {metric}, k = {k}", T::KIND);
    }
}

#[test]
fn neighbors_are_those_of_the_cpu() {
    let Some(context) = crate::common::context() else { return };
    for (rows, dimension, k) in [(1, 3, 1), (3000, 17, 10), (5000, 128, 100)] {
        agrees::<f32>(&context, rows, dimension, k);
        agrees::<f16>(&context, rows, dimension, k);
        agrees::<u8>(&context, rows, dimension, k);
        agrees::<i8>(&context, rows, dimension, k);
    }
    // More rows than go into one tile.
    agrees::<f32>(&context, 50_000, 784, 20);
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(context) = crate::common::context() else { return };
    let mut values = vec![1.0_f32; 300 * 4];
    let queries = [0.5_f32; 4];
    let queries = MatrixView::new(&queries, 4).unwrap();
    let pool = ThreadPoolBuilder::new().build().unwrap();
    let search = |values: &[f32], k: usize| {
        let base = MatrixView::new(values, 4).unwrap();
        exact_knn_on_device(&context, base, queries, k, Metric::L2, &pool, &mut no_progress)
    };
    assert_eq!(search(&values, 200).unwrap_err(), DeviceKnnError::K(200));
    assert!(matches!(search(&values, 301), Err(DeviceKnnError::Input(jasper_data::KnnError::K { .. }))));
    values[4 * 250 + 1] = f32::NAN;
    let error = search(&values, 10).unwrap_err().to_string();
    assert!(error.starts_with("base row 250 holds a value that is not finite"), "{error}");
}

#[test]
fn a_cancel_is_heard() {
    let Some(context) = crate::common::context() else { return };
    let values = vec![1_u8; 64];
    let view = MatrixView::new(&values, 8).unwrap();
    let mut stop = |_| ControlFlow::Break(());
    let pool = ThreadPoolBuilder::new().build().unwrap();
    let error = exact_knn_on_device(&context, view, view, 1, Metric::L2, &pool, &mut stop).unwrap_err();
    assert!(matches!(error, DeviceKnnError::Input(jasper_data::KnnError::Cancelled(_))), "{error}");
}
