//! The functions that adapters call.

use std::ffi::{c_int, c_void};

use svmio_adio::abi::{Comm, Datatype, Op, Request, SUCCESS};
use svmio_adio::{ErrorClass, Failure};
use svmio_collectives::executor;

use crate::background::{self, Begun};
use crate::call::background::Start;
use crate::call::{Call, Combined, Datatypes, Divided, Received, Sent};
use crate::counting;
use crate::counts::Count;
use crate::error::Error;
use crate::family::Family;
use crate::kept::{self, Seat, Way};
use crate::setting::Collective;

/// Whether a call was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a call that was not taken is MPI's to do"]
pub enum Taken {
    /// It is done; with this error code of MPI's, which is not reported yet.
    Done(c_int),
    /// It is not, and nothing was done: MPI's own function is to be called.
    NotMine,
}

/// Forms the group of `MPI_COMM_WORLD`. To be called by all processes of it, after `MPI_Init` or not at all.
pub fn begin<A: Family>() {
    if let Some(stock) = kept::stock::<A>() {
        // Whether there is one, each call will see.
        let _ = kept::with::<A, ()>(stock.communicators.world, Way::Waiting, |_| ());
    }
}

/// Has the error handler of `comm` deal with `code`, and returns it.
pub fn report<A: Family>(comm: Comm<A>, code: c_int) -> c_int {
    if code != SUCCESS
        && let Some(stock) = kept::stock::<A>()
    {
        stock.call_handler(comm, code);
    }
    code
}

/// Has a member of the group of `comm` do its part by `body`, if svmio does this collective there.
#[inline]
fn taken<A: Family>(
    collective: Collective,
    comm: Comm<A>,
    body: impl FnOnce(Call<'_, A>) -> Result<bool, Error>,
) -> Taken {
    let outcome = kept::with::<A, Option<Taken>>(comm, Way::Waiting, |kept| {
        let stock = A::stock().get().filter(|_| !kept.leaves(collective))?;
        let mut seat = kept.seat();
        match &mut *seat {
            Seat::Taken(group, _) => {
                let before = group.operations();
                match body(Call { stock, group }) {
                    Ok(true) => Some(Taken::Done(SUCCESS)),
                    Ok(false) => None,
                    // This member has done its part, and the others need it for their next collectives.
                    Err(error) if error.is_of_mpi() && group.operations() != before => {
                        Some(Taken::Done(error.to_failure().to_code(stock.mpi)))
                    }
                    Err(error) => {
                        let failure = leave(&mut seat, collective, &error);
                        Some(Taken::Done(failure.to_code(stock.mpi)))
                    }
                }
            }
            Seat::Failed(failure) => Some(Taken::Done(failure.to_code(stock.mpi))),
            Seat::Empty => None,
        }
    });
    let taken = outcome.flatten();
    counting::count(collective, taken.is_some());
    taken.unwrap_or(Taken::NotMine)
}

/// Has a member of the group of `comm` begin its part by `body`, if svmio does this collective there, and stores its
/// request.
///
/// # Safety
/// `request` is null or valid for a write.
#[inline]
unsafe fn begun<A: Family>(
    collective: Collective,
    comm: Comm<A>,
    request: *mut Request<A>,
    body: impl FnOnce(Start<'_, A>) -> Result<Option<Box<dyn Begun>>, Error>,
) -> Taken {
    let outcome = kept::with::<A, Option<Taken>>(comm, Way::Begun, |kept| {
        let stock = A::stock().get().filter(|_| !kept.leaves(collective) && !request.is_null())?;
        let mut seat = kept.seat();
        let begun = match &mut *seat {
            Seat::Taken(group, _) => {
                match body(Start { stock, group: group.behind()?, least: kept.least() }) {
                    Ok(begun) => background::request_for(stock, collective, comm, begun?),
                    // The others begin it, and would take this member's next one for its part.
                    Err(error) => Err(leave(&mut seat, collective, &error)),
                }
            }
            Seat::Failed(failure) => Err(failure.clone()),
            Seat::Empty => return None,
        };
        Some(match begun {
            Ok(begun) => {
                // SAFETY: the caller vouches for the pointer.
                unsafe { request.write(begun) };
                Taken::Done(SUCCESS)
            }
            Err(failure) => Taken::Done(failure.to_code(stock.mpi)),
        })
    });
    let taken = outcome.flatten();
    counting::count(collective, taken.is_some());
    taken.unwrap_or(Taken::NotMine)
}

/// This member can do no more of the group's operations, of which the others hear.
#[cold]
fn leave(seat: &mut Seat, collective: Collective, error: &Error) -> Failure {
    let failure = failure_of(collective, error, "all further ones of this communicator");
    if let Seat::Taken(group, _) = seat {
        group.withdraw(error);
    }
    *seat = Seat::Failed(failure.clone());
    failure
}

/// What the program is told; `others` fail, too.
#[cold]
pub(crate) fn failure_of(collective: Collective, error: &Error, others: &str) -> Failure {
    let name = collective.name();
    let message = format!("{name} by svmio failed, as will {others}: {error}");
    let failure = Failure::new(ErrorClass::Other, message);
    match error {
        // It says more than a code of ours.
        Error::Group(executor::Error::HostCall { code, .. }) => {
            tracing::debug!("{failure}");
            failure.with_code(*code)
        }
        _ => failure,
    }
}

macro_rules! collectives {
    ($($name:ident, $mpi:literal, $collective:ident, $begin:ident, $begin_mpi:literal, $nonblocking:ident:
        ($($argument:ident: $kind:ty),*), $call:ident => $body:expr;)*) => {$(
        #[doc = concat!("`", $mpi, "`.")]
        ///
        /// # Safety
        /// The arguments are those of that function.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "they are those of MPI's functions")]
        pub unsafe fn $name<A: Family>($($argument: $kind,)* comm: Comm<A>) -> Taken {
            taken(Collective::$collective, comm, |$call: Call<'_, A>| {
                // SAFETY: the caller vouches for the arguments.
                #[allow(unused_unsafe, reason = "a barrier has no arguments to vouch for")]
                unsafe { $body }
            })
        }

        #[doc = concat!("`", $begin_mpi, "`.")]
        ///
        /// # Safety
        /// The arguments are those of that function.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "they are those of MPI's functions")]
        pub unsafe fn $begin<A: Family>(
            $($argument: $kind,)*
            comm: Comm<A>,
            request: *mut Request<A>,
        ) -> Taken {
            let body = |$call: Start<'_, A>| {
                // SAFETY: the caller vouches for the arguments.
                #[allow(unused_unsafe, reason = "a barrier has no arguments to vouch for")]
                unsafe { $body }
            };
            // SAFETY: the caller vouches for the arguments.
            unsafe { begun(Collective::$nonblocking, comm, request, body) }
        }
    )*};
}

