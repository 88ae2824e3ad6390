//! Setting a view without ROMIO's own flattening of its types.
//!
//! ROMIO makes a list of all pieces of an etype and a file type when a view is set: megabytes for a vector of a million
//! blocks. Its releases also refuse types that are right, and the older ones write beyond their list for some, those
//! without data among them. The device needs no such list. So ROMIO is given a simple type of the same kind for the
//! time of the call, and the program's own one is put in its place then. But for file types in sequential mode: ROMIO
//! has to find by them where the next view begins.
//!
//! What MPI forbids about a view is found out before ([`prepare`]), and told to all ranks: ROMIO finds it when the view
//! of before is gone already, and on some ranks alone.

use std::ffi::{CStr, c_int};
use std::sync::PoisonError;

use crate::abi::{Abi, DISPLACEMENT_CURRENT, Datatype, SUCCESS, amode};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::flatten::{self, Cursor, Runs, Shape};
use crate::handle;
use crate::layout::RomioFile;
use crate::pointer;
use crate::representation::Representation;
use crate::shared_pointer;

/// Before the ranks of the file `fd` set a view, this one from `displacement` on, with data in the `representation` of
/// that name: whether all of them may, and are there, as far as this one knows, and none at an earlier access. All know
/// how long the file is then.
///
/// # Errors
/// `MPI_ERR_ARG` where MPI forbids the view of a rank, `MPI_ERR_UNSUPPORTED_DATAREP`, that a rank is lost: on all of
/// them.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, every rank of the file makes the same call, and the datatypes
/// are the program's.
pub unsafe fn prepare<A: Abi>(
    mpi: &Mpi<A>,
    fd: *const RomioFile<A>,
    displacement: i64,
    types: (Datatype<A>, Datatype<A>),
    representation: Option<&CStr>,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let Ok(handle) = handle::of(fd) else { return Ok(()) };
    let mine = permitted(mpi, fd, displacement, types).and_then(|()| is_known(fd, representation));
    // Agreed upon, so that no rank goes into ROMIO's waits from which another stays away.
    match handle.company() {
        Some(_) => {
            handle.asking.resume();
            handle.team.end_of_write(&handle.file, mine)
        }
        None => {
            handle.begin_change()?;
            handle.team.agree(mine)
        }
    }
}

/// Whether MPI permits such a view.
fn permitted<A: Abi>(
    mpi: &Mpi<A>,
    fd: &RomioFile<A>,
    displacement: i64,
    (etype, filetype): (Datatype<A>, Datatype<A>),
) -> Result<(), Failure> {
    let refused_as = |class: ErrorClass, what: &str| {
        let message = format!("svm:{}: no view: {what}", fd.name().to_string_lossy());
        Err(Failure::new(class, message))
    };
    let refused = |what: &str| refused_as(ErrorClass::Argument, what);
    // Asking for the size of what is no type would end the job.
    if [etype, filetype].iter().any(|datatype| datatype.0 == mpi.constants.datatype_null.0) {
        return refused("the etype or the file type is MPI_DATATYPE_NULL");
    }
    if ![etype, filetype].iter().all(|datatype| mpi.is_committed(*datatype)) {
        return refused("the etype or the file type is not committed");
    }
    match fd.is_sequential() {
        true if displacement != DISPLACEMENT_CURRENT => {
            return refused(&format!(
                "the displacement, {displacement}, is not MPI_DISPLACEMENT_CURRENT, in sequential mode"
            ));
        }
        false if displacement < 0 => {
            return refused(&format!("the displacement, {displacement}, is negative"));
        }
        _ => {}
    }
    let (unit, bytes) = (mpi.type_size(etype), mpi.type_size(filetype));
    if bytes != 0 && bytes.checked_rem(unit) != Some(0) {
        return refused(&format!("{bytes} bytes of a file type are no multiple of {unit} bytes of an etype"));
    }
    // ROMIO gets it as it is then, and ends the job, as it does not know how such types are made.
    if fd.is_sequential() && mpi.is_predefined(filetype) && !flatten::is_elementary(mpi, filetype) {
        return refused_as(
            ErrorClass::Unsupported,
            "in sequential mode ROMIO takes no predefined file type with gaps, as MPI_DOUBLE_INT: one of the same \
             parts that MPI_Type_create_struct makes will do",
        );
    }
    let is_written = fd.orig_access_mode & (amode::WRONLY | amode::RDWR) != 0;
    for (kind, datatype) in [("etype", etype), ("file type", filetype)] {
        // The accesses tell which types cannot be used, and why.
        let Ok(shape) = flatten::of(mpi, datatype) else { continue };
        if let Some(fault) = fault(&shape, mpi.extent(datatype), is_written) {
            // The class that MPICH's own tests ask for.
            return refused_as(ErrorClass::Io, &format!("the {kind} has {fault}"));
        }
    }
    Ok(())
}

