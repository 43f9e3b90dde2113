//! Written files read back equal, in every format, element and way of reading.

use std::fs;
use std::path::Path;

use jasper_core::{Element, ElementKind, MatrixView, VectorSource, f16};
use jasper_data::{
    GroundTruth, NpyError, ReadCause, TruthError, VectorFile, VectorFileOptions, VectorFormat, VectorWriter,
    WriteCause, keys_from_bytes, read_keys, write_keys, write_vectors,
};
use proptest::prelude::*;

fn formats(element: ElementKind) -> impl Iterator<Item = VectorFormat> {
    let all = [VectorFormat::Fvecs, VectorFormat::Bvecs, VectorFormat::Npy];
    let bins = ElementKind::ALL.map(VectorFormat::Bin);
    all.into_iter().chain(bins).filter(move |format| format.holds(element))
}

/// Writes `rows` in two blocks, and reads them in every way.
fn check_rows<T: Element>(folder: &Path, rows: &[f32], dimension: usize, split: usize) {
    let rows: Vec<T> = rows.iter().map(|&value| T::from_f32(value)).collect();
    let view = MatrixView::new(&rows, dimension).unwrap();
    let split = split % (view.len() + 1);
    for format in formats(T::KIND) {
        let path = folder.join("rows").with_extension(format.to_string());
        let mut writer = VectorWriter::<T>::create(&path, format, dimension).unwrap();
        writer.push(view.slice(0..split)).unwrap();
        writer.push(view.slice(split..view.len())).unwrap();
        writer.finish().unwrap();
        if view.is_empty() && matches!(format, VectorFormat::Fvecs | VectorFormat::Bvecs) {
            // The dimension of an empty file of records is unknown.
            assert!(matches!(VectorFile::open(&path).unwrap_err().cause(), ReadCause::ShortHeader { .. }));
            continue;
        }
        let file = VectorFile::open(&path).unwrap();
        assert_eq!((file.len(), file.dimension(), file.element()), (view.len(), dimension, T::KIND));
        assert_eq!(
            file.load::<T>().unwrap().view().rows().collect::<Vec<_>>(),
            view.rows().collect::<Vec<_>>()
        );
        let mapped = file.map::<T>().unwrap();
        let dense = !matches!(format, VectorFormat::Fvecs | VectorFormat::Bvecs);
        assert_eq!(mapped.is_mapped(), dense && !view.is_empty());
        assert_eq!(mapped.view().rows().collect::<Vec<_>>(), view.rows().collect::<Vec<_>>());
        let mut part = vec![T::default(); (view.len() - split) * dimension];
        file.read(split..view.len(), &mut part).unwrap();
        assert_eq!(part, rows[split * dimension..]);
        let wide = file.load_as::<f32>().unwrap();
        assert!(wide.view().rows().flatten().zip(&rows).all(|(x, y)| *x == y.to_f32()));
        assert_eq!(fs::read(&path).unwrap().len() as u64, expected_bytes::<T>(format, view));
    }
}

/// The length of a file according to its format.
fn expected_bytes<T: Element>(format: VectorFormat, rows: MatrixView<'_, T>) -> u64 {
    let values = rows.len() * rows.dimension() * size_of::<T>();
    (values
        + match format {
            VectorFormat::Fvecs | VectorFormat::Bvecs => 4 * rows.len(),
            VectorFormat::Npy => 128,
            _ => 8,
        }) as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn rows(
        dimension in 1..40_usize,
        values in proptest::collection::vec(-130.0_f32..260.0, 0..400),
        split in any::<usize>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let rows = &values[..values.len() / dimension * dimension];
        check_rows::<f32>(folder.path(), rows, dimension, split);
        check_rows::<f16>(folder.path(), rows, dimension, split);
        check_rows::<u8>(folder.path(), rows, dimension, split);
        check_rows::<i8>(folder.path(), rows, dimension, split);
    }

    #[test]
    fn truth(k in 1..20_usize, ids in proptest::collection::vec(any::<u32>(), 1..200), with in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let ids = ids[..ids.len() / k * k].to_vec();
        let distances = (with && !ids.is_empty()).then(|| ids.iter().map(|&id| id as f32).collect());
        let truth = GroundTruth::new(k, ids, distances).unwrap();
        if !truth.is_empty() {
            truth.write(folder.path().join("gt.ibin")).unwrap();
            prop_assert_eq!(&GroundTruth::read(folder.path().join("gt.ibin")).unwrap(), &truth);
            truth.write(folder.path().join("gt.ivecs")).unwrap();
            let bare = GroundTruth::new(k, truth.ids().to_vec(), None).unwrap();
            prop_assert_eq!(GroundTruth::read(folder.path().join("gt.ivecs")).unwrap(), bare);
        }
    }

    #[test]
    fn keys(keys in proptest::collection::vec(any::<u64>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["keys.txt", "keys.npy", "keys"] {
            write_keys(folder.path().join(name), &keys).unwrap();
            prop_assert_eq!(&read_keys(folder.path().join(name)).unwrap(), &keys);
        }
    }
}

/// More rows than one read, in a format that needs conversion.
#[test]
fn many_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.fvecs");
    let rows: Vec<f32> = (0..200_000).map(|value| value as f32).collect();
    write_vectors(&path, MatrixView::new(&rows, 2).unwrap()).unwrap();
    let file = VectorFile::open(&path).unwrap();
    assert_eq!(file.load::<f32>().unwrap().view().row(99_999), [199_998.0, 199_999.0]);
    let mut one = [0.0; 2];
    file.read_rows(77_777..77_778, &mut one).unwrap();
    assert_eq!(one, [155_554.0, 155_555.0]);
}

