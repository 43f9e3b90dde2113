//! Every function of `cuda_std` on a device: the cases of the emulator's tests, with the same results.

use cuda_std_kernels::{PTX, cases};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, LaunchConfig, Stream as _};
use jasper_cuda::{Module, Stream};

/// The kernels' arguments, as a device has them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Args {
    input: DevicePtr<u32>,
    output: DevicePtrMut<u32>,
}

#[test]
fn every_function_gives_its_answer() {
    let Some(context) = crate::common::context() else { return };
    let stream = Stream::new(&context).unwrap();
    let kernels = Module::load(&context, PTX).unwrap();
    let (input, cases) = cases();
    let input = stream.upload(&input).unwrap();
    for case in cases {
        let mut output = stream.upload(&case.before).unwrap();
        let args = Args { input: input.input(), output: output.output() };
        let launch =
            LaunchConfig { grid: case.launch.grid, block: case.launch.block, shared: case.launch.shared };
        // SAFETY: the case's own launch; `Args` has the layout of the kernels' parameter.
        unsafe { stream.launch_from(&kernels, case.entry, launch, &args).unwrap() };
        let after = stream.download(&output).unwrap();
        let wrong = (0..after.len()).find(|&word| after[word] != case.after[word]);
        assert_eq!(wrong, None, "the first word that {} has wrong", case.entry);
    }
}
