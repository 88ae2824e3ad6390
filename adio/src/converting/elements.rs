//! Of which elements a datatype is made, as far as `external32` asks.
//!
//! There an element has its bytes in the opposite order of those here. Those that are larger or smaller there than here,
//! as `MPI_LONG` and `MPI_LONG_DOUBLE`, are not known.

use crate::abi::{Abi, Datatype};
use crate::calls::Mpi;
use crate::calls::datatypes::{Combiner, Parameterized};

/// Elements of so many bytes, so many in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    size: usize,
    count: usize,
}

/// The elements of a datatype, in the order of its data; those of one size that follow each other in one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Elements(Vec<Row>);

/// So many rows are kept at most: a datatype of more is none that a program converts.
const MOST: usize = 1 << 20;

impl Elements {
    /// Those that `datatype` repeats, if it repeats any, and otherwise its own; `None` where some are not known, or they
    /// differ too often.
    pub(super) fn repeated_in<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Option<Elements> {
        if mpi.type_size(datatype) == 0 {
            return Elements::of(mpi, datatype);
        }
        let contents = mpi.contents(datatype)?;
        match contents.combiner {
            Combiner::Predefined | Combiner::Struct => Elements::of(mpi, datatype),
            _ => Elements::repeated_in(mpi, *contents.datatypes.first()?),
        }
    }

    /// Those of `datatype`; `None` where some are not known, or they differ too often.
    fn of<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Option<Elements> {
        let size = |datatype| usize::try_from(mpi.type_size(datatype)).ok();
        let bytes = size(datatype)?;
        if bytes == 0 {
            return Some(Elements(Vec::new()));
        }
        let contents = mpi.contents(datatype)?;
        let elements = match contents.combiner {
            Combiner::Predefined => match mpi.parameterized(datatype) {
                Some(kind) => parameterized(kind, bytes)?,
                None => predefined(&mpi.type_name(datatype)?)?,
            },
            Combiner::Struct => {
                let lengths = contents.integers.get(1..)?;
                let mut all = Elements(Vec::new());
                // A struct may have a million blocks of one type.
                let mut last: Option<(Datatype<A>, Elements)> = None;
                for (inner, length) in contents.datatypes.iter().zip(lengths) {
                    let of_inner = match last.take() {
                        Some((datatype, elements)) if datatype.0 == inner.0 => elements,
                        _ => Elements::of(mpi, *inner)?,
                    };
                    all.append(&of_inner.clone().repeated(usize::try_from(*length).ok()?)?)?;
                    last = Some((*inner, of_inner));
                }
                all
            }
            _ => {
                let inner = *contents.datatypes.first()?;
                Elements::of(mpi, inner)?.repeated(bytes.checked_div(size(inner)?)?)?
            }
        };
        // Compilers have options by which Fortran's are larger.
        (elements.bytes() == bytes && elements.0.len() <= MOST).then_some(elements)
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|row| row.size.saturating_mul(row.count)).sum()
    }

    /// Whether each has a single byte, and is the same in every representation.
    pub(super) fn are_bytes(&self) -> bool {
        self.0.iter().all(|row| row.size == 1)
    }

    /// Turns the bytes of each element round, in data of any number of such datatypes.
    pub(super) fn turn_round(&self, data: &mut [u8]) {
        let mut left = data;
        while !left.is_empty() {
            for Row { size, count } in &self.0 {
                let (row, rest) = left.split_at_mut((size * count).min(left.len()));
                row.chunks_exact_mut(*size).for_each(<[u8]>::reverse);
                left = rest;
            }
        }
    }

    fn repeated(self, times: usize) -> Option<Elements> {
        match &self.0[..] {
            [] => Some(self),
            [Row { size, count }] => {
                let count = count.checked_mul(times)?;
                Some(Elements((count > 0).then_some(Row { size: *size, count }).into_iter().collect()))
            }
            [first, .., last] => {
                let joined = usize::from(first.size == last.size);
                let rows = (self.0.len() - joined).checked_mul(times)?;
                if rows > MOST {
                    return None;
                }
                let mut all = Elements(Vec::with_capacity(rows + joined));
                (0..times).try_for_each(|_| all.append(&self))?;
                Some(all)
            }
        }
    }

    /// Adds others behind them; `None` where they are too many.
    fn append(&mut self, others: &Elements) -> Option<()> {
        for row in &others.0 {
            match self.0.last_mut() {
                Some(last) if last.size == row.size => last.count = last.count.checked_add(row.count)?,
                _ => self.0.push(*row),
            }
        }
        (self.0.len() <= MOST).then_some(())
    }
}

