//! Rows of a matrix that stay in its file.

use std::fmt;
use std::sync::Arc;

use super::Inner;
use crate::blocks::BlockType;
/// A matrix `[rows, inputs]` whose rows are looked up: it takes no memory of its own, but the
/// system's cache of the file.
pub struct Rows {
    pub(super) name: String,
    pub(super) inner: Arc<Inner>,
    pub(super) kind: BlockType,
    pub(super) shape: [usize; 2],
}

impl Rows {
    /// Length of a row.
    pub fn inputs(&self) -> usize {
        self.shape[1]
    }

    /// The values of a row: those that the same row has in memory, to the bit.
    ///
    /// # Panics
    /// If there is no such row, or `values` has another length.
    pub fn read(&self, row: usize, values: &mut [f32]) {
        let [rows, inputs] = self.shape;
        assert!(row < rows, "a row that is not there");
        let entry = &self.inner.tensors[&self.name];
        let matrix = self.inner.files[entry.file].bytes(&entry.tensor);
        let bytes = self.kind.row_bytes(inputs);
        self.kind.read(&matrix[row * bytes..][..bytes], values);
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, inputs] = self.shape;
        write!(f, "Rows({} [{rows}, {inputs}])", self.name)
    }
}

#[cfg(test)]
mod tests {
    use cascade_cpu::{Packed, quantize};
    use half::{bf16, f16};

    use crate::DType;
    use crate::blocks::BlockType;
    use crate::dtype::FloatType;

    #[test]
    fn what_is_read_in_place_is_what_would_be_in_memory() {
        let values: Vec<f32> = (0..3 * 64).map(|i| (i as f32).sin() / 3.0).collect();
        let bytes_in = |stored| {
            let bytes = |x: &f32| match stored {
                FloatType::F32 => x.to_le_bytes().to_vec(),
                FloatType::F64 => f64::from(*x).sqrt().to_le_bytes().to_vec(),
                FloatType::F16 => f16::from_f32(*x).to_le_bytes().to_vec(),
                FloatType::BF16 => bf16::from_f32(*x).to_le_bytes().to_vec(),
            };
            let positive = values.iter().map(|x| x.abs());
            positive.flat_map(|x| bytes(&x)).collect::<Vec<u8>>()
        };
        let mut checked = 0;
        for stored in [
            FloatType::F32,
            FloatType::F64,
            FloatType::F16,
            FloatType::BF16,
        ] {
            let (bytes, kind) = (bytes_in(stored), BlockType::from(stored));
            for dtype in DType::ALL
                .into_iter()
                .filter(|&dtype| kind.is_held_in(dtype))
            {
                let (format, row_bytes) = (dtype.format(stored), kind.row_bytes(64));
                let packed = Packed::from_rows(format, 64, 3, |row, to| {
                    let row = &bytes[row * row_bytes..][..row_bytes];
                    quantize(format, &stored.to_f32(row), to);
                })
                .unwrap();
                let (mut here, mut there) = ([0.0; 64], [0.0; 64]);
                for (row, bytes) in bytes.chunks(kind.row_bytes(64)).enumerate() {
                    kind.read(bytes, &mut here);
                    packed.read_row(row, &mut there);
                    assert_eq!(here, there, "{stored:?} as {dtype}");
                }
                checked += 1;
            }
        }
        // Each as f32 and as it is, and two in their own types.
        assert_eq!(checked, 4 + 4 + 2);
        for (kind, dtype) in [
            (BlockType::Q8_0, DType::Q4_0),
            (BlockType::Q4K, DType::Q8_0),
        ] {
            assert!(!kind.is_held_in(dtype));
            assert!(kind.is_held_in(DType::Stored));
        }
        assert!(BlockType::Q5_0.is_held_in(DType::Stored));
        assert!(!BlockType::Q5_0.is_held_in(DType::Q4_0));
    }
}
