//! A number for each pair of ranks.

use serde::{Deserialize, Serialize};

use crate::rank::Rank;

/// A square matrix; in files, a list of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>", into = "Vec<Vec<f64>>")]
pub struct Matrix {
    size: u32,
    values: Vec<f64>,
}

impl Matrix {
    /// From a function of row and column.
    #[must_use]
    pub fn from_fn(size: u32, mut value: impl FnMut(Rank, Rank) -> f64) -> Self {
        let mut values = Vec::with_capacity(size as usize * size as usize);
        for row in 0..size {
            values.extend((0..size).map(|column| value(Rank(row), Rank(column))));
        }
        Self { size, values }
    }

    /// How many rows there are, and columns.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What is in a row and column.
    ///
    /// # Panics
    /// Where there is no such row or column.
    #[must_use]
    pub fn at(&self, row: Rank, column: Rank) -> f64 {
        self.values[self.place(row, column)]
    }

    /// Puts a number into a row and column.
    ///
    /// # Panics
    /// Where there is no such row or column.
    pub fn set(&mut self, row: Rank, column: Rank, value: f64) {
        let place = self.place(row, column);
        self.values[place] = value;
    }

    /// All numbers, row by row.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    fn place(&self, row: Rank, column: Rank) -> usize {
        assert!(row.0 < self.size && column.0 < self.size, "({row}, {column}) is not in {} rows", self.size);
        row.index() * self.size as usize + column.index()
    }
}

impl TryFrom<Vec<Vec<f64>>> for Matrix {
    type Error = MatrixError;

    fn try_from(rows: Vec<Vec<f64>>) -> Result<Self, MatrixError> {
        if let Some(row) = rows.iter().position(|row| row.len() != rows.len()) {
            return Err(MatrixError { row, columns: rows[row].len(), rows: rows.len() });
        }
        Ok(Self { size: rows.len() as u32, values: rows.concat() })
    }
}

impl From<Matrix> for Vec<Vec<f64>> {
    fn from(matrix: Matrix) -> Self {
        matrix.values.chunks(matrix.size.max(1) as usize).map(<[f64]>::to_vec).collect()
    }
}

/// A list of rows that is not square.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row} has {columns} columns, but there are {rows} rows")]
pub struct MatrixError {
    row: usize,
    columns: usize,
    rows: usize,
}
