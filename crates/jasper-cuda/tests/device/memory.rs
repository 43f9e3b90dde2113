//! Copies to and from the device; failed allocations change nothing.

use gpu_kernels::{Buffer as _, LaunchConfig, Stream as _};
use jasper_core::Metric;
use jasper_cuda::{Context, Error, ErrorKind, MemoryPlan, MemorySpace, Module, Pinned, Stream};

#[test]
fn arrays_come_back_as_they_went() {
    let Some(context) = crate::common::context() else { return };
    let stream = Stream::new(&context).unwrap();
    let chunk = Stream::CHUNK_BYTES / size_of::<u64>();
    for len in [0, 1, 1000, chunk - 1, chunk, chunk + 1, 3 * chunk + 17] {
        let values: Vec<u64> = (0..len as u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let mut buffer = stream.upload(&values).unwrap();
        assert!(stream.download(&buffer).unwrap() == values, "{len}");
        stream.fill(&mut buffer, 0xA5).unwrap();
        assert!(stream.download(&buffer).unwrap() == vec![0xA5A5_A5A5_A5A5_A5A5; len], "{len}");
    }
}

#[test]
fn chunks_are_whole_rows() {
    let Some(context) = crate::common::context() else { return };
    let stream = Stream::new(&context).unwrap();
    let (row_len, rows) = (300_007, 50);
    let mut buffer = stream.allocate::<u32>(row_len * rows).unwrap();
    let mut chunks = 0;
    stream
        .write(&mut buffer, row_len * rows, row_len, |range, out| {
            assert!(range.start % row_len == 0 && range.end % row_len == 0, "{range:?}");
            out.iter_mut().zip(range).for_each(|(value, i)| *value = i as u32);
            chunks += 1;
            Ok::<(), Error>(())
        })
        .unwrap();
    assert!(chunks > 2);
    let expected: Vec<u32> = (0..(row_len * rows) as u32).collect();
    assert!(stream.download(&buffer).unwrap() == expected);
}

#[test]
fn an_array_grows_where_it_is_and_keeps_what_it_holds() {
    let Some(context) = crate::common::context() else { return };
    let stream = Stream::new(&context).unwrap();
    let values: Vec<u32> = (0..1_000_000).collect();
    let mut buffer = stream.upload(&values).unwrap();
    let mut addresses = Vec::new();
    for len in [1_000_001, 3_000_000, 3_000_000, 2, 20_000_000] {
        stream.grow(&mut buffer, len).unwrap();
        assert!(buffer.len() >= len);
        addresses.push(buffer.input().at(0));
        assert!(stream.download_range(&buffer, 0..values.len()).unwrap() == values, "{len}");
    }
    assert!(addresses.windows(2).all(|pair| pair[0] == pair[1]), "{addresses:?}");
    stream.fill(&mut buffer, 7).unwrap();
    assert!(stream.download_range(&buffer, 19_999_998..20_000_000).unwrap() == [0x0707_0707; 2]);
    let error = stream.grow(&mut buffer, 1 << 45).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::OutOfMemory { .. }), "{error}");
    assert_eq!(buffer.len(), 20_000_000);
}

/// Arrays in host memory are written and read in place, and kernels access them by their address.
#[test]
fn an_array_on_the_host_is_an_array() {
    let Some(context) = crate::common::context() else { return };
    let stream = Stream::new(&context).unwrap();
    let len = 5 * Stream::CHUNK_BYTES / size_of::<u32>() + 17;
    let values: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
    let mut array = stream.allocate_on_host::<u32>(len).unwrap();
    assert!(array.is_on_host());
    let fill = |range: std::ops::Range<usize>, out: &mut [u32]| {
        out.copy_from_slice(&values[range]);
        Ok::<(), Error>(())
    };
    stream.write(&mut array, len, 3, fill).unwrap();
    assert!(stream.download(&array).unwrap() == values);
    let mut read = Vec::new();
    stream.read_range(&array, 5..len, 1, |_, chunk| read.extend_from_slice(chunk)).unwrap();
    assert!(read == values[5..]);

    let probe = Module::load(&context, crate::common::PROBE).unwrap();
    let mut other = stream.allocate_on_host::<u32>(len).unwrap();
    let args = crate::common::Move { from: array.input(), to: other.output(), len: len as u64 };
    // SAFETY: `Move` is the kernel's parameter, and both arrays have `len` words.
    unsafe { stream.launch_from(&probe, "copy", LaunchConfig::linear(64, 256), &args) }.unwrap();
    assert!(stream.download(&other).unwrap() == values);

    // From the host to the device and back, and grown where it was: on the host.
    let mut there = stream.allocate::<u32>(len).unwrap();
    stream.copy(&array, &mut there, len).unwrap();
    assert!(stream.download(&there).unwrap() == values);
    stream.grow(&mut array, 2 * len).unwrap();
    assert!(array.is_on_host() && array.len() == 2 * len);
    assert!(stream.download_range(&array, 0..len).unwrap() == values);
    stream.fill(&mut array, 0xA5).unwrap();
    stream.copy(&there, &mut array, len).unwrap();
    let filled = stream.download(&array).unwrap();
    assert!(filled[..len] == values && filled[len..].iter().all(|&value| value == 0xA5A5_A5A5));
    assert!(stream.allocate_on_host::<u64>(0).unwrap().is_on_host());
    let error = stream.allocate_on_host::<u64>(1 << 45).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Plan(_)), "{error}");
}

