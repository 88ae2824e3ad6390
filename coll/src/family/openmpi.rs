//! Open MPI's: addresses of the variables that `mpi.h` of Open MPI 4.1.4 names, which 5.0 keeps.

use std::ffi::{CStr, c_int};
use std::sync::{Arc, OnceLock};

use svmio_adio::abi::openmpi::{OpenMpi, Status};
use svmio_adio::abi::{Comm, Datatype, Errhandler, Op, Request};
use svmio_adio::library::{Library, SymbolError};
use svmio_adio::{Background, Failure};

use super::{Communicators, Family};
use crate::operator::{Kind, Number, Operator};
use crate::stock::Stock;

impl Family for OpenMpi {
    const IN_PLACE: usize = 1;
    const HANDLES_HAVE_SIZES: bool = false;

    fn communicators(library: &Library) -> Result<Communicators<OpenMpi>, SymbolError> {
        let communicator = |name: &CStr| library.variable(name).map(|address| Comm(address as usize));
        Ok(Communicators {
            world: communicator(c"ompi_mpi_comm_world")?,
            own: communicator(c"ompi_mpi_comm_self")?,
            null: communicator(c"ompi_mpi_comm_null")?,
            errors_return: Errhandler(library.variable(c"ompi_mpi_errors_return")? as usize),
            errors_are_fatal: Errhandler(library.variable(c"ompi_mpi_errors_are_fatal")? as usize),
        })
    }

    fn kinds(library: &Library) -> Vec<(Datatype<OpenMpi>, Kind)> {
        let there =
            |&(name, kind): &(&CStr, Kind)| Some((Datatype(library.variable(name).ok()? as usize), kind));
        KINDS.iter().filter_map(there).collect()
    }

    fn operators(library: &Library) -> Vec<(Op<OpenMpi>, Operator)> {
        let others = OTHER_OPERATORS.into_iter().map(|name| (name, Operator::Other));
        let there = |(name, operator)| Some((Op(library.variable(name).ok()? as usize), operator));
        OPERATORS.into_iter().zip(Operator::NAMED).chain(others).filter_map(there).collect()
    }

    fn tag(status: &Status) -> c_int {
        status.tag()
    }

    fn is_described(datatype: Datatype<OpenMpi>) -> bool {
        crate::component::is_described(datatype.0)
    }

    fn completed_request(library: &Library) -> Option<Request<OpenMpi>> {
        library.variable(c"ompi_request_empty").ok().map(|address| Request(address as usize))
    }

    fn own_request(
        comm: Comm<OpenMpi>,
        operation: &Arc<dyn Background>,
    ) -> Option<Result<Request<OpenMpi>, Failure>> {
        crate::component::request_for(comm, operation)
    }

    fn stock() -> &'static OnceLock<Stock<OpenMpi>> {
        static STOCK: OnceLock<Stock<OpenMpi>> = OnceLock::new();
        &STOCK
    }
}

/// In the order of [`Operator::NAMED`].
const OPERATORS: [&CStr; 12] = [
    c"ompi_mpi_op_max",
    c"ompi_mpi_op_min",
    c"ompi_mpi_op_sum",
    c"ompi_mpi_op_prod",
    c"ompi_mpi_op_land",
    c"ompi_mpi_op_band",
    c"ompi_mpi_op_lor",
    c"ompi_mpi_op_bor",
    c"ompi_mpi_op_lxor",
    c"ompi_mpi_op_bxor",
    c"ompi_mpi_op_minloc",
    c"ompi_mpi_op_maxloc",
];
const OTHER_OPERATORS: [&CStr; 3] = [c"ompi_mpi_op_null", c"ompi_mpi_op_replace", c"ompi_mpi_op_no_op"];

