//! What the kernels' tests share: devices, weights, batches of rows, and numbers in few bits.

pub(crate) mod attention;
pub(crate) mod batch;
pub(crate) mod decoder;
pub(crate) mod numbers;
pub(crate) mod store;

use cascade_gpu::{Cache, CacheShape, DType, Device, Heads};
use cascade_gpu_emulator::{emulated, ExecutionOrder};

/// What norms add to the mean square.
pub(crate) const EPSILON: f64 = 1e-3;

const NUMBERS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// The emulator with threads in order, against it and in any order; or three times the GPU that
/// `CASCADE_TEST_DEVICE` names (`cuda:0`).
pub(crate) fn devices() -> [Device; 3] {
    if let Some(ordinal) = named_gpu() {
        let gpu = Device::gpu(ordinal).unwrap();
        return [gpu.clone(), gpu.clone(), gpu];
    }
    [
        ExecutionOrder::Forward,
        ExecutionOrder::Backward,
        ExecutionOrder::Random(5),
    ]
    .map(emulated)
}

/// The number of the GPU that `CASCADE_TEST_DEVICE` names.
pub(crate) fn named_gpu() -> Option<usize> {
    let name = std::env::var("CASCADE_TEST_DEVICE").ok()?;
    Some(name.strip_prefix("cuda:").unwrap().parse().unwrap())
}

/// Runs `test` for every type with threads in order and in another order, which must give the same
/// bits.
pub(crate) fn on_all(test: impl Fn(&Device, DType) -> Vec<f32>) {
    on_each(&[&NUMBERS[..], &[DType::Q8]].concat(), test);
}

/// The same for every type that activations have: what linear maps do not matter for.
pub(crate) fn on_numbers(test: impl Fn(&Device, DType) -> Vec<f32>) {
    on_each(&NUMBERS, test);
}

pub(crate) fn on_each(dtypes: &[DType], test: impl Fn(&Device, DType) -> Vec<f32>) {
    for (index, &dtype) in dtypes.iter().enumerate() {
        let devices = devices();
        let orders = [&devices[0], &devices[1 + index % 2]];
        let [in_order, otherwise] = orders.map(|device| bits(&test(device, dtype)));
        assert!(
            in_order == otherwise,
            "{dtype:?}: results depend on the order of threads"
        );
    }
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Heads for forwards whose attention does not matter.
pub(crate) const ONE_HEAD: Heads = Heads {
    queries: 1,
    kv: 1,
    size: 32,
};

/// A cache of one layer with room for `slots`.
pub(crate) fn cache(device: &Device, dtype: DType, heads: Heads, slots: usize) -> Cache {
    let shape = CacheShape {
        layers: 1,
        kv_heads: heads.kv,
        head_dim: heads.size,
    };
    let mut cache = Cache::new(device, shape, dtype).unwrap();
    cache.reserve(slots).unwrap();
    cache
}

/// Asserts that `got` is `want` up to its tolerance, number by number.
pub(crate) fn assert_close(
    got: &[f32],
    want: impl IntoIterator<Item = (f64, f64)>,
    what: &dyn std::fmt::Debug,
) {
    let mut compared = 0;
    for (i, (&got, (want, tolerance))) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(
            error <= tolerance,
            "{what:?}: number {i} is {got} instead of {want}, which is {error} off; {tolerance} is allowed"
        );
        compared += 1;
    }
    assert_eq!(compared, got.len(), "{what:?}");
}
