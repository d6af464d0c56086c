//! What the emulator notices, and the layout of arguments as the kernels know them.

use bytemuck::Zeroable;
use cascade_ptx_interpreter::{ExecutionOrder, Module};

use crate::arguments::{Answer, CopyArguments, FillArguments, LogitsArguments, Step};
use crate::emulator::emulated;
use crate::launch::{Kernel, Launch};
use crate::Device;

/// Sizes and offsets of the structures that kernels are called with, as the kernels know them.
pub(crate) fn layout(ptx: &str) -> Vec<usize> {
    let module = Module::read(ptx).unwrap();
    let words = module.constant("cascade_layout").unwrap().chunks(4);
    let number = |word: &[u8]| u32::from_le_bytes(word.try_into().unwrap()) as usize;
    words.map(number).collect()
}

const ORDERS: [ExecutionOrder; 3] = [
    ExecutionOrder::Forward,
    ExecutionOrder::Backward,
    ExecutionOrder::Random(7),
];

/// What the emulator says of a kernel that it finds wrong.
fn complaint(device: &Device, launch: &Launch) -> String {
    device.launch(launch).unwrap_err().to_string()
}

#[test]
fn threads_that_exchange_nothing_while_others_do_are_noticed() {
    let device = emulated(ExecutionOrder::Forward);
    let mut step = Step::zeroed();
    step.rows = 1;
    let step = device.upload(&[step]).unwrap();
    let numbers = device.upload(&[1f32; 64]).unwrap();
    let answer = device.allocate(size_of::<Answer>()).unwrap();
    let arrived = device.upload(&[0u32]).unwrap();
    let arguments = LogitsArguments {
        step: step.address(),
        logits: numbers.address(),
        slices: numbers.address(),
        arrived: arrived.address(),
        answer: answer.address(),
        vocabulary: 16,
        slice_count: 1,
    };
    let of_threads = |threads| Launch::new(Kernel::Logits, [1; 3], threads, arguments);
    assert!(complaint(&device, &of_threads(48)).contains("not the whole warp"));
    assert!(complaint(&device, &of_threads(2048)).contains("compiled for at most"));
    device.launch(&of_threads(64)).unwrap();
}

#[test]
fn writes_beyond_a_buffer_are_noticed() {
    for order in ORDERS {
        let device = emulated(order);
        let buffer = device.allocate(64).unwrap();
        let fill = |to, count| {
            let arguments = FillArguments {
                to,
                count,
                scale: 1.0,
                ..FillArguments::zeroed()
            };
            Launch::new(Kernel::Fill, [2, 1, 1], 32, arguments)
        };
        device.launch(&fill(buffer.address(), 16)).unwrap();
        let beyond = complaint(&device, &fill(buffer.address(), 17));
        assert!(beyond.contains("outside of global memory"), "{beyond}");
    }
}

#[test]
fn loads_from_odd_addresses_are_noticed() {
    let device = emulated(ExecutionOrder::Forward);
    let buffer = device.upload(&[7u8; 64]).unwrap();
    let copy = |from| {
        let arguments = CopyArguments {
            from,
            to: buffer.address() + 32,
            quads: 1,
        };
        Launch::new(Kernel::CopyQuads, [1; 3], 32, arguments)
    };
    device.launch(&copy(buffer.address())).unwrap();
    let odd = complaint(&device, &copy(buffer.address() + 4));
    assert!(odd.contains("not a multiple of 16"), "{odd}");
}

#[test]
fn memory_that_nobody_wrote_is_no_number() {
    let device = emulated(ExecutionOrder::Forward);
    let buffer = device.allocate(20).unwrap();
    let mut values = [0f32; 5];
    buffer.read(0, &mut values).unwrap();
    assert!(values.iter().all(|value| value.is_nan()));
    assert_eq!(device.memory().unwrap().0, 20);
    drop(buffer);
    assert_eq!(device.memory().unwrap().0, 0);
}
