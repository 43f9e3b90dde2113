//! One body for each reader, called over damaged files by the tests, and by `jasper-fuzz`, which includes this file.
//!
//! Any bytes must give a typed error or consistent rows; a panic is a bug.

use std::fmt::Debug;

use jasper_core::{Element, ElementKind, f16};

use jasper_data::{GroundTruth, ReadError, VectorFile, VectorFileOptions, VectorFormat, keys_from_bytes};

/// A reader's name, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All bodies.
pub const TARGETS: [Target; 5] =
    [("vecs", vecs), ("bin", bin), ("npy", npy), ("truth", truth), ("keys", keys)];

/// Reads records of f32 and u8.
pub fn vecs(bytes: &[u8]) {
    vectors(VectorFormat::Fvecs, bytes);
    vectors(VectorFormat::Bvecs, bytes);
}

/// Reads the bytes as a `bin` file of each of the four elements.
pub fn bin(bytes: &[u8]) {
    ElementKind::ALL.into_iter().for_each(|element| vectors(VectorFormat::Bin(element), bytes));
}

/// Reads a numpy array, as rows and as keys.
pub fn npy(bytes: &[u8]) {
    vectors(VectorFormat::Npy, bytes);
    if let Ok(keys) = checked(keys_from_bytes("keys.npy", bytes)) {
        assert!(8 * keys.len() < bytes.len());
    }
}

/// Reads ground truth in both formats.
pub fn truth(bytes: &[u8]) {
    for name in ["gt.ibin", "gt.ivecs"] {
        let Ok(truth) = checked(GroundTruth::from_bytes(name, bytes)) else { continue };
        let entries = truth.len() * truth.k();
        assert_eq!(entries, truth.ids().len());
        assert!(4 * entries < bytes.len());
        assert_eq!(truth.check_ids(usize::MAX), Ok(()));
        let lists = (0..truth.len()).map(|query| truth.truth(query));
        assert_eq!(lists.flat_map(|list| list.ids).count(), entries);
    }
}

/// Reads keys as text.
pub fn keys(bytes: &[u8]) {
    if let Ok(keys) = checked(keys_from_bytes("keys.txt", bytes)) {
        let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
        assert_eq!(keys_from_bytes("keys.txt", text.as_bytes()).ok(), Some(keys));
    }
}

fn vectors(format: VectorFormat, bytes: &[u8]) {
    let options = VectorFileOptions::new().format(format);
    let whole = checked(options.from_bytes("rows", bytes));
    for rows in [0, 1, usize::MAX] {
        if let (Ok(cropped), Ok(whole)) = (checked(options.max_rows(rows).from_bytes("rows", bytes)), &whole)
        {
            assert_eq!(cropped.len(), whole.len().min(rows));
        }
    }
    let Ok(file) = whole else { return };
    match file.element() {
        ElementKind::F32 => rows::<f32>(&file, bytes),
        ElementKind::F16 => rows::<f16>(&file, bytes),
        ElementKind::U8 => rows::<u8>(&file, bytes),
        ElementKind::I8 => rows::<i8>(&file, bytes),
    }
}

/// Checks that rows read all at once, one by one, and as f32 are the same.
fn rows<T: Element>(file: &VectorFile<&[u8]>, bytes: &[u8]) {
    let dimension = file.dimension();
    assert!(file.len() * dimension * size_of::<T>() <= bytes.len());
    let Ok(all) = checked(file.load::<T>()) else { return };
    let mut one = vec![T::default(); dimension];
    let mut wide = vec![0.0; dimension];
    for (i, row) in all.view().rows().enumerate() {
        file.read_rows(i..i + 1, &mut one).expect("a row of a whole that was read");
        file.read_rows_as(i..i + 1, &mut wide).expect("a row of a whole that was read");
        assert_eq!(bytemuck::cast_slice::<T, u8>(row), bytemuck::cast_slice::<T, u8>(&one));
        let same = |(x, y): (&T, &f32)| x.to_f32().to_bits() == y.to_bits() || y.is_nan();
        assert!(row.iter().zip(&wide).all(same));
    }
}

/// Formats the message of an error, which must not be empty.
fn checked<T: Debug>(result: Result<T, ReadError>) -> Result<T, ReadError> {
    result.inspect_err(|error| assert!(!error.to_string().is_empty()))
}
