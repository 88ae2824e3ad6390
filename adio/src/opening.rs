//! Opening files.
//!
//! Rank 0 finds or makes the file and introduces it to the others, which attach it. So the name is looked up once,
//! exclusive creation works, and all ranks see the same file even if its name changes hands.

use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use svmio_svm::environment::{self, Concern};
use svmio_svm::staging::{Servers, Staging};
use svmio_svm::team::{Found, Opening, Team};
use svmio_svm::{File, FileName, OpenOptions, Placement};

use crate::abi::{Abi, Info, SUCCESS, amode};
use crate::calls::Mpi;
use crate::circle;
use crate::failure::{self, ErrorClass, Failure};
use crate::handle::{self, Handle, Role};
use crate::hints;
use crate::host::Host;
use crate::introduction::Introduction;
use crate::layout::RomioFile;
use crate::outcome::Outcome;
use crate::placement::Rule;
use crate::reopening::{self, Standing};
use crate::shared_pointer;
use crate::venue::{self, Venue};
use crate::visibility::Visibility;

/// Opens the file `fd.filename` on all ranks of `fd.comm`, in the given access mode.
pub(crate) fn open_collectively<A: Abi>(
    mpi: &'static Mpi<A>,
    fd: &mut RomioFile<A>,
    access_mode: c_int,
) -> Result<(), Failure> {
    let data_file = data_file_of_pointer(mpi, fd, access_mode);
    let opened = open_with_team(mpi, fd, access_mode, data_file.as_deref());
    if data_file.is_some() {
        return opened.inspect_err(shared_pointer::note_missed);
    }
    opened
}

/// The same of a file of data, or of the shared pointer of the file `data_file`.
fn open_with_team<A: Abi>(
    mpi: &'static Mpi<A>,
    fd: &mut RomioFile<A>,
    access_mode: c_int,
    data_file: Option<&OsStr>,
) -> Result<(), Failure> {
    let role = if data_file.is_some() { Role::SharedPointer } else { Role::Data };
    let team = circle::team(mpi, fd.comm).for_file(fd.name().to_string_lossy());
    if team.member() == 0 {
        environment::tell(&[Concern::Files]);
    }
    let venue = match data_file.and_then(venue::of_open) {
        Some(venue) => venue.for_one(),
        None => Venue::of(&team)?,
    };
    let team = match venue.company() {
        Some(company) if team.size() > 1 => {
            circle::use_cluster(mpi, fd.comm, company);
            company.on_nodes(team)
        }
        _ => team,
    };
    let standing = match (&venue, role) {
        (Venue::OneNode(_), Role::Data) => reopening::standing(mpi),
        _ => Standing::Excluded,
    };
    let asked = Asked::of(mpi, fd, access_mode, role);
    let (rank, staging) = (team.member() as c_int, Staging::by(asked.servers.clone()));
    let (wanted, visibility) = (asked.outcome.unwrap_or_default(), asked.visibility(&venue));
    let mut together =
        Together { mpi, fd, role, rank, venue: &venue, asked: &asked, wanted, staging, is_staged: false };
    let opened = team.open(&mut together, [standing.number(), wanted.number(), visibility.number()]);
    if rank == 0 {
        // What hosts say can be long.
        let _ = opened.as_ref().inspect_err(|failure| failure.tell_if_cut::<A>());
    }
    let (file, [standing, outcome, visibility]) = opened?;
    let (standing, outcome) = (Standing::from_number(standing), Outcome::from_number(outcome));
    let visibility = Visibility::from_number(visibility);
    // The next open brings a copy of what there is then.
    let standing = if together.is_staged { Standing::Excluded } else { standing };
    if outcome != wanted {
        if asked.outcome.is_some() {
            tracing::warn!("{}: svm_outcome is {outcome}: not all ranks ask for {wanted}", file.name());
        }
        // Where that fails, the file is open all the same.
        let _ = hints::tell_outcome(mpi, fd.info, outcome);
    }
    if let Some(own) = asked.visibility.filter(|own| *own != visibility) {
        tracing::warn!("{}: svm_visibility is {visibility}: not all ranks ask for {own}", file.name());
    }
    if asked.visibility.is_some() || file.is_shared_by_nodes() {
        // As above.
        let _ = hints::tell_visibility(mpi, fd.info, visibility, &file);
    }
    if role == Role::Data {
        reopening::note_agreed(standing);
    }
    let end = match access_mode & amode::APPEND {
        0 => None,
        _ => Some(end_for_all(&team, &file)?),
    };
    let rule = rule(&venue, &file);
    if role == Role::Data && team.member() == 0 {
        log(&file, visibility);
    }
    let mut handle = Handle::new(file, role, Arc::new(team), venue, rule);
    handle.outcome = outcome;
    handle.visibility = visibility;
    handle.has_given_segment_size = asked.has_segment_size;
    handle.may_be_kept = standing == Standing::Returning;
    adopt(fd, handle, access_mode, end);
    Ok(())
}