#[test]
fn a_record_of_another_length_is_found_where_it_is_read() {
    let mut bytes = Vec::new();
    for row in 0..50_000_u32 {
        bytes.extend((if row == 40_000 { 3_u32 } else { 2 }).to_le_bytes());
        bytes.extend([1, 2]);
    }
    let file = VectorFile::from_bytes("rows.bvecs", &bytes).unwrap();
    let mut two = [0_u8; 2];
    file.read_rows(39_999..40_000, &mut two).unwrap();
    let error = file.load::<u8>().unwrap_err();
    assert!(
        matches!(error.cause(), ReadCause::RecordDimension { row: 40_000, found: 3, expected: 2 }),
        "{error}"
    );
}

#[test]
fn what_is_asked_for_wrongly_is_an_error() {
    let bytes = [2, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4];
    let file = VectorFile::from_bytes("rows.u8bin", &bytes).unwrap();
    let mut out = [0_u8; 4];
    let cause = |result: Result<(), jasper_data::ReadError>| result.unwrap_err().to_string();
    assert_eq!(
        cause(file.read_rows(0..3, &mut out)),
        "rows.u8bin: rows 0..3 are out of range, the file has 2"
    );
    assert!(
        cause(file.read_rows(0..1, &mut out))
            .contains("1 rows of dimension 2 need a buffer of exactly rows x dimension elements, not 4")
    );
    #[expect(clippy::reversed_empty_ranges, reason = "it must not panic either")]
    let reversed = file.read_rows(2..0, &mut out);
    assert!(cause(reversed).contains("rows 2..0"));
    assert!(cause(file.read_rows(0..2, &mut [0_i8; 4])).contains("holds u8 values, not i8"));
    let unknown = VectorFile::from_bytes("rows.bin", &bytes).unwrap_err();
    assert!(unknown.to_string().contains("rename it to end in one of fvecs"), "{unknown}");
    assert!(matches!(VectorFile::open("no/such/file.fbin").unwrap_err().cause(), ReadCause::Io(_)));
}

/// Headers with wrong counts, each with the numbers in its error.
#[test]
fn headers_are_not_believed() {
    let bin = |rows: u32, dimension: u32, body: usize| {
        [&rows.to_le_bytes()[..], &dimension.to_le_bytes(), &vec![0; body]].concat()
    };
    let error = |bytes: &[u8]| VectorFile::from_bytes("rows.fbin", bytes).unwrap_err().to_string();
    assert!(error(&bin(1000, 2, 16)).contains("header says 1000 rows, file holds 2 rows; fetch"));
    assert!(error(&bin(1, 2, 16)).contains("header says 1 rows, file holds 2 rows; fetch"));
    assert!(error(&bin(2, 2, 15)).contains("header says 2 rows, file holds 1 rows and 7 bytes"));
    assert!(
        error(&bin(u32::MAX, u32::MAX, 16)).contains("dimension (4294967295) must be between 1 and 32768")
    );
    assert!(
        error(&bin(u32::MAX, 32768, 16))
            .contains("header says 4294967295 rows, file holds 0 rows and 16 bytes")
    );
    assert!(error(&bin(1, 0, 0)).contains("dimension (0)"));
    assert!(error(&[1, 2, 3]).contains("header takes 8 bytes, file has 3"));
    let negative = VectorFile::from_bytes("rows.fvecs", &(-1_i32).to_le_bytes()).unwrap_err();
    assert!(negative.to_string().contains("dimension (-1)"), "{negative}");

    // A truncated download, and a file whose header is wrong.
    let crop = |rows, bytes: &[u8]| {
        VectorFileOptions::new().max_rows(rows).from_bytes("rows.fbin", bytes).map(|f| f.len())
    };
    assert_eq!(crop(2, &bin(1000, 2, 20)).unwrap(), 2);
    assert!(crop(3, &bin(1000, 2, 20)).is_err());
    assert!(crop(1, &bin(1, 2, 16)).is_err());
    assert_eq!(crop(9, &bin(2, 2, 16)).unwrap(), 2);

    let huge = bin(u32::MAX, u32::MAX, 8);
    let error = GroundTruth::from_bytes("gt.ibin", &huge).unwrap_err();
    assert!(matches!(error.cause(), ReadCause::TruthLength { held: 16, .. }), "{error}");
    let error = GroundTruth::from_bytes("gt.ibin", &bin(3, 0, 0)).unwrap_err();
    assert!(matches!(error.cause(), ReadCause::NoNeighbors), "{error}");
}