/// Whether ROMIO knows data in the `representation` of that name.
fn is_known<A: Abi>(fd: &RomioFile<A>, representation: Option<&CStr>) -> Result<(), Failure> {
    if representation.and_then(Representation::named).is_some() {
        return Ok(());
    }
    let named = representation.map_or("NULL".into(), CStr::to_string_lossy);
    let message = format!(
        "svm:{}: no view: the data representation is '{named}', not native, internal or external32",
        fd.name().to_string_lossy()
    );
    Err(Failure::new(ErrorClass::UnsupportedRepresentation, message))
}

/// What MPI forbids about the etypes and file types of a file that is written, or only read.
fn fault(shape: &Shape, extent: i64, is_written: bool) -> Option<&'static str> {
    if shape.bytes() == 0 {
        return None;
    }
    if shape.bounds().0 < 0 {
        return Some("data at a negative displacement");
    }
    if extent < 0 {
        return Some("a negative extent, so that the next one lies before it");
    }
    if shape.is_ascending() {
        return None;
    }
    if !never_goes_back(shape) {
        return Some("data that lies before what precedes it");
    }
    is_written.then_some("the same bytes more than once, and the file is open for writing")
}

/// Whether no run of bytes begins before the one that precedes it.
fn never_goes_back(shape: &Shape) -> bool {
    let (mut cursor, mut left, mut last) = (Cursor::at(shape, 0), shape.bytes(), i64::MIN);
    while left > 0 {
        let Runs { at, length, stride, count } = cursor.ahead();
        if at < last || (count > 1 && stride < 0) {
            return false;
        }
        last = at + stride * (count - 1);
        left -= length * count;
        cursor.advance(length * count);
    }
    true
}

/// `MPI_File_set_view` by `stock`, which is given the etype and the file type to use, with data in the `representation`
/// of that name; within [`replacing`].
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and the datatypes are the program's.
pub unsafe fn set_view<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    (etype, filetype): (Datatype<A>, Datatype<A>),
    representation: Option<&CStr>,
    stock: impl FnOnce(Datatype<A>, Datatype<A>) -> c_int,
) -> c_int {
    // ROMIO divides by it, also where an etype has no data: it is given one of a byte then.
    let unit = mpi.type_size(etype).max(1);
    let gap_in_etype = (!flatten::is_elementary(mpi, etype)).then_some(0);
    // SAFETY: the caller vouches for the file.
    let gap = gap_in(mpi, unsafe { &*fd }, filetype);
    // All that may fail comes before, so that no rank fails alone in what all do together.
    let substitutes = [(etype, gap_in_etype), (filetype, gap)].map(|(datatype, gap)| {
        let simple = mpi.datatype_with_gap(unit, gap?).ok()?;
        let own = held_by_view(mpi, datatype).inspect_err(|_| mpi.free_datatype(simple)).ok()?;
        Some(Substitute { simple, own })
    });
    let given = |substitute: Option<Substitute<A>>, datatype| substitute.map_or(datatype, |to| to.simple);
    let given = [given(substitutes[0], etype), given(substitutes[1], filetype)];
    // SAFETY: the caller vouches for the file.
    let before = Held::of(mpi, unsafe { &mut *fd });
    let outcome = stock(given[0], given[1]);
    // Also where it is refused: the view of before is in force then, of whose representation ROMIO has not heard.
    // SAFETY: the caller vouches for the file.
    unsafe { &mut *fd }.hide_external32();
    let code = match outcome {
        // SAFETY: as above.
        SUCCESS if before.is_still_there(mpi, unsafe { &mut *fd }, given) => {
            // SAFETY: as above.
            let name = unsafe { &*fd }.name().to_string_lossy();
            let message = format!("svm:{name}: no view: MPI refuses it");
            Failure::new(ErrorClass::Other, message).to_code(mpi)
        }
        code => code,
    };
    for substitute in substitutes.iter().flatten() {
        mpi.free_datatype(substitute.simple);
        if code != SUCCESS {
            let_go(mpi, substitute.own);
        }
    }
    if code != SUCCESS {
        return code;
    }
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &mut *fd };
    let [of_etype, of_filetype] = fd.types();
    let replace = |place, by: Option<Substitute<A>>| by.map(|by| std::mem::replace(place, by.own));
    let romios: Romios<A> = [replace(of_etype, substitutes[0]), replace(of_filetype, substitutes[1])];
    let representation = representation.and_then(Representation::named).unwrap_or(Representation::Native);
    if let Ok(handle) = handle::of(fd) {
        *handle.replaced.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(romios));
        handle.representation.set(representation);
    }
    if substitutes[1].is_some()
        && let Err(failure) = pointer::seek(mpi, fd, 0)
    {
        // So will each access, for the same reason.
        tracing::debug!("{}", failure.message);
    }
    code
}

