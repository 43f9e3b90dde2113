//! Merging one index into another.

use jasper::attributes::{Frame, Value, column};
use jasper::{
    Device, ElementKind, ErrorKind, Index, IndexBuilder, Key, Metric, Quantization, SearchParams, f16,
};
use jasper_core::synthetic::Clusters;

use super::common::{bytes_of, everything, keys, small, view};

const DIMENSION: usize = 16;

fn built(set: &[f32], first_key: Key, shards: usize) -> Index {
    let keys: Vec<Key> = (first_key..).take(set.len() / DIMENSION).collect();
    let years = Frame::new(keys.len()).column("year", keys.iter().map(|&key| key as i64)).unwrap();
    let builder = small(Metric::L2).device(Device::CPU).keys(&keys).attributes(&years).shards(shards);
    builder.build(view(set, DIMENSION)).unwrap()
}

#[test]
fn a_merged_index_has_the_keys_vectors_and_attributes_of_both() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 3).rows(600, 0);
    let (large, small) = set.split_at(400 * DIMENSION);
    for shards in [1, 2] {
        for device in [Device::CPU, Device::AUTO] {
            let other = built(small, 1000, shards);
            other.delete(&[1007]).unwrap();
            other
                .insert(
                    &small[3 * DIMENSION..][..DIMENSION],
                    (&[5000], &Frame::new(1).column("lang", ["de"]).unwrap()),
                )
                .unwrap();
            let before = everything(&other, &set[..DIMENSION]);
            let index = built(large, 0, 1).to_device(device).unwrap();
            index.quantize(Quantization::Rabitq { bits: 4 }).unwrap();
            assert_eq!(index.merge(&other).unwrap().keys, 200);
            assert_eq!(everything(&other, &set[..DIMENSION]), before);
            assert_eq!((index.len(), index.contains(1007)), (600, false));
            for (row, vector) in small.chunks(DIMENSION).enumerate().filter(|&(row, _)| row != 7) {
                assert_eq!(index.vector(1000 + row as Key), Some(vector.to_vec()));
            }
            let found = index
                .search(&set[..DIMENSION], SearchParams::new(600).filter(&column("year").ge(1000)))
                .unwrap();
            assert_eq!(found.len(), 199);
            let german = index
                .search(&set[..DIMENSION], SearchParams::new(9).filter(&column("lang").eq("de")))
                .unwrap();
            assert_eq!(keys(&german), [5000]);
            assert_eq!(index.attributes(&[1003]).value(0, "year"), Value::Integer(1003));
            assert!(index.check().unwrap().is_sound());
        }
    }
}

#[test]
fn indexes_of_other_elements_and_empty_ones_are_merged() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 3).rows(200, 0);
    let halves: Vec<f16> = set.iter().copied().map(f16::from_f32).collect();
    let other = small(Metric::L2).build(view(&halves, DIMENSION)).unwrap();
    let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, DIMENSION).unwrap();
    assert_eq!(index.merge(&other).unwrap().keys, 200);
    assert_eq!(
        index.vector(7).unwrap(),
        halves[7 * DIMENSION..][..DIMENSION].iter().map(|half| half.to_f32()).collect::<Vec<_>>()
    );
    let none = IndexBuilder::new(Metric::L2).empty(ElementKind::U8, DIMENSION).unwrap();
    assert_eq!(index.merge(&none).unwrap().keys, 0);
}

#[test]
fn what_cannot_be_merged_changes_nothing() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 3).rows(100, 0);
    let index = built(&set, 0, 1);
    let before = bytes_of(&index);
    let without_vectors = built(&set, 500, 1);
    without_vectors.quantize(Quantization::Rabitq { bits: 4 }).unwrap();
    without_vectors.drop_vectors().unwrap();
    let of_metric = |metric| small(metric).keys(&[900]).build(view(&set[..DIMENSION], DIMENSION)).unwrap();
    let narrow = small(Metric::L2).keys(&[900]).build(view(&set[..8], 8)).unwrap();
    let years = Frame::new(1).column("year", ["not a number"]).unwrap();
    let other_type =
        small(Metric::L2).keys(&[900]).attributes(&years).build(view(&set[..DIMENSION], DIMENSION)).unwrap();
    for (other, kind, message) in [
        (built(&set[..2 * DIMENSION], 99, 1), ErrorKind::DuplicateKey, "key 99 is in both indexes"),
        (of_metric(Metric::Cosine), ErrorKind::InvalidInput, "metric l2 and the other one cosine"),
        (narrow, ErrorKind::InvalidInput, "coordinates"),
        (other_type, ErrorKind::InvalidInput, "year"),
        (without_vectors, ErrorKind::Unsupported, "the other index stores codes only"),
    ] {
        let error = index.merge(&other).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert!(bytes_of(&index) == before);
    }
    let error = index.merge(&index).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("itself")), (ErrorKind::InvalidInput, true));
}

#[test]
fn two_indexes_can_be_merged_into_each_other_at_once() {
    let set: Vec<f32> = Clusters::new(DIMENSION, 3).rows(400, 0);
    let (one, other) = (built(&set[..200 * DIMENSION], 0, 1), built(&set[200 * DIMENSION..], 200, 1));
    std::thread::scope(|scope| {
        let merged = [(&one, &other), (&other, &one)].map(|(into, from)| scope.spawn(|| into.merge(from)));
        // Whichever begins last may see the keys that the first has inserted.
        let merged = merged.map(|merged| merged.join().unwrap());
        let is_duplicate = |result: &Result<_, jasper::Error>| {
            result.as_ref().is_err_and(|error| error.kind() == ErrorKind::DuplicateKey)
        };
        assert!(merged.iter().all(|result| result.is_ok() || is_duplicate(result)));
        assert!(merged.iter().any(Result::is_ok));
    });
    assert!(one.check().unwrap().is_sound() && other.check().unwrap().is_sound());
}