/// A version 1 header as numpy writes it, before `body`.
fn npy(dictionary: &str, body: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", &(dictionary.len() as u16).to_le_bytes()[..], dictionary.as_bytes(), body].concat()
}

#[test]
fn arrays_of_numpy() {
    let open = |dictionary: &str, body: &[u8]| {
        let bytes = npy(dictionary, body);
        VectorFile::from_bytes("a.npy", &bytes)
            .map(|file| file.load_as::<f32>().unwrap().view().rows().map(<[f32]>::to_vec).collect::<Vec<_>>())
    };
    let doubles: Vec<u8> = [1.5_f64, -2.0, 1e300, 0.1].iter().flat_map(|value| value.to_le_bytes()).collect();
    let rows = open("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n", &doubles).unwrap();
    assert_eq!(rows, [[1.5, -2.0], [f32::INFINITY, 0.1]]);
    let single = open("{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }\n", &[1, 255, 3]).unwrap();
    assert_eq!(single, [[1.0, -1.0, 3.0]]);
    let none = open("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }\n", &[]).unwrap();
    assert!(none.is_empty());

    let refused = |dictionary: &str| match open(dictionary, &[0; 16]).unwrap_err().cause() {
        ReadCause::Npy(error) => error.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }"), NpyError::FortranOrder);
    for descr in [">f4", "|O", "<U4", "<i8", "|V2", "=f4"] {
        let error = refused(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 2), }}"));
        assert!(matches!(&error, NpyError::Type { found, .. } if found == descr), "{error}");
    }
    for shape in ["()", "(1, 2, 2)"] {
        let error = refused(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"));
        assert!(matches!(error, NpyError::Shape { .. }), "{error}");
    }
    let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 32768), }";
    assert!(matches!(
        open(huge, &[]).unwrap_err().cause(),
        ReadCause::Rows { claimed: u64::MAX, held: 0, rest: 0 }
    ));
}

/// Doubles are converted to f32, so they cannot be mapped; neither can unaligned values.
#[test]
fn what_cannot_be_mapped_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    fs::write(&path, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }", &[0; 16])).unwrap();
    assert!(!VectorFile::open(&path).unwrap().map::<f32>().unwrap().is_mapped());
    for blanks in 0..4 {
        let dictionary =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }}{:blanks$}", "");
        fs::write(&path, npy(&dictionary, &[0, 0, 128, 63, 0, 0, 0, 64])).unwrap();
        let rows = VectorFile::open(&path).unwrap().map::<f32>().unwrap();
        assert_eq!(rows.view().row(0), [1.0, 2.0]);
        assert_eq!(rows.is_mapped(), (10 + dictionary.len()) % 4 == 0);
    }
}

