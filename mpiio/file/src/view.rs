//! Which bytes of a file a rank sees, and how they are represented.

use std::ffi::{CStr, CString};

use mpi::datatype::DatatypeRef;
use mpi::datatype::traits::Datatype;
use mpi::raw::AsRaw;

use crate::Offset;
use crate::error::Error;
use crate::file::File;
use crate::hints::Hints;
use crate::sys::{ViewDatatype, borrowed};

/// A view to be set: of elements, in the pieces that the filetype has, one filetype after the other.
///
/// ```no_run
/// # use mpi::traits::*;
/// # fn main() -> Result<(), svmio_file::Error> {
/// # let universe = mpi::initialize().unwrap();
/// # let file = svmio_file::File::create(&universe.world(), "svm:/a")?;
/// use mpi::datatype::UserDatatype;
/// use svmio_file::{Representation, View};
///
/// let number = f64::equivalent_datatype();
/// let every_fourth = UserDatatype::vector(100, 1, 4, &number);
/// file.set_view(&View::of(&number).from_byte(64).through(&every_fourth).as_of(Representation::External32))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct View<'d> {
    displacement: Offset,
    etype: DatatypeRef<'d>,
    filetype: DatatypeRef<'d>,
    representation: Representation,
    hints: Hints,
}

impl<'d> View<'d> {
    /// All of the file, as elements one after the other, in the machine's own representation.
    pub fn of<D: Datatype>(etype: &'d D) -> Self {
        let etype = borrowed(etype);
        Self {
            displacement: 0,
            filetype: etype,
            etype,
            representation: Representation::Native,
            hints: Hints::new(),
        }
    }

    /// From this byte of the file on.
    #[must_use]
    pub fn from_byte(mut self, displacement: Offset) -> Self {
        self.displacement = displacement;
        self
    }

    /// Only the pieces that this datatype has, which is made of whole etypes.
    #[must_use]
    pub fn through<D: Datatype>(mut self, filetype: &'d D) -> Self {
        self.filetype = borrowed(filetype);
        self
    }

    /// In this representation.
    #[must_use]
    pub fn as_of(mut self, representation: Representation) -> Self {
        self.representation = representation;
        self
    }

    /// With these hints.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self
    }
}

/// How data is represented in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Representation {
    /// As in memory.
    Native,
    /// As the MPI likes it, for itself.
    Internal,
    /// The same on all machines: MPI's own, big-endian.
    External32,
    /// One that the program has registered with its MPI (`MPI_Register_datarep`, by [`mpi::ffi`]), by its name; `svm:` files
    /// have none.
    Registered(CString),
}

impl Representation {
    fn name(&self) -> &CStr {
        match self {
            Self::Native => c"native",
            Self::Internal => c"internal",
            Self::External32 => c"external32",
            Self::Registered(name) => name,
        }
    }

    fn of_name(name: CString) -> Self {
        let known = [Self::Native, Self::Internal, Self::External32];
        known.into_iter().find(|known| known.name() == name.as_c_str()).unwrap_or(Self::Registered(name))
    }
}

/// The view that is set.
#[derive(Debug)]
pub struct CurrentView {
    /// At which byte of the file it begins.
    pub displacement: Offset,
    /// Its elements.
    pub etype: ViewDatatype,
    /// Its pieces.
    pub filetype: ViewDatatype,
    /// How its data is represented.
    pub representation: Representation,
}

impl File {
    /// Sets this rank's view, together with all ranks; all pointers stand at its beginning then.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn set_view(&self, view: &View<'_>) -> Result<(), Error> {
        let types = (view.etype.as_raw(), view.filetype.as_raw());
        let representation = view.representation.name();
        self.told(
            view.hints
                .to_info()
                .and_then(|info| self.handle().set_view(view.displacement, types, representation, &info)),
        )
    }

    /// This rank's view.
    ///
    /// # Errors
    /// What MPI says of it.
    pub fn view(&self) -> Result<CurrentView, Error> {
        let raw = self.told(self.handle().view())?;
        Ok(CurrentView {
            displacement: raw.displacement,
            etype: raw.etype,
            filetype: raw.filetype,
            representation: Representation::of_name(raw.representation),
        })
    }
}
