//! MPICH's: numbers of `mpi.h` of MPICH 4.0.2, which 5.0 keeps.

use std::ffi::c_int;
use std::sync::OnceLock;

use svmio_adio::abi::mpich::Mpich;
use svmio_adio::abi::{Comm, Datatype, Errhandler, Op};
use svmio_adio::library::{Library, SymbolError};

use super::{Communicators, Family};
use crate::operator::{Kind, Number, Operator};
use crate::stock::Stock;

impl Family for Mpich {
    /// -1.
    const IN_PLACE: usize = usize::MAX;
    /// In their second byte.
    const HANDLES_HAVE_SIZES: bool = true;

    fn communicators(_: &Library) -> Result<Communicators<Mpich>, SymbolError> {
        Ok(Communicators {
            world: Comm(0x4400_0000),
            own: Comm(0x4400_0001),
            null: Comm(0x0400_0000),
            errors_return: Errhandler(0x5400_0001),
            errors_are_fatal: Errhandler(0x5400_0000),
        })
    }

    fn kinds(_: &Library) -> Vec<(Datatype<Mpich>, Kind)> {
        KINDS.iter().map(|&(handle, kind)| (Datatype(handle.cast_signed()), kind)).collect()
    }

    fn operators(_: &Library) -> Vec<(Op<Mpich>, Operator)> {
        let named =
            Operator::NAMED.into_iter().zip(0x5800_0001..).map(|(operator, handle)| (Op(handle), operator));
        // MPI_OP_NULL, MPI_REPLACE, MPI_NO_OP, MPIX_EQUAL.
        let others = [0x1800_0000, 0x5800_000d, 0x5800_000e, 0x5800_000f];
        named.chain(others.map(|handle| (Op(handle), Operator::Other))).collect()
    }

    fn tag(status: &[c_int; 5]) -> c_int {
        // Two words of the count, the source, the tag, the error.
        status[3]
    }

    fn stock() -> &'static OnceLock<Stock<Mpich>> {
        static STOCK: OnceLock<Stock<Mpich>> = OnceLock::new();
        &STOCK
    }
}