/// Files that are not what their length says, and devices without an end.
#[cfg(target_os = "linux")]
#[test]
fn keys_are_read_in_order_and_not_by_the_length_of_the_file() {
    use std::io::Write;
    let error = |path: &str| read_keys(path).unwrap_err().to_string();
    assert_eq!(read_keys("/proc/sys/kernel/ngroups_max").unwrap().len(), 1, "its length is 0");
    assert!(error("/proc/version").contains("line 1: a byte is no digit"));
    assert!(error("/dev/zero").contains("line 1: a byte is no digit"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zero.npy");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(error(path.to_str().unwrap()).contains("is not a numpy array"));
    // Longer than what is read at a time.
    let keys: Vec<u64> = (0..50_000).map(|key| key * 1_000_003).collect();
    for name in ["keys.txt", "keys.npy"] {
        let path = folder.path().join(name);
        write_keys(&path, &keys).unwrap();
        assert_eq!(read_keys(&path).unwrap(), keys);
    }
    let mut file = fs::File::options().append(true).open(folder.path().join("keys.npy")).unwrap();
    file.write_all(&[0; 9]).unwrap();
    let error = error(folder.path().join("keys.npy").to_str().unwrap());
    assert!(
        error.contains("header says 50000 rows, file holds 50001 rows and 1 bytes of another"),
        "{error}"
    );
}

#[test]
fn lines_that_are_no_keys_are_named() {
    let error = |text: &str| keys_from_bytes("k.txt", text.as_bytes()).unwrap_err().to_string();
    assert!(error("1\n\n2 3").contains("line 3: there is more than a key"));
    assert!(error("1\n2 3\n").contains("line 2: there is more than a key"));
    assert!(error("-1").contains("line 1: a byte is no digit"));
    assert!(error("1\n18446744073709551616").contains("line 2: the number is too large"));
    assert_eq!(keys_from_bytes("k.txt", b" 7 \r\n007\r\n18446744073709551615").unwrap(), [7, 7, u64::MAX]);
    assert_eq!(keys_from_bytes("k.txt", b"").unwrap(), []);
    // A key may cross the boundary of two reads.
    let text: String = (0..30_000).map(|key| format!("{}\n", key * 1_000_003_u64)).collect();
    let keys = keys_from_bytes("k.txt", text.as_bytes()).unwrap();
    assert!(keys.len() == 30_000 && keys.iter().zip(0..).all(|(&key, i)| key == i * 1_000_003_u64));
    assert_eq!(keys_from_bytes("k.txt", "\u{feff}1\n\n \r\n2\n\n".as_bytes()).unwrap(), [1, 2]);
    let array = |descr: &str, key: i64| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}");
        keys_from_bytes("pipe", &npy(&header, &key.to_le_bytes())).map_err(|error| error.to_string())
    };
    assert_eq!([array("<i8", 7), array("<u8", -1)], [Ok(vec![7]), Ok(vec![u64::MAX])]);
    assert!(array("<i8", -7).unwrap_err().contains("pipe: key 0 of the array is -7; keys are not negative"));
    let error = array("<i4", 7).unwrap_err();
    assert!(error.contains("`<i4` is unsupported; save the array with .astype as one of <u8"), "{error}");
}

#[test]
fn truth_must_fit_together() {
    assert_eq!(GroundTruth::new(2, vec![1; 3], None), Err(TruthError::Ragged { ids: 3, k: 2 }));
    assert_eq!(GroundTruth::new(0, vec![], None), Err(TruthError::Ragged { ids: 0, k: 0 }));
    let distances = Some(vec![0.0; 3]);
    assert_eq!(
        GroundTruth::new(2, vec![1; 4], distances),
        Err(TruthError::Distances { ids: 4, distances: 3 })
    );
    let truth = GroundTruth::new(2, vec![0, 5, 2, 9], None).unwrap();
    assert_eq!(truth.check_ids(10), Ok(()));
    assert_eq!(truth.check_ids(9), Err(TruthError::Id { query: 1, rank: 1, id: 9, rows: 9 }));
}

#[test]
fn what_cannot_be_written_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.u8bin");
    fs::write(&path, "old").unwrap();
    let rows = MatrixView::new(&[1.0_f32; 4], 2).unwrap();
    let error = write_vectors(&path, rows).unwrap_err();
    assert!(error.to_string().ends_with("u8bin does not hold f32 values; use fbin, or npy"), "{error}");
    let mut writer = VectorWriter::<u8>::create(&path, VectorFormat::Bin(ElementKind::U8), 3).unwrap();
    let error = writer.push(MatrixView::new(&[1; 4], 2).unwrap()).unwrap_err();
    assert!(matches!(error.cause(), WriteCause::Dimension { found: 2, expected: 3 }), "{error}");
    drop(writer);
    assert!(VectorWriter::<u8>::create(&path, VectorFormat::Npy, 0).is_err());
    assert!(matches!(write_vectors("rows.bin", rows).unwrap_err().cause(), WriteCause::UnknownFormat { .. }));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}
