//! The same calls give the same file, on any number of threads and after any history of opening and saving.

use jasper::{
    Device, Element, ErrorKind, Index, IndexBuilder, Key, Metric, NewKeys, OpenOptions, VectorSource, Vectors,
};
use jasper_core::synthetic::Clusters;

use crate::common::{bytes_of, for_each_element, view};

const DIMENSION: usize = 9;
const BUILT: usize = 1200;

fn build<T: Element>(metric: Metric, threads: usize, rows: &dyn VectorSource<T>) -> Index {
    let builder = IndexBuilder::new(metric).max_degree(12).build_beam_width(24).seed(5).threads(threads);
    builder.build(Vectors::from_source(rows)).expect("sound rows")
}

/// Built, deleted from, consolidated into holes, inserted into in an order of its own, deleted from again.
fn life<T: Element>(metric: Metric, threads: usize, mut pause: impl FnMut(Index) -> Index) -> Vec<Vec<u8>> {
    let set = Clusters::new(DIMENSION, 21);
    let rows: Vec<T> = set.rows(BUILT, 0);
    // Cluster by cluster, and some of what is there already.
    let labels: Vec<usize> = (0..700).map(|i| i / 35).collect();
    let mut more: Vec<T> = set.rows_of(&labels, 1);
    more[..20 * DIMENSION].copy_from_slice(&rows[..20 * DIMENSION]);
    let mut states = Vec::new();
    let mut index = pause(build(metric, threads, &view(&rows, DIMENSION)));
    states.push(bytes_of(&index));
    index.delete(&(0..BUILT as Key).filter(|key| key % 3 == 0).collect::<Vec<_>>()).unwrap();
    index = pause(index);
    index.consolidate().unwrap();
    states.push(bytes_of(&index));
    index = pause(index);
    index.insert(view(&more, DIMENSION), NewKeys::NEXT).unwrap();
    states.push(bytes_of(&index));
    index.delete(&(BUILT as Key..BUILT as Key + 700).filter(|key| key % 2 == 0).collect::<Vec<_>>()).unwrap();
    index = pause(index);
    index.upsert(view(&more[..90 * DIMENSION], DIMENSION), &(2000..2090).collect::<Vec<_>>()).unwrap();
    states.push(bytes_of(&index));
    index = pause(index);
    index.consolidate().unwrap();
    index.compact().unwrap();
    states.push(bytes_of(&index));
    states
}

fn any_threads<T: Element>() {
    for metric in Metric::ALL {
        let one = life::<T>(metric, 1, |index| index);
        for threads in [2, 4] {
            let many = life::<T>(metric, threads, |index| index);
            for (step, (a, b)) in one.iter().zip(&many).enumerate() {
                assert!(a == b, "{} {metric}, {threads} threads: step {step} differs", T::KIND);
            }
        }
    }
}

#[test]
fn on_any_number_of_threads() {
    for_each_element!(any_threads);
}

fn reopened<T: Element>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("life.jasper");
    for metric in Metric::ALL {
        let through = life::<T>(metric, 2, |index| index);
        let open = |index: Index| {
            index.save(&path).unwrap();
            OpenOptions::new().threads(2).open(&path).unwrap()
        };
        let map = |index: Index| {
            index.save(&path).unwrap();
            OpenOptions::new().mapped(true).open(&path).unwrap()
        };
        assert!(through == life::<T>(metric, 2, open), "{} {metric}: opened", T::KIND);
        assert!(through == life::<T>(metric, 2, map), "{} {metric}: mapped", T::KIND);
    }
}

#[test]
fn opened_from_a_file_between_any_two_calls() {
    reopened::<f32>();
    reopened::<i8>();
}

/// A source whose rows are read out of order, to the same places.
struct Slow<'a, T>(&'a [T]);

impl<T: Element> VectorSource<T> for Slow<'_, T> {
    fn len(&self) -> usize {
        self.0.len() / DIMENSION
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn read(&self, range: std::ops::Range<usize>, out: &mut [T]) -> std::io::Result<()> {
        for row in range.clone().rev() {
            let place = (row - range.start) * DIMENSION;
            out[place..place + DIMENSION].copy_from_slice(&self.0[row * DIMENSION..][..DIMENSION]);
        }
        Ok(())
    }
}

#[test]
fn from_any_source_of_the_same_rows() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 22).rows(2500, 0);
    let strided: Vec<u8> =
        rows.chunks_exact(DIMENSION).flat_map(|row| row.iter().copied().chain([255; 5])).collect();
    let strided = jasper::MatrixView::with_stride(&strided, DIMENSION, DIMENSION + 5).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.u8bin");
    jasper_data::write_vectors(&path, view(&rows, DIMENSION)).unwrap();
    let file = jasper::VectorFile::open(&path).unwrap();
    let expected = bytes_of(&build(Metric::L2, 2, &view(&rows, DIMENSION)));
    assert!(expected == bytes_of(&build(Metric::L2, 2, &Slow(&rows))));
    assert!(expected == bytes_of(&build(Metric::L2, 2, &strided)));
    assert!(expected == bytes_of(&build::<u8>(Metric::L2, 2, &file)));
    let other = IndexBuilder::new(Metric::L2).max_degree(12).build_beam_width(24).seed(6);
    assert!(expected != bytes_of(&other.build(view(&rows, DIMENSION)).unwrap()), "the seed counts");
}

#[test]
fn bytes_open_and_fail_as_files_do() {
    let rows: Vec<u8> = Clusters::new(DIMENSION, 22).rows(300, 0);
    let bytes = build(Metric::L2, 2, &view(&rows, DIMENSION)).to_bytes().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.jasper");
    for len in [0, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let of_file = OpenOptions::new().open(&path).unwrap_err().to_string();
        let of_bytes = OpenOptions::new().open_bytes(&bytes[..len]).unwrap_err().to_string();
        assert_eq!(of_bytes, of_file.replace(&path.display().to_string(), "<bytes>"));
        let of_any = OpenOptions::new().open_bytes(&bytes[..len]).unwrap_err().to_string();
        assert_eq!(of_any, of_bytes);
    }
    let other_device = OpenOptions::new().device(Device::cuda(999));
    assert_eq!(other_device.open_bytes(&bytes).unwrap_err().kind(), ErrorKind::Device);
    let same_device = OpenOptions::new().device(Device::CPU);
    assert_eq!(same_device.open_bytes(&bytes).unwrap().len(), 300);
}