/// Where the file ends, the same on all ranks: their nodes may not have heard of the same writes.
fn end_for_all(team: &Team, file: &File) -> Result<i64, Failure> {
    team.agree_with_size(file, Ok::<_, Failure>(()), [end_of(file)]).map(|[end]| end)
}

/// Where the file ends, as far as this process's node knows.
fn end_of(file: &File) -> i64 {
    i64::try_from(file.size()).unwrap_or(i64::MAX)
}

/// A file that is being opened by all ranks.
struct Together<'o, A: Abi> {
    mpi: &'static Mpi<A>,
    fd: &'o RomioFile<A>,
    role: Role,
    rank: c_int,
    venue: &'o Venue,
    asked: &'o Asked,
    /// What this rank would have collective accesses return.
    wanted: Outcome,
    staging: Staging,
    is_staged: bool,
}

impl<A: Abi> Together<'_, A> {
    /// What the other ranks have to know of `file`, which is found by `place`.
    fn introduction(&self, file: &File, place: Vec<u8>) -> Vec<u8> {
        let (wish, in_force) = (self.asked.placement.clone(), file.placement().clone());
        Introduction { wish, in_force, place }.to_bytes()
    }

    fn located(&self, failure: Failure) -> Failure {
        match self.venue.company() {
            Some(company) => failure.on_node(self.rank, company.own_node()),
            None => failure,
        }
    }
}

impl<A: Abi> Opening for Together<'_, A> {
    type Opened = File;
    type Error = Failure;

    fn find(&mut self) -> Result<Found<File>, Failure> {
        let (venue, options) = (self.venue, &self.asked.options);
        let found = name(self.fd).and_then(|name| {
            let open = |options: &OpenOptions| venue.open(&name, options);
            Ok(self.staging.find(&name, options, open, |opened| venue.give_up(opened))?)
        });
        match found.map_err(|failure| self.located(failure))? {
            Found::Here(file, place) => {
                let introduction = self.introduction(&file, place);
                Ok(Found::Here(file, introduction))
            }
            Found::Elsewhere => Ok(Found::Elsewhere),
        }
    }

    fn stage(&mut self, team: &Team) -> Result<(File, Vec<u8>), Failure> {
        self.is_staged = true;
        // A rank that did not go on would leave the others waiting.
        let name = name(self.fd);
        team.agree(name.as_ref().map(drop).map_err(|failure| self.located(failure.clone())))?;
        let (file, place) = self.staging.stage(team, &self.venue.place(), &name?)?;
        let introduction = self.introduction(&file, place);
        Ok((file, introduction))
    }

    fn attach(&mut self, introduction: &[u8]) -> Result<File, Failure> {
        let attached = Introduction::from_bytes(introduction).and_then(|told| {
            let name = name(self.fd)?;
            if let Some(own) = self.asked.placement.as_ref().filter(|own| told.overrules(own)) {
                tracing::warn!("{name}: svm_placement is {}, as on rank 0, and not {own}", told.in_force);
            }
            let options = self.asked.options.clone().placement(told.wish);
            Ok(self.venue.open_introduced(&told.place, &name, &options)?.placed_by(told.in_force))
        });
        attached.map_err(|failure| self.located(failure))
    }

    fn complete(&mut self, file: File) -> Result<File, Failure> {
        let readied = match self.role {
            // Its eight bytes now: when they are needed, other ranks may be waiting behind this one.
            Role::SharedPointer => file.preallocate(8).map_err(Failure::from),
            Role::Data => Ok(()),
        };
        let told = readied
            .and_then(|()| hints::tell(self.mpi, self.fd.info, self.venue.store(), &file))
            .and_then(|()| hints::tell_outcome(self.mpi, self.fd.info, self.wanted));
        told.map(|()| file).map_err(|failure| self.located(failure))
    }

    fn give_up(&mut self, introduction: &[u8]) {
        if let Ok(told) = Introduction::from_bytes(introduction) {
            self.venue.give_up(&told.place);
        }
    }
}

