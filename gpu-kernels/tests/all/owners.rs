//! Safe operations refuse arrays of another stream: that stream may free them while this one reads.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_std::emulator::Emulator;
use gpu_kernels::Stream as _;
use gpu_kernels::bits::SlotList;
use gpu_kernels::edges::ReachableSet;
use gpu_kernels::emulated::EmulatedStream;
use gpu_kernels::groups::Groups;
use gpu_kernels::knn::exact_knn;
use gpu_kernels::sort::{Pairs, SortScratch, sort_pairs};
use jasper_core::Metric;

/// Asserts that `call` runs with the arrays of its own stream, and panics with those of another.
#[track_caller]
fn refuses_arrays_of_another(call: impl Fn(&EmulatedStream, &EmulatedStream)) {
    let [stream, other] = [1, 2].map(|seed| EmulatedStream::new(Emulator::new(seed)));
    call(&stream, &stream.clone());
    let panic = catch_unwind(AssertUnwindSafe(|| call(&stream, &other))).unwrap_err();
    let message = panic.downcast_ref::<&str>().expect("a message without numbers");
    assert_eq!(*message, "a buffer is used by the stream that made it");
}

#[test]
fn exact_neighbors() {
    let rows = [1.0_f32; 32];
    refuses_arrays_of_another(|stream, other| {
        let (rows, queries) = (stream.upload(&rows).unwrap(), other.upload(&rows[..16]).unwrap());
        exact_knn(stream, Metric::L2, 16, 1, &rows, 2, &queries).unwrap();
    });
    refuses_arrays_of_another(|stream, other| {
        let (rows, queries) = (other.upload(&rows).unwrap(), stream.upload(&rows[..16]).unwrap());
        exact_knn(stream, Metric::L2, 16, 1, &rows, 2, &queries).unwrap();
    });
}

#[test]
fn sorts_and_groups() {
    let pairs = |stream: &EmulatedStream| Pairs {
        keys: stream.upload(&[3, 1, 2]).unwrap(),
        values: stream.upload(&[0, 1, 2]).unwrap(),
    };
    refuses_arrays_of_another(|stream, other| {
        let mut scratch = SortScratch::allocate(stream, 3).unwrap();
        sort_pairs(stream, &mut pairs(other), 3, 0..8, &mut scratch).unwrap();
    });
    refuses_arrays_of_another(|stream, other| {
        let mut scratch = SortScratch::allocate(other, 3).unwrap();
        sort_pairs(stream, &mut pairs(stream), 3, 0..8, &mut scratch).unwrap();
    });
    refuses_arrays_of_another(|stream, other| {
        let keys = other.upload(&[1, 1, 2]).unwrap();
        Groups::allocate(stream, 3).unwrap().find(stream, &keys, 3, 0).unwrap();
    });
    refuses_arrays_of_another(|stream, other| {
        let keys = stream.upload(&[1, 1, 2]).unwrap();
        Groups::allocate(other, 3).unwrap().find(stream, &keys, 3, 0).unwrap();
    });
}

#[test]
fn sets_of_slots() {
    refuses_arrays_of_another(|stream, other| {
        let bits = other.upload(&[5]).unwrap();
        SlotList::allocate(stream, 32).unwrap().list(stream, &bits, 0..32).unwrap();
    });
    refuses_arrays_of_another(|stream, other| {
        let edges = other.upload(&[u32::MAX; 32]).unwrap();
        ReachableSet::empty(stream, 1).unwrap().extend(stream, &edges, 32, &[0], None).unwrap();
    });
}
