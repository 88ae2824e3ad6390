//! MPI's predefined operations, on elements that the processor knows.

use svmio_collectives::executor::{Elementwise, Operation};

/// What an element of a predefined datatype is: the classes of MPI-3.1, section 5.9.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Integer(Number),
    /// A floating-point number; `None` is C's `long double`.
    Real(Option<Number>),
    /// A complex number.
    Complex {
        /// Bytes.
        width: usize,
    },
    /// A truth value.
    Logical {
        /// Bytes.
        width: usize,
    },
    /// A byte.
    Byte,
    /// What MPI reduces by `MPI_MINLOC` and `MPI_MAXLOC`; may have gaps.
    Pair,
    /// What is not reduced.
    Text {
        /// Bytes.
        width: usize,
    },
    /// `MPI_DATATYPE_NULL`.
    Null,
}

impl Kind {
    /// The same where an element has `size` bytes in a row, as MPI says: how long those of Fortran's types are is up to
    /// how MPI's Fortran compiler was called. `None` where no such element is known.
    pub(crate) fn of_size(self, size: usize) -> Option<Self> {
        if self.width().is_none_or(|width| width == size) {
            return Some(self);
        }
        match self {
            Self::Integer(number) => number.of_size(size).map(Self::Integer),
            Self::Real(Some(number)) => number.of_size(size).map(|number| Self::Real(Some(number))),
            Self::Complex { .. } if [8, 16, 32].contains(&size) => Some(Self::Complex { width: size }),
            Self::Logical { .. } if [1, 2, 4, 8].contains(&size) => Some(Self::Logical { width: size }),
            _ => None,
        }
    }

    /// Bytes of an element, where it has no gaps and is one.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Self::Integer(number) | Self::Real(Some(number)) => Some(number.width()),
            Self::Real(None) => Some(16),
            Self::Complex { width } | Self::Logical { width } | Self::Text { width } => Some(width),
            Self::Byte => Some(1),
            Self::Pair | Self::Null => None,
        }
    }
}

/// A number of the processor's.
#[expect(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// The one of the same kind that has so many bytes.
    fn of_size(self, size: usize) -> Option<Self> {
        let alike: &[Self] = match self {
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => &[Self::I8, Self::I16, Self::I32, Self::I64],
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => &[Self::U8, Self::U16, Self::U32, Self::U64],
            Self::F32 | Self::F64 => &[Self::F32, Self::F64],
        };
        alike.iter().copied().find(|number| number.width() == size)
    }

    fn width(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// A predefined operation.
#[expect(missing_docs, reason = "the names are MPI's")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Max,
    Min,
    Sum,
    Product,
    LogicalAnd,
    BitwiseAnd,
    LogicalOr,
    BitwiseOr,
    LogicalXor,
    BitwiseXor,
    MinimumAndPlace,
    MaximumAndPlace,
    /// One that is for no collective.
    Other,
}

impl Operator {
    /// Those that collectives can have, in the order of MPICH's numbers.
    pub(crate) const NAMED: [Operator; 12] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Product,
        Self::LogicalAnd,
        Self::BitwiseAnd,
        Self::LogicalOr,
        Self::BitwiseOr,
        Self::LogicalXor,
        Self::BitwiseXor,
        Self::MinimumAndPlace,
        Self::MaximumAndPlace,
    ];

    /// Whether MPI has it for these elements (MPI-3.1, section 5.9.2 and 5.9.4).
    pub(crate) fn is_for(self, kind: Kind) -> bool {
        match self {
            Self::Max | Self::Min => matches!(kind, Kind::Integer(_) | Kind::Real(_)),
            Self::Sum | Self::Product => {
                matches!(kind, Kind::Integer(_) | Kind::Real(_) | Kind::Complex { .. })
            }
            Self::LogicalAnd | Self::LogicalOr | Self::LogicalXor => {
                matches!(kind, Kind::Integer(_) | Kind::Logical { .. })
            }
            Self::BitwiseAnd | Self::BitwiseOr | Self::BitwiseXor => {
                matches!(kind, Kind::Integer(_) | Kind::Byte)
            }
            Self::MinimumAndPlace | Self::MaximumAndPlace => kind == Kind::Pair,
            Self::Other => false,
        }
    }
}