/// The name of the representation that the view of the file `fd` has, if ROMIO has not heard of it.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn hidden_representation<A: Abi>(fd: *const RomioFile<A>) -> Option<&'static CStr> {
    // SAFETY: the caller vouches for the file.
    let handle = handle::of(unsafe { &*fd }).ok()?;
    let representation = handle.representation.get();
    (representation != Representation::Native).then(|| representation.name())
}

/// The etype and the file type that ROMIO has, and whether they are predefined ones. MPICH 5 returns success for a view
/// that it refuses where a handler of the program's has been called: that shows by these types.
struct Held<A: Abi>([(Datatype<A>, bool); 2]);

impl<A: Abi> Held<A> {
    fn of(mpi: &Mpi<A>, fd: &mut RomioFile<A>) -> Held<A> {
        Held(fd.types().map(|datatype| {
            let is_predefined = mpi.is_predefined(*datatype);
            if !is_predefined {
                // By its shape it is known again: another type may be given the same handle when ROMIO has freed it.
                let _ = flatten::of(mpi, *datatype);
            }
            (*datatype, is_predefined)
        }))
    }

    /// Whether ROMIO still has them, although it was given others, or copies of which it makes its own.
    fn is_still_there(&self, mpi: &Mpi<A>, fd: &mut RomioFile<A>, given: [Datatype<A>; 2]) -> bool {
        let mut tells = false;
        for (((held, is_predefined), has), given) in self.0.into_iter().zip(fd.types()).zip(given) {
            if has.0 != held.0 || !(is_predefined || flatten::is_kept(mpi, held)) {
                return false;
            }
            tells |= !is_predefined || given.0 != held.0;
        }
        tells
    }
}

/// A handle of `datatype` that lasts as long as a view, until [`let_go`]: of a predefined type its only one, which
/// programs are to find again in the view.
fn held_by_view<A: Abi>(mpi: &Mpi<A>, datatype: Datatype<A>) -> Result<Datatype<A>, Failure> {
    if mpi.is_predefined(datatype) {
        return Ok(datatype);
    }
    mpi.duplicate(datatype).inspect(|own| flatten::share(mpi, datatype, *own))
}

/// Gives up what [`held_by_view`] returned.
fn let_go<A: Abi>(mpi: &Mpi<A>, own: Datatype<A>) {
    if !mpi.is_predefined(own) {
        mpi.free_datatype(own);
    }
}

/// What ROMIO gets in the place of a type of the program's, and what takes that place then: a handle of it.
#[derive(Debug, Clone, Copy)]
struct Substitute<A: Abi> {
    simple: Datatype<A>,
    own: Datatype<A>,
}