/// Readies a stub that ROMIO opened on something harmless, see [`crate::plug::mpich`]: gives it this device's hints,
/// for a file of that name.
pub(crate) fn give_hints<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: &mut RomioFile<A>,
    name: &CStr,
    users: Info<A>,
) -> Result<(), Failure> {
    // ROMIO looks at the device's features then. It has taken the user's hints when it opened the stub, and of each
    // that it is handed it asks whether all ranks have the same.
    let none = mpi.constants.info_null;
    mpi.with_merged_info(none, none, hints::is_own, |overruling| {
        hints::overrule(mpi, overruling)?;
        hints::hand_to_romio(host, fd, overruling)
    })?;
    let info = fd.info;
    hints::tell_sieving(mpi, users, info)?;
    hints::tell_unknown(mpi, users, fd.comm, name);
    hints::take(mpi, users, info, name)?;
    mpi.set_info(info, c"romio_filesystem_type", &crate::table::NAME.to_string_lossy())
}

/// Opens the file behind a stub that has its name and its hints.
pub(crate) fn open_stub<A: Abi>(
    mpi: &'static Mpi<A>,
    fd: &mut RomioFile<A>,
    access_mode: c_int,
) -> Result<(), Failure> {
    open_collectively(mpi, fd, access_mode)?;
    fd.orig_access_mode = access_mode;
    fd.access_mode = access_mode & !amode::EXCL;
    Ok(())
}

/// Opens the file for this rank alone.
pub(crate) fn open_alone<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>) -> Result<(), Failure> {
    let (team, access_mode) = (Arc::new(Team::alone()), fd.access_mode);
    let venue = Venue::alone()?;
    let asked = Asked::of(mpi, fd, access_mode, Role::Data);
    let (file, _) = venue.open(&name(fd)?, &asked.options).map_err(Failure::from)?;
    let (rule, end) = (rule(&venue, &file), end_of(&file));
    let end = Some(end).filter(|_| access_mode & amode::APPEND != 0);
    adopt(fd, Handle::new(file, Role::Data, team, venue, rule), access_mode, end);
    Ok(())
}

/// Makes an error code that ROMIO gave on some ranks one of all ranks. `mine` is this rank's for the open file
/// `fd`; the result differs from it only where this rank succeeded and another failed.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn agreed<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>, mine: c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let unknown =
        || Failure::new(ErrorClass::Io, format!("access to svm:{} failed", fd.name().to_string_lossy()));
    let outcome = if mine == SUCCESS { Ok(()) } else { Err(failure::behind(mine).unwrap_or_else(unknown)) };
    let Ok(handle) = handle::of(fd) else { return mine };
    match handle.team.agree(outcome) {
        Err(failure) if mine == SUCCESS => failure.to_code(mpi),
        _ => mine,
    }
}

/// Gives ROMIO's structure the file that was opened; its pointer is at the `end` where one appends.
fn adopt<A: Abi>(fd: &mut RomioFile<A>, handle: Handle, access_mode: c_int, end: Option<i64>) {
    if let Some(end) = end {
        fd.fp_ind = end;
    }
    fd.fd_sys = -1;
    fd.fp_sys_posn = -1;
    fd.blksize = i64::try_from(handle.file.segment_size().bytes()).unwrap_or(i64::MAX);
    fd.is_open = 1;
    // Open MPI's ROMIO would move the shared pointer next; `appending` does.
    fd.access_mode = access_mode & !amode::APPEND;
    if handle.role == Role::Data {
        venue::note_open(OsStr::from_bytes(fd.name().to_bytes()), &handle.venue);
    }
    handle::attach(fd, handle);
}

/// What the access mode and the info object ask for.
struct Asked {
    options: OpenOptions,
    /// The placement that is asked for, if any is: as in the options.
    placement: Option<Placement>,
    /// Whether a segment size is asked for.
    has_segment_size: bool,
    /// What collective accesses are to return, if anything is asked for.
    outcome: Option<Outcome>,
    /// When other nodes are to see what is written, if anything is asked for.
    visibility: Option<Visibility>,
    /// Whom the first rank may ask for the file.
    servers: Servers,
}

