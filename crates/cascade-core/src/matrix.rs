//! Matrices: logits and hidden states, row by row.

/// A dense row-major matrix of `f32`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    columns: usize,
    data: Vec<f32>,
}

impl Matrix {
    /// A matrix of `data.len() / columns` rows.
    ///
    /// # Panics
    /// If `columns` is 0 or does not divide the length of `data`.
    pub fn new(columns: usize, data: Vec<f32>) -> Self {
        assert!(
            columns > 0 && data.len().is_multiple_of(columns),
            "{} values do not fill rows of {columns}",
            data.len()
        );
        Self { columns, data }
    }

    /// All values, row by row.
    pub fn as_slice(&self) -> &[f32] {
        &self.data
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.columns
    }

    /// These rows and then those of another matrix.
    ///
    /// # Panics
    /// If it has another number of columns.
    pub fn followed_by(mut self, more: &Self) -> Self {
        assert_eq!(self.columns, more.columns, "rows of one width");
        self.data.extend_from_slice(&more.data);
        self
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }

    /// One row, to change it.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.columns..(row + 1) * self.columns]
    }
}