/// ROMIO's etype and file type, where the program's own one stands in for it.
type Romios<A> = [Option<Datatype<A>>; 2];

/// A view for which ROMIO was given its own types again: what the device had in their place.
#[derive(Debug)]
#[must_use]
pub struct PutBack<A: Abi> {
    /// The program's etype, and ROMIO's; and the same of the file type.
    types: [Option<(Datatype<A>, Datatype<A>)>; 2],
    pointer: Option<(i64, i64)>,
}

/// Before ROMIO gives up the view of the file `fd`, or refuses to: it finds its own copies of the etype and the file
/// type, to which its lists of pieces belong. [`finish`] has to follow.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's.
pub unsafe fn put_back<A: Abi>(fd: *mut RomioFile<A>) -> PutBack<A> {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &mut *fd };
    let Ok(handle) = handle::of(fd) else { return PutBack { types: [None; 2], pointer: None } };
    let pointer = handle.take_pointer();
    let romios = handle.replaced.lock().unwrap_or_else(PoisonError::into_inner).take();
    let romios = romios.and_then(|romios| romios.downcast::<Romios<A>>().ok());
    let [etype, filetype] = romios.map_or([None; 2], |romios| *romios);
    let [of_etype, of_filetype] = fd.types();
    let put = |place, romios: Option<_>| romios.map(|romios| (std::mem::replace(place, romios), romios));
    PutBack { types: [put(of_etype, etype), put(of_filetype, filetype)], pointer }
}

/// `MPI_File_set_view` by `set`, which calls [`set_view`]; where ROMIO refuses the new view, the one before
/// stays in force as it was.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, of which nobody has references.
pub unsafe fn replacing<A: Abi>(mpi: &Mpi<A>, fd: *mut RomioFile<A>, set: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    let before = unsafe { put_back(fd) };
    // SAFETY: as above.
    let is_sequential = unsafe { &*fd }.is_sequential();
    // In that mode ROMIO asks for the shared pointer, on all ranks.
    let code = if is_sequential { shared_pointer::asking(set) } else { set() };
    // SAFETY: as above.
    unsafe {
        match code {
            SUCCESS => finish(mpi, before),
            _ => restore(mpi, &mut *fd, before),
        }
    }
    code
}

/// After ROMIO has given up a view.
pub fn finish<A: Abi>(mpi: &Mpi<A>, before: PutBack<A>) {
    for (own, _) in before.types.into_iter().flatten() {
        let_go(mpi, own);
    }
}

/// After ROMIO has refused a view: that of before is in force again, unless ROMIO itself has not kept it.
fn restore<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>, before: PutBack<A>) {
    let is_there = |place: &Datatype<A>, types: Option<(Datatype<A>, Datatype<A>)>| {
        types.is_none_or(|(_, romios)| place.0 == romios.0 && flatten::is_kept(mpi, romios))
    };
    if !fd.types().into_iter().zip(before.types).all(|(place, types)| is_there(place, types)) {
        return finish(mpi, before);
    }
    for (place, types) in fd.types().into_iter().zip(before.types) {
        if let Some((own, _)) = types {
            *place = own;
        }
    }
    if let Ok(handle) = handle::of(fd) {
        handle.note_pointer(before.pointer);
        let romios: Romios<A> = before.types.map(|types| types.map(|(_, romios)| romios));
        *handle.replaced.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(romios));
    }
}

/// The gap that a simple type of the same kind has, bytes. ROMIO gets predefined types without gaps as they are, those
/// that cannot be used and, in sequential mode, all with data: it finds by the program's own where the next view begins.
fn gap_in<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, filetype: Datatype<A>) -> Option<isize> {
    let bytes = mpi.type_size(filetype);
    if flatten::is_elementary(mpi, filetype) || (fd.is_sequential() && bytes != 0) {
        return None;
    }
    let shape = flatten::of(mpi, filetype).ok()?;
    let has_gaps =
        bytes == 0 || !shape.is_run() || shape.bounds().0 != 0 || mpi.extent(filetype) != shape.bytes();
    Some(has_gaps.into())
}