impl Asked {
    fn of<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, access_mode: c_int, role: Role) -> Asked {
        let placement = match role {
            Role::Data => hints::placement(mpi, fd.name(), fd.info),
            // Eight bytes, which are best with who comes first.
            Role::SharedPointer => None,
        };
        let size = hints::segment_size(mpi, fd.name(), fd.info);
        let outcome = hints::outcome(mpi, fd.name(), fd.info);
        let visibility = match role {
            Role::Data => hints::visibility(mpi, fd.name(), fd.info),
            Role::SharedPointer => None,
        };
        let servers = match role {
            Role::Data => hints::servers(mpi, fd.name(), fd.info),
            Role::SharedPointer => Servers::default(),
        };
        let options = options(access_mode).segment_size(size).placement(placement.clone());
        Asked { options, placement, has_segment_size: size.is_some(), outcome, visibility, servers }
    }

    /// When this rank would have other nodes see what is written. The ranks of a single one share memory.
    fn visibility(&self, venue: &Venue) -> Visibility {
        let unasked = || venue.company().map_or(Visibility::Immediate, |_| Visibility::of_program());
        self.visibility.unwrap_or_else(unasked)
    }
}

/// The file's placement by the numbers of nodes. A single node has no choice.
fn rule(venue: &Venue, file: &File) -> Rule {
    let Some(company) = venue.company() else { return Rule::FirstTouch };
    let nodes = company.nodes_for(file.placement());
    match file.placement() {
        Placement::FirstTouch => Rule::FirstTouch,
        Placement::RoundRobin => Rule::RoundRobin(nodes),
        Placement::Block => Rule::Block(nodes),
        Placement::Node(name) => {
            let node = nodes.into_iter().find(|node| company.name(*node) == name.as_str());
            // In force is only a node that is there.
            node.map_or(Rule::FirstTouch, Rule::Node)
        }
    }
}

/// Tells how the segments of a file are laid out that was opened.
fn log(file: &File, visibility: Visibility) {
    let (name, placement, size) = (file.name(), file.placement(), file.segment_size());
    match file.segment_size_reason() {
        Some(reason) => {
            tracing::info!("{name}: placement {placement}; segments of {size} bytes: {reason}");
        }
        None => tracing::info!("{name}: placement {placement}; segments of {size} bytes"),
    }
    if file.is_shared_by_nodes() {
        tracing::info!("{name}: visibility {visibility}");
    }
}

/// What the access mode asks for.
pub(crate) fn options(access_mode: c_int) -> OpenOptions {
    let has = |flag| access_mode & flag != 0;
    let options = if has(amode::RDWR) {
        OpenOptions::read_write()
    } else if has(amode::WRONLY) {
        OpenOptions::writing()
    } else {
        OpenOptions::reading()
    };
    options.create(has(amode::CREATE)).exclusive(has(amode::EXCL)).temporary(has(amode::DELETE_ON_CLOSE))
}

fn name<A: Abi>(fd: &RomioFile<A>) -> Result<FileName, Failure> {
    Ok(FileName::new(OsStr::from_bytes(fd.name().to_bytes()))?)
}

/// ROMIO keeps a shared file pointer in `.NAME.shfp.NUMBER` beside the file, which each rank opens for itself. Where
/// `fd` is such a one: the name of the file whose pointer it is.
fn data_file_of_pointer<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, access_mode: c_int) -> Option<Box<OsStr>> {
    const MODE: c_int = amode::CREATE | amode::RDWR | amode::DELETE_ON_CLOSE;
    if access_mode != MODE || mpi.size(fd.comm) != 1 {
        return None;
    }
    data_file_of(fd.name().to_bytes())
}

fn data_file_of(pointer: &[u8]) -> Option<Box<OsStr>> {
    const MARK: &[u8] = b".shfp.";
    let base = pointer.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, name) = pointer.split_at(base);
    let name = name.strip_prefix(b".")?;
    let end = name.windows(MARK.len()).rposition(|part| part == MARK)?;
    Some(OsStr::from_bytes(&[directory, &name[..end]].concat()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_shared_pointer_is_found() {
        let of =
            |pointer: &str| data_file_of(pointer.as_bytes()).map(|name| name.to_string_lossy().into_owned());
        assert_eq!(of("/a/.b.shfp.123").as_deref(), Some("/a/b"));
        assert_eq!(of(".b.shfp.c.shfp.9").as_deref(), Some("b.shfp.c"));
        assert_eq!(of("/a/b.shfp.123"), None);
        assert_eq!(of("/a/.b"), None);
    }
}
