//! An index whose GPU fails keeps what the host holds. Here, because the fault needs a kernel of the test, and `jasper`
//! has no unsafe code. The process that loses its device is a child.

use std::process::Command;

use gpu_kernels::LaunchConfig;
use jasper::{Device, Index, IndexBuilder, MatrixView, Metric, SearchParams};
use jasper_core::synthetic::Clusters;
use jasper_cuda::{Context, DeviceProperties, Module, Stream};

const CHILD: &str = "JASPER_LOST_DEVICE";

/// A kernel that stops with an error.
const TRAP: &str = ".version 7.4\n.target sm_80\n.address_size 64\n\
    .visible .entry stop(.param .align 8 .b8 args[8])\n{\n  trap;\n}\n";

/// Makes the context of the first device unusable.
fn lose_device() {
    let context = Context::open(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let module = Module::load(&context, TRAP).unwrap();
    // SAFETY: the kernel takes 8 bytes, and accesses nothing.
    unsafe { stream.launch_from(&module, "stop", LaunchConfig::linear(1, 1), &0_u64).unwrap() };
    stream.synchronize().unwrap_err();
}

fn change_and_lose() {
    let dimension = 16;
    let vectors: Vec<f32> = Clusters::new(dimension, 3).rows(3000, 0);
    let view = |rows: std::ops::Range<usize>| {
        MatrixView::new(&vectors[rows.start * dimension..rows.end * dimension], dimension).unwrap()
    };
    let builder = IndexBuilder::new(Metric::L2).device(Device::cuda(0));
    let index = builder.build(view(0..2000)).unwrap();
    index.insert(view(2000..3000), &(2000..3000).collect::<Vec<_>>()).unwrap();
    index.delete(&(0..500).collect::<Vec<_>>()).unwrap();
    lose_device();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.jasper");
    let query = &vectors[2500 * dimension..][..dimension];
    for error in [
        index.search(query, SearchParams::new(1)).unwrap_err().to_string(),
        index.insert(query, &[9000]).unwrap_err().to_string(),
    ] {
        assert!(error.contains("the CUDA context is lost"), "{error}");
    }
    let error = index.save(&path).unwrap_err();
    assert!(!path.exists(), "{error}");

    let rebuilt = index.rebuild(Device::CPU).unwrap();
    rebuilt.save(&path).unwrap();
    drop(index);
    let saved = Index::open(&path).unwrap();
    let mut keys = saved.keys();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(500..3000), "every change that returned, and none that failed");
    assert_eq!(saved.search(query, SearchParams::new(1)).unwrap()[0].key, 2500);
    assert!(saved.check().unwrap().is_sound());
    println!("saved");
}

#[test]
fn what_the_host_holds_is_saved_after_a_device_is_lost() {
    if std::env::var_os(CHILD).is_some() {
        return change_and_lose();
    }
    if DeviceProperties::list().is_ok_and(|devices| !devices.is_empty()) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "lost_device::what_the_host_holds_is_saved_after_a_device_is_lost",
                "--exact",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(output.contains("saved"), "{output}{}", String::from_utf8_lossy(&child.stderr));
    } else {
        assert!(std::env::var_os("JASPER_REQUIRE_GPU").is_none(), "there is no GPU");
    }
}