/// An operation that the processor has.
pub(crate) type Native = &'static (dyn Operation + Sync);

/// The operation on such elements, if the processor has it: one value for all calls.
pub(crate) fn native(operator: Operator, kind: Kind) -> Option<Native> {
    macro_rules! elementwise {
        ($number:ty, $function:expr) => {
            const { &Elementwise::<$number, _>::commutative($function) }
        };
    }
    macro_rules! of_integers {
        ($number:ty) => {
            match operator {
                Operator::Max => elementwise!($number, |left, right| if left > right { left } else { right }),
                Operator::Min => elementwise!($number, |left, right| if left < right { left } else { right }),
                Operator::Sum => elementwise!($number, <$number>::wrapping_add),
                Operator::Product => elementwise!($number, <$number>::wrapping_mul),
                Operator::BitwiseAnd => elementwise!($number, |left, right| left & right),
                Operator::BitwiseOr => elementwise!($number, |left, right| left | right),
                Operator::BitwiseXor => elementwise!($number, |left, right| left ^ right),
                Operator::LogicalAnd => {
                    elementwise!($number, |left, right| <$number>::from((left != 0) & (right != 0)))
                }
                Operator::LogicalOr => {
                    elementwise!($number, |left, right| <$number>::from((left != 0) | (right != 0)))
                }
                Operator::LogicalXor => {
                    elementwise!($number, |left, right| <$number>::from((left != 0) ^ (right != 0)))
                }
                _ => return None,
            }
        };
    }
    macro_rules! of_reals {
        ($number:ty) => {
            match operator {
                // As C compares: a comparison with what is no number is false.
                Operator::Max => elementwise!($number, |left, right| if left > right { left } else { right }),
                Operator::Min => elementwise!($number, |left, right| if left < right { left } else { right }),
                Operator::Sum => elementwise!($number, |left, right| left + right),
                Operator::Product => elementwise!($number, |left, right| left * right),
                _ => return None,
            }
        };
    }
    Some(match kind {
        Kind::Integer(Number::I8) => of_integers!(i8),
        Kind::Integer(Number::U8) | Kind::Byte => of_integers!(u8),
        Kind::Integer(Number::I16) => of_integers!(i16),
        Kind::Integer(Number::U16) => of_integers!(u16),
        Kind::Integer(Number::I32) => of_integers!(i32),
        Kind::Integer(Number::U32) => of_integers!(u32),
        Kind::Integer(Number::I64) => of_integers!(i64),
        Kind::Integer(Number::U64) => of_integers!(u64),
        Kind::Real(Some(Number::F32)) => of_reals!(f32),
        Kind::Real(Some(Number::F64)) => of_reals!(f64),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<const N: usize>(
        operator: Operator,
        kind: Kind,
        left: [u8; N],
        mut right: [u8; N],
    ) -> [u8; N] {
        let operation = native(operator, kind).expect("the processor has it");
        assert_eq!(operation.width(), kind.width().expect("a number has one"));
        assert!(operation.is_commutative());
        operation.combine(&left, &mut right);
        right
    }

    #[test]
    fn integers_are_combined_as_in_c() {
        let kind = Kind::Integer(Number::I32);
        let of = |operator, left: i32, right: i32| {
            i32::from_ne_bytes(combined(operator, kind, left.to_ne_bytes(), right.to_ne_bytes()))
        };
        for (operator, expected) in [
            (Operator::Max, 6),
            (Operator::Min, -4),
            (Operator::Sum, 2),
            (Operator::Product, -24),
            (Operator::LogicalAnd, 1),
            (Operator::LogicalOr, 1),
            (Operator::LogicalXor, 0),
            (Operator::BitwiseAnd, -4 & 6),
            (Operator::BitwiseOr, -4 | 6),
            (Operator::BitwiseXor, -4 ^ 6),
        ] {
            assert_eq!(of(operator, -4, 6), expected, "{operator:?}");
        }
        assert_eq!(of(Operator::Sum, i32::MAX, 1), i32::MIN);
        assert_eq!(of(Operator::LogicalAnd, 2, 0), 0);
    }

    #[test]
    fn unsigned_integers_have_no_sign() {
        let kind = Kind::Integer(Number::U16);
        let largest = combined(Operator::Max, kind, u16::MAX.to_ne_bytes(), 1u16.to_ne_bytes());
        assert_eq!(u16::from_ne_bytes(largest), u16::MAX);
    }

    #[test]
    fn reals_are_combined_element_by_element() {
        let kind = Kind::Real(Some(Number::F32));
        let bytes = |numbers: [f32; 2]| -> [u8; 8] {
            std::array::from_fn(|at| numbers[at / 4].to_ne_bytes()[at % 4])
        };
        let (left, right) = (bytes([1.5, -2.0]), bytes([0.25, 8.0]));
        assert_eq!(combined(Operator::Sum, kind, left, right), bytes([1.75, 6.0]));
        assert_eq!(combined(Operator::Product, kind, left, right), bytes([0.375, -16.0]));
        assert_eq!(combined(Operator::Max, kind, left, right), bytes([1.5, 8.0]));
        assert_eq!(combined(Operator::Min, kind, left, right), bytes([0.25, -2.0]));
    }

    /// As with an Open MPI whose Fortran compiler was called with `-fdefault-integer-8` and `-fdefault-real-8`.
    #[test]
    fn elements_are_as_long_as_mpi_says() {
        let real = |number| Kind::Real(Some(number));
        for (listed, size, found) in [
            (Kind::Integer(Number::I32), 4, Some(Kind::Integer(Number::I32))),
            (Kind::Integer(Number::I32), 8, Some(Kind::Integer(Number::I64))),
            (Kind::Integer(Number::U64), 4, Some(Kind::Integer(Number::U32))),
            (Kind::Integer(Number::I32), 16, None),
            (real(Number::F32), 8, Some(real(Number::F64))),
            (real(Number::F64), 16, None),
            (real(Number::F32), 2, None),
            (Kind::Real(None), 16, Some(Kind::Real(None))),
            (Kind::Real(None), 8, None),
            (Kind::Complex { width: 8 }, 16, Some(Kind::Complex { width: 16 })),
            (Kind::Complex { width: 16 }, 24, None),
            (Kind::Logical { width: 4 }, 8, Some(Kind::Logical { width: 8 })),
            (Kind::Text { width: 1 }, 4, None),
            (Kind::Byte, 2, None),
            // One that this MPI was built without.
            (Kind::Integer(Number::I32), 0, None),
            // Those have gaps, and MPI is asked for each.
            (Kind::Pair, 16, Some(Kind::Pair)),
            (Kind::Null, 0, Some(Kind::Null)),
        ] {
            assert_eq!(listed.of_size(size), found, "{listed:?} of {size} bytes");
            let width = found.and_then(Kind::width);
            assert!(width.is_none_or(|width| width == size), "{listed:?} of {size} bytes: {width:?}");
        }
    }

    #[test]
    fn what_mpi_does_not_have_is_not_taken() {
        let real = Kind::Real(Some(Number::F64));
        assert!(native(Operator::BitwiseAnd, real).is_none());
        for (operator, kind, is_there) in [
            (Operator::BitwiseAnd, real, false),
            (Operator::BitwiseAnd, Kind::Byte, true),
            (Operator::Sum, Kind::Byte, false),
            (Operator::Sum, Kind::Complex { width: 8 }, true),
            (Operator::Max, Kind::Complex { width: 8 }, false),
            (Operator::MinimumAndPlace, Kind::Pair, true),
            (Operator::Sum, Kind::Text { width: 1 }, false),
            (Operator::Other, Kind::Integer(Number::I32), false),
            (Operator::Max, Kind::Null, false),
        ] {
            assert_eq!(operator.is_for(kind), is_there, "{operator:?} of {kind:?}");
        }
    }
}