/// The most common ones first: they are looked for in this order.
const KINDS: [(&CStr, Kind); 58] = [
    (c"ompi_mpi_double", Kind::Real(Some(Number::F64))),
    (c"ompi_mpi_int", Kind::Integer(Number::I32)),
    (c"ompi_mpi_byte", Kind::Byte),
    (c"ompi_mpi_char", Kind::Text { width: 1 }),
    (c"ompi_mpi_float", Kind::Real(Some(Number::F32))),
    (c"ompi_mpi_long", Kind::Integer(Number::I64)),
    (c"ompi_mpi_unsigned_long", Kind::Integer(Number::U64)),
    (c"ompi_mpi_long_long_int", Kind::Integer(Number::I64)),
    (c"ompi_mpi_unsigned_long_long", Kind::Integer(Number::U64)),
    (c"ompi_mpi_int64_t", Kind::Integer(Number::I64)),
    (c"ompi_mpi_uint64_t", Kind::Integer(Number::U64)),
    (c"ompi_mpi_unsigned", Kind::Integer(Number::U32)),
    (c"ompi_mpi_dblprec", Kind::Real(Some(Number::F64))),
    (c"ompi_mpi_integer", Kind::Integer(Number::I32)),
    (c"ompi_mpi_real", Kind::Real(Some(Number::F32))),
    (c"ompi_mpi_int32_t", Kind::Integer(Number::I32)),
    (c"ompi_mpi_uint32_t", Kind::Integer(Number::U32)),
    (c"ompi_mpi_signed_char", Kind::Integer(Number::I8)),
    (c"ompi_mpi_unsigned_char", Kind::Integer(Number::U8)),
    (c"ompi_mpi_short", Kind::Integer(Number::I16)),
    (c"ompi_mpi_unsigned_short", Kind::Integer(Number::U16)),
    (c"ompi_mpi_int8_t", Kind::Integer(Number::I8)),
    (c"ompi_mpi_int16_t", Kind::Integer(Number::I16)),
    (c"ompi_mpi_uint8_t", Kind::Integer(Number::U8)),
    (c"ompi_mpi_uint16_t", Kind::Integer(Number::U16)),
    (c"ompi_mpi_aint", Kind::Integer(Number::I64)),
    (c"ompi_mpi_offset", Kind::Integer(Number::I64)),
    (c"ompi_mpi_count", Kind::Integer(Number::I64)),
    (c"ompi_mpi_integer1", Kind::Integer(Number::I8)),
    (c"ompi_mpi_integer2", Kind::Integer(Number::I16)),
    (c"ompi_mpi_integer4", Kind::Integer(Number::I32)),
    (c"ompi_mpi_integer8", Kind::Integer(Number::I64)),
    (c"ompi_mpi_real4", Kind::Real(Some(Number::F32))),
    (c"ompi_mpi_real8", Kind::Real(Some(Number::F64))),
    (c"ompi_mpi_long_double", Kind::Real(None)),
    (c"ompi_mpi_c_float_complex", Kind::Complex { width: 8 }),
    (c"ompi_mpi_c_double_complex", Kind::Complex { width: 16 }),
    (c"ompi_mpi_c_long_double_complex", Kind::Complex { width: 32 }),
    (c"ompi_mpi_cplex", Kind::Complex { width: 8 }),
    (c"ompi_mpi_dblcplex", Kind::Complex { width: 16 }),
    (c"ompi_mpi_complex8", Kind::Complex { width: 8 }),
    (c"ompi_mpi_complex16", Kind::Complex { width: 16 }),
    (c"ompi_mpi_c_bool", Kind::Logical { width: 1 }),
    (c"ompi_mpi_cxx_bool", Kind::Logical { width: 1 }),
    (c"ompi_mpi_logical", Kind::Logical { width: 4 }),
    (c"ompi_mpi_wchar", Kind::Text { width: 4 }),
    (c"ompi_mpi_character", Kind::Text { width: 1 }),
    (c"ompi_mpi_packed", Kind::Text { width: 1 }),
    (c"ompi_mpi_float_int", Kind::Pair),
    (c"ompi_mpi_double_int", Kind::Pair),
    (c"ompi_mpi_long_int", Kind::Pair),
    (c"ompi_mpi_short_int", Kind::Pair),
    (c"ompi_mpi_longdbl_int", Kind::Pair),
    (c"ompi_mpi_2int", Kind::Pair),
    (c"ompi_mpi_2integer", Kind::Pair),
    (c"ompi_mpi_2real", Kind::Pair),
    (c"ompi_mpi_2dblprec", Kind::Pair),
    (c"ompi_mpi_datatype_null", Kind::Null),
];