#[test]
fn exhausted_memory_is_told_in_numbers_and_passes() {
    let Some(context) = crate::common::exclusive_context() else { return };
    let stream = Stream::new(&context).unwrap();
    let kept = stream.upload(&[7_u32; 1000]).unwrap();
    let memory = context.device().memory;
    for bytes in [2 * memory, 1 << 45] {
        let error = stream.allocate::<u8>(bytes).unwrap_err();
        let ErrorKind::OutOfMemory { ref what, free, total } = error.kind else { panic!("{error}") };
        assert_eq!(*what, format!("a buffer of {bytes} bytes"));
        assert!(0 < free && free < total && total <= memory, "{error}");
    }
    // A buffer that just fits, twice: the second is refused, and comes when the first is gone.
    let most = context.free_memory().unwrap().device as usize / 8 * 7;
    let first = stream.allocate::<u8>(most).unwrap();
    assert!(
        stream.allocate::<u8>(most).is_err_and(|error| matches!(error.kind, ErrorKind::OutOfMemory { .. }))
    );
    drop(first);
    assert!(stream.allocate::<u8>(most).is_ok());
    assert_eq!(stream.download(&kept).unwrap(), [7; 1000]);
}

#[test]
fn a_plan_knows_what_is_free() {
    let Some(context) = crate::common::context() else { return };
    let free = context.free_memory().unwrap();
    assert!(free.device > 0 && free.device <= context.device().memory as u64 && free.host > 0);
    assert!(MemoryPlan::new("little").part(MemorySpace::Device, "a byte", 1).check(free).is_ok());
    let much =
        MemoryPlan::new("much").part(MemorySpace::Device, "everything", context.device().memory as u64);
    assert!(much.check(free).unwrap_err().to_string().contains("everything"));
}

#[test]
fn pinned_memory_is_memory() {
    let Some(context) = crate::common::context() else { return };
    let mut pinned = Pinned::<u16>::zeroed(&context, 100_000).unwrap();
    assert!(pinned.iter().all(|&value| value == 0));
    pinned[99_999] = 3;
    assert_eq!(pinned[99_998..], [0, 3]);
    assert!(Pinned::<u64>::zeroed(&context, 0).unwrap().is_empty());
}

#[test]
fn threads_share_a_context() {
    let Some(context) = crate::common::context() else { return };
    std::thread::scope(|scope| {
        for seed in 0..8_u32 {
            let context = &context;
            scope.spawn(move || {
                let stream = Stream::new(&Context::open(0).unwrap()).unwrap();
                let values: Vec<u32> = (0..100_000).map(|i| i ^ seed).collect();
                for _ in 0..10 {
                    let buffer = stream.upload(&values).unwrap();
                    assert!(stream.download(&buffer).unwrap() == values);
                }
                context.synchronize().unwrap();
            });
        }
    });
}

#[test]
#[should_panic(expected = "used by the stream that made it")]
fn a_buffer_belongs_to_its_stream() {
    let Some(context) = crate::common::context() else { panic!("skipped: used by the stream that made it") };
    let (one, other) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    let buffer = one.upload(&[1_u8]).unwrap();
    let _ = other.download(&buffer);
}

#[test]
#[should_panic(expected = "used by the stream that made it")]
fn exact_neighbors_are_of_arrays_of_one_stream() {
    let Some(context) = crate::common::context() else { panic!("skipped: used by the stream that made it") };
    let (one, other) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    let (rows, queries) = (one.upload(&[1.0_f32; 16]).unwrap(), other.upload(&[1.0_f32; 16]).unwrap());
    let _ = gpu_kernels::knn::exact_knn(&one, Metric::L2, 16, 1, &rows, 1, &queries);
}

#[test]
fn an_array_is_filled_from_another_of_its_stream() {
    let Some(context) = crate::common::context() else { return };
    let stream = Stream::new(&context).unwrap();
    let values: Vec<u32> = (0..3 * Stream::CHUNK_BYTES as u32 / 4 + 5).collect();
    let from = stream.upload(&values).unwrap();
    let mut to = stream.allocate::<u32>(values.len()).unwrap();
    stream
        .write(&mut to, values.len(), 1, |range, out: &mut [u32]| {
            out.copy_from_slice(&stream.download_range(&from, range.clone())?);
            let first = range.start;
            stream.read_range(&from, range, 1, |part, read| {
                assert!(out[part.start - first..part.end - first] == *read);
            })
        })
        .unwrap();
    assert!(stream.download(&to).unwrap() == values);
}

#[test]
fn a_module_is_unloaded_in_any_thread() {
    let Some(context) = crate::common::context() else { return };
    let module = Module::load(&context, crate::common::PROBE).unwrap();
    let unload = move || {
        drop(module);
        jasper_driver::take_failure()
    };
    assert_eq!(std::thread::spawn(unload).join().unwrap(), None);
}
