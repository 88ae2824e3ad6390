//! svmio's component of Open MPI's `coll` framework: where it is, and how Open MPI is told of it.

use std::ffi::OsString;
use std::path::Path;

use super::error::RunError;
use super::installation::Installation;
use super::launch_command::RankVariable;
use super::launcher::{self, Launcher};
use super::mpi_family::MpiFamily;

/// Names the folders in which Open MPI looks for components.
const FOLDERS: &str = "OMPI_MCA_mca_component_path";

/// Open MPI's words for the folders where it looks by itself; without them it would find no other component.
const USUAL_FOLDERS: &str = "SYSTEM_DEFAULT:USER_DEFAULT";

/// The series of Open MPI that the component is made for; others have other structures in their frameworks.
const SERIES: [u32; 2] = [4, 1];

/// What has Open MPI load the component, after what the user says of folders.
///
/// # Errors
/// The MPI is no Open MPI 4.1; the component is not installed.
pub(crate) fn variables(
    launcher: &Launcher,
    installation: &Installation,
) -> Result<Vec<RankVariable>, RunError> {
    if launcher.family != MpiFamily::OpenMpi {
        return Err(RunError::ComponentForOpenMpiOnly { family: launcher.family });
    }
    let text = launcher::version_text(&launcher.path).unwrap_or_default();
    if series(&text) != Some(SERIES) {
        let found = text.lines().next().unwrap_or_default().to_owned();
        return Err(RunError::ComponentOfOtherSeries { launcher: launcher.path.clone(), found });
    }
    let folder = installation.component_folder()?;
    Ok(vec![RankVariable { name: FOLDERS.into(), value: folders(&folder, std::env::var_os(FOLDERS)) }])
}

fn folders(ours: &Path, inherited: Option<OsString>) -> OsString {
    let mut folders = ours.as_os_str().to_owned();
    folders.push(":");
    folders.push(inherited.filter(|folders| !folders.is_empty()).unwrap_or_else(|| USUAL_FOLDERS.into()));
    folders
}

/// The first two numbers of the version in what a launcher prints: `mpirun (Open MPI) 4.1.4`.
fn series(text: &str) -> Option<[u32; 2]> {
    let (_, version) = text.lines().next()?.split_once(") ")?;
    let mut numbers = version.split('.').map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_their_series() {
        assert_eq!(series("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to"), Some(SERIES));
        assert_eq!(series("mpirun (Open MPI) 5.0.8"), Some([5, 0]));
        assert_eq!(series("HYDRA build details:\n    Version: 4.0.2"), None);
        assert_eq!(series(""), None);
    }

    #[test]
    fn the_usual_folders_stay() {
        let ours = Path::new("/opt/component");
        assert_eq!(folders(ours, None), "/opt/component:SYSTEM_DEFAULT:USER_DEFAULT");
        assert_eq!(folders(ours, Some("".into())), "/opt/component:SYSTEM_DEFAULT:USER_DEFAULT");
        assert_eq!(folders(ours, Some("/mine".into())), "/opt/component:/mine");
    }
}