/// Those of one of Fortran's types of a range and precision that a program has asked for. Of reals, only those of 4 and 8
/// bytes have the form of `external32`.
fn parameterized(kind: Parameterized, bytes: usize) -> Option<Elements> {
    let row = match (kind, bytes) {
        (Parameterized::Integer, size) => Row { size, count: 1 },
        (Parameterized::Real, size @ (4 | 8)) => Row { size, count: 1 },
        (Parameterized::Complex, 8 | 16) => Row { size: bytes / 2, count: 2 },
        _ => return None,
    };
    Some(Elements(vec![row]))
}

/// Those of a type of MPI's, by its name.
fn predefined(name: &str) -> Option<Elements> {
    let rows: &[(usize, usize)] = match name.strip_prefix("MPI_")? {
        "CHAR" | "SIGNED_CHAR" | "UNSIGNED_CHAR" | "BYTE" | "PACKED" | "CHARACTER" | "C_BOOL"
        | "CXX_BOOL" | "INT8_T" | "UINT8_T" | "INTEGER1" => &[(1, 1)],
        "SHORT" | "UNSIGNED_SHORT" | "INT16_T" | "UINT16_T" | "INTEGER2" => &[(2, 1)],
        "INT" | "UNSIGNED" | "FLOAT" | "INT32_T" | "UINT32_T" | "INTEGER" | "LOGICAL" | "REAL"
        | "INTEGER4" | "REAL4" => &[(4, 1)],
        "DOUBLE" | "LONG_LONG" | "LONG_LONG_INT" | "UNSIGNED_LONG_LONG" | "INT64_T" | "UINT64_T" | "AINT"
        | "OFFSET" | "COUNT" | "DOUBLE_PRECISION" | "INTEGER8" | "REAL8" => &[(8, 1)],
        "COMPLEX" | "C_COMPLEX" | "C_FLOAT_COMPLEX" | "CXX_FLOAT_COMPLEX" | "COMPLEX8" | "2INT"
        | "FLOAT_INT" | "2INTEGER" | "2REAL" => &[(4, 2)],
        "DOUBLE_COMPLEX" | "C_DOUBLE_COMPLEX" | "CXX_DOUBLE_COMPLEX" | "COMPLEX16" | "2DOUBLE_PRECISION" => {
            &[(8, 2)]
        }
        "DOUBLE_INT" => &[(8, 1), (4, 1)],
        "SHORT_INT" => &[(2, 1), (4, 1)],
        _ => return None,
    };
    Some(Elements(rows.iter().map(|&(size, count)| Row { size, count }).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(rows: &[(usize, usize)]) -> Elements {
        Elements(rows.iter().map(|&(size, count)| Row { size, count }).collect())
    }

    #[test]
    fn each_element_is_turned_round() {
        let mixed = elements(&[(2, 1), (4, 1), (1, 1)]);
        let mut data: Vec<u8> = (0..14).collect();
        mixed.turn_round(&mut data);
        assert_eq!(data, [1, 0, 5, 4, 3, 2, 6, 8, 7, 12, 11, 10, 9, 13]);
        mixed.turn_round(&mut data);
        assert_eq!(data, (0..14).collect::<Vec<u8>>());
    }

    #[test]
    fn rows_of_one_size_stay_one() {
        assert_eq!(elements(&[(4, 3)]).repeated(1 << 30), Some(elements(&[(4, 3 << 30)])));
        assert_eq!(
            elements(&[(4, 1), (8, 1)]).repeated(2),
            Some(elements(&[(4, 1), (8, 1), (4, 1), (8, 1)]))
        );
        assert_eq!(elements(&[(4, 1), (8, 1)]).repeated(MOST), None);
        assert_eq!(
            elements(&[(4, 1), (8, 1), (4, 2)]).repeated(2),
            Some(elements(&[(4, 1), (8, 1), (4, 3), (8, 1), (4, 2)]))
        );
        let mut alike = elements(&[(4, 1)]);
        (0..2 * MOST).for_each(|_| alike.append(&elements(&[(4, 1)])).expect("they are one row"));
        assert_eq!(alike, elements(&[(4, 2 * MOST + 1)]));
        assert_eq!(elements(&[(4, 1)]).repeated(0), Some(elements(&[])));
    }

    #[test]
    fn what_fortran_asks_for_is_as_large_there_as_here() {
        assert_eq!(parameterized(Parameterized::Integer, 2), Some(elements(&[(2, 1)])));
        assert_eq!(parameterized(Parameterized::Real, 8), Some(elements(&[(8, 1)])));
        assert_eq!(parameterized(Parameterized::Complex, 8), Some(elements(&[(4, 2)])));
        assert_eq!(parameterized(Parameterized::Real, 16), None);
    }

    #[test]
    fn what_has_another_size_there_is_not_known() {
        assert_eq!(predefined("MPI_DOUBLE"), Some(elements(&[(8, 1)])));
        for name in ["MPI_LONG", "MPI_LONG_DOUBLE", "MPI_WCHAR", "mine"] {
            assert_eq!(predefined(name), None);
        }
        assert!(predefined("MPI_CHAR").unwrap().are_bytes());
    }
}