type Bytes = *const c_void;
type Room = *mut c_void;

collectives! {
    barrier, "MPI_Barrier", Barrier, ibarrier, "MPI_Ibarrier", Ibarrier: (), call => call.barrier();
    bcast, "MPI_Bcast", Bcast, ibcast, "MPI_Ibcast", Ibcast: (buffer: Room, count: impl Count, datatype: Datatype<A>, root: c_int),
        call => call.bcast(buffer, count.into(), datatype, root);
    gather, "MPI_Gather", Gather, igather, "MPI_Igather", Igather:
        (send: Bytes, send_count: impl Count, send_type: Datatype<A>, receive: Room, receive_count: impl Count,
         receive_type: Datatype<A>, root: c_int),
        call => call.gather(
            Sent { at: send, count: send_count.into(), datatype: send_type },
            Received { at: receive, count: receive_count.into(), datatype: receive_type },
            root,
        );
    gatherv, "MPI_Gatherv", Gatherv, igatherv, "MPI_Igatherv", Igatherv:
        (send: Bytes, send_count: impl Count, send_type: Datatype<A>, receive: Room, receive_counts: *const impl Count,
         places: *const impl Count, receive_type: Datatype<A>, root: c_int),
        call => call.gatherv(
            Sent { at: send, count: send_count.into(), datatype: send_type },
            Divided { at: receive, counts: Count::numbers(receive_counts), places: Count::numbers(places), datatypes: Datatypes::One(receive_type) },
            root,
        );
    scatter, "MPI_Scatter", Scatter, iscatter, "MPI_Iscatter", Iscatter:
        (send: Bytes, send_count: impl Count, send_type: Datatype<A>, receive: Room, receive_count: impl Count,
         receive_type: Datatype<A>, root: c_int),
        call => call.scatter(
            Sent { at: send, count: send_count.into(), datatype: send_type },
            Received { at: receive, count: receive_count.into(), datatype: receive_type },
            root,
        );
    scatterv, "MPI_Scatterv", Scatterv, iscatterv, "MPI_Iscatterv", Iscatterv:
        (send: Bytes, send_counts: *const impl Count, places: *const impl Count, send_type: Datatype<A>, receive: Room,
         receive_count: impl Count, receive_type: Datatype<A>, root: c_int),
        call => call.scatterv(
            Divided { at: send, counts: Count::numbers(send_counts), places: Count::numbers(places), datatypes: Datatypes::One(send_type) },
            Received { at: receive, count: receive_count.into(), datatype: receive_type },
            root,
        );
    allgather, "MPI_Allgather", Allgather, iallgather, "MPI_Iallgather", Iallgather:
        (send: Bytes, send_count: impl Count, send_type: Datatype<A>, receive: Room, receive_count: impl Count,
         receive_type: Datatype<A>),
        call => call.allgather(
            Sent { at: send, count: send_count.into(), datatype: send_type },
            Received { at: receive, count: receive_count.into(), datatype: receive_type },
        );
    allgatherv, "MPI_Allgatherv", Allgatherv, iallgatherv, "MPI_Iallgatherv", Iallgatherv:
        (send: Bytes, send_count: impl Count, send_type: Datatype<A>, receive: Room, receive_counts: *const impl Count,
         places: *const impl Count, receive_type: Datatype<A>),
        call => call.allgatherv(
            Sent { at: send, count: send_count.into(), datatype: send_type },
            Divided { at: receive, counts: Count::numbers(receive_counts), places: Count::numbers(places), datatypes: Datatypes::One(receive_type) },
        );
    alltoall, "MPI_Alltoall", Alltoall, ialltoall, "MPI_Ialltoall", Ialltoall:
        (send: Bytes, send_count: impl Count, send_type: Datatype<A>, receive: Room, receive_count: impl Count,
         receive_type: Datatype<A>),
        call => call.alltoall(
            Sent { at: send, count: send_count.into(), datatype: send_type },
            Received { at: receive, count: receive_count.into(), datatype: receive_type },
        );
    alltoallv, "MPI_Alltoallv", Alltoallv, ialltoallv, "MPI_Ialltoallv", Ialltoallv:
        (send: Bytes, send_counts: *const impl Count, send_places: *const impl Count, send_type: Datatype<A>, receive: Room,
         receive_counts: *const impl Count, receive_places: *const impl Count, receive_type: Datatype<A>),
        call => call.alltoallv(
            Divided { at: send, counts: Count::numbers(send_counts), places: Count::numbers(send_places), datatypes: Datatypes::One(send_type) },
            Divided {
                at: receive,
                counts: Count::numbers(receive_counts),
                places: Count::numbers(receive_places),
                datatypes: Datatypes::One(receive_type),
            },
        );
    alltoallw, "MPI_Alltoallw", Alltoallw, ialltoallw, "MPI_Ialltoallw", Ialltoallw:
        (send: Bytes, send_counts: *const impl Count, send_places: *const impl Count, send_types: *const Datatype<A>, receive: Room,
         receive_counts: *const impl Count, receive_places: *const impl Count, receive_types: *const Datatype<A>),
        call => call.alltoallv(
            Divided { at: send, counts: Count::numbers(send_counts), places: Count::numbers(send_places), datatypes: Datatypes::Each(send_types) },
            Divided {
                at: receive,
                counts: Count::numbers(receive_counts),
                places: Count::numbers(receive_places),
                datatypes: Datatypes::Each(receive_types),
            },
        );
    reduce, "MPI_Reduce", Reduce, ireduce, "MPI_Ireduce", Ireduce:
        (send: Bytes, receive: Room, count: impl Count, datatype: Datatype<A>, op: Op<A>, root: c_int),
        call => call.reduce(Combined { send, receive, datatype, op }, count.into(), root);
    allreduce, "MPI_Allreduce", Allreduce, iallreduce, "MPI_Iallreduce", Iallreduce:
        (send: Bytes, receive: Room, count: impl Count, datatype: Datatype<A>, op: Op<A>),
        call => call.allreduce(Combined { send, receive, datatype, op }, count.into());
    reduce_scatter, "MPI_Reduce_scatter", ReduceScatter, ireduce_scatter, "MPI_Ireduce_scatter", IreduceScatter:
        (send: Bytes, receive: Room, counts: *const impl Count, datatype: Datatype<A>, op: Op<A>),
        call => {
            let numbers = Count::numbers(counts).all(call.group.size());
            // No counts are wrong, which MPI says.
            let counts: Vec<i64> = numbers.map_or_else(|| vec![-1], Iterator::collect);
            call.reduce_scatter(Combined { send, receive, datatype, op }, &counts)
        };
    reduce_scatter_block, "MPI_Reduce_scatter_block", ReduceScatterBlock, ireduce_scatter_block, "MPI_Ireduce_scatter_block", IreduceScatterBlock:
        (send: Bytes, receive: Room, count: impl Count, datatype: Datatype<A>, op: Op<A>),
        call => {
            let counts = vec![count.into(); call.group.size()];
            call.reduce_scatter(Combined { send, receive, datatype, op }, &counts)
        };
    scan, "MPI_Scan", Scan, iscan, "MPI_Iscan", Iscan: (send: Bytes, receive: Room, count: impl Count, datatype: Datatype<A>, op: Op<A>),
        call => call.scan(Combined { send, receive, datatype, op }, count.into());
    exscan, "MPI_Exscan", Exscan, iexscan, "MPI_Iexscan", Iexscan: (send: Bytes, receive: Room, count: impl Count, datatype: Datatype<A>, op: Op<A>),
        call => call.exscan(Combined { send, receive, datatype, op }, count.into());
}