/// The most common ones first: they are looked for in this order. The second byte of a handle is the size.
const KINDS: [(u32, Kind); 57] = [
    (0x4c00_080b, Kind::Real(Some(Number::F64))), // MPI_DOUBLE
    (0x4c00_0405, Kind::Integer(Number::I32)),    // MPI_INT
    (0x4c00_010d, Kind::Byte),                    // MPI_BYTE
    (0x4c00_0101, Kind::Text { width: 1 }),       // MPI_CHAR
    (0x4c00_040a, Kind::Real(Some(Number::F32))), // MPI_FLOAT
    (0x4c00_0807, Kind::Integer(Number::I64)),    // MPI_LONG
    (0x4c00_0808, Kind::Integer(Number::U64)),    // MPI_UNSIGNED_LONG
    (0x4c00_0809, Kind::Integer(Number::I64)),    // MPI_LONG_LONG_INT
    (0x4c00_0819, Kind::Integer(Number::U64)),    // MPI_UNSIGNED_LONG_LONG
    (0x4c00_083a, Kind::Integer(Number::I64)),    // MPI_INT64_T
    (0x4c00_083e, Kind::Integer(Number::U64)),    // MPI_UINT64_T
    (0x4c00_0406, Kind::Integer(Number::U32)),    // MPI_UNSIGNED
    (0x4c00_081f, Kind::Real(Some(Number::F64))), // MPI_DOUBLE_PRECISION
    (0x4c00_041b, Kind::Integer(Number::I32)),    // MPI_INTEGER
    (0x4c00_041c, Kind::Real(Some(Number::F32))), // MPI_REAL
    (0x4c00_0439, Kind::Integer(Number::I32)),    // MPI_INT32_T
    (0x4c00_043d, Kind::Integer(Number::U32)),    // MPI_UINT32_T
    (0x4c00_0118, Kind::Integer(Number::I8)),     // MPI_SIGNED_CHAR
    (0x4c00_0102, Kind::Integer(Number::U8)),     // MPI_UNSIGNED_CHAR
    (0x4c00_0203, Kind::Integer(Number::I16)),    // MPI_SHORT
    (0x4c00_0204, Kind::Integer(Number::U16)),    // MPI_UNSIGNED_SHORT
    (0x4c00_0137, Kind::Integer(Number::I8)),     // MPI_INT8_T
    (0x4c00_0238, Kind::Integer(Number::I16)),    // MPI_INT16_T
    (0x4c00_013b, Kind::Integer(Number::U8)),     // MPI_UINT8_T
    (0x4c00_023c, Kind::Integer(Number::U16)),    // MPI_UINT16_T
    (0x4c00_0843, Kind::Integer(Number::I64)),    // MPI_AINT
    (0x4c00_0844, Kind::Integer(Number::I64)),    // MPI_OFFSET
    (0x4c00_0845, Kind::Integer(Number::I64)),    // MPI_COUNT
    (0x4c00_012d, Kind::Integer(Number::I8)),     // MPI_INTEGER1
    (0x4c00_022f, Kind::Integer(Number::I16)),    // MPI_INTEGER2
    (0x4c00_0430, Kind::Integer(Number::I32)),    // MPI_INTEGER4
    (0x4c00_0831, Kind::Integer(Number::I64)),    // MPI_INTEGER8
    (0x4c00_0427, Kind::Real(Some(Number::F32))), // MPI_REAL4
    (0x4c00_0829, Kind::Real(Some(Number::F64))), // MPI_REAL8
    (0x4c00_100c, Kind::Real(None)),              // MPI_LONG_DOUBLE
    (0x4c00_0840, Kind::Complex { width: 8 }),    // MPI_C_FLOAT_COMPLEX
    (0x4c00_1041, Kind::Complex { width: 16 }),   // MPI_C_DOUBLE_COMPLEX
    (0x4c00_2042, Kind::Complex { width: 32 }),   // MPI_C_LONG_DOUBLE_COMPLEX
    (0x4c00_081e, Kind::Complex { width: 8 }),    // MPI_COMPLEX
    (0x4c00_1022, Kind::Complex { width: 16 }),   // MPI_DOUBLE_COMPLEX
    (0x4c00_0828, Kind::Complex { width: 8 }),    // MPI_COMPLEX8
    (0x4c00_102a, Kind::Complex { width: 16 }),   // MPI_COMPLEX16
    (0x4c00_013f, Kind::Logical { width: 1 }),    // MPI_C_BOOL
    (0x4c00_041d, Kind::Logical { width: 4 }),    // MPI_LOGICAL
    (0x4c00_040e, Kind::Text { width: 4 }),       // MPI_WCHAR
    (0x4c00_011a, Kind::Text { width: 1 }),       // MPI_CHARACTER
    (0x4c00_010f, Kind::Text { width: 1 }),       // MPI_PACKED
    (0x8c00_0000, Kind::Pair),                    // MPI_FLOAT_INT
    (0x8c00_0001, Kind::Pair),                    // MPI_DOUBLE_INT
    (0x8c00_0002, Kind::Pair),                    // MPI_LONG_INT
    (0x8c00_0003, Kind::Pair),                    // MPI_SHORT_INT
    (0x8c00_0004, Kind::Pair),                    // MPI_LONG_DOUBLE_INT
    (0x4c00_0816, Kind::Pair),                    // MPI_2INT
    (0x4c00_0820, Kind::Pair),                    // MPI_2INTEGER
    (0x4c00_0821, Kind::Pair),                    // MPI_2REAL
    (0x4c00_1023, Kind::Pair),                    // MPI_2DOUBLE_PRECISION
    (0x0c00_0000, Kind::Null),                    // MPI_DATATYPE_NULL
];

#[cfg(test)]
mod tests {
    use super::{KINDS, Kind};

    #[test]
    fn kinds_are_as_long_as_their_handles_say() {
        for (handle, kind) in KINDS.iter().filter(|(_, kind)| *kind != Kind::Pair && *kind != Kind::Null) {
            assert_eq!(kind.of_size((handle >> 8 & 0xff) as usize), Some(*kind), "{handle:#x}");
        }
    }
}
