//! Which fabric a command is to use.

use std::str::FromStr;

use svmio_transport::sim::Model;

/// A fabric as it is named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FabricChoice {
    /// Shared memory.
    Shm,
    /// libfabric, with that provider or the one that the settings say.
    Ofi(Option<String>),
    /// The simulated one, with that cost model.
    Sim(String),
}

/// A text that names no fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidFabric {
    /// Not written as fabrics are.
    #[error("a fabric is shm, ofi, ofi:PROVIDER or sim:MODEL; `svmio fabric info` lists what there is")]
    Text,
    /// The cost model is not known, or wrong.
    #[error("{0}")]
    Model(String),
}

impl FromStr for FabricChoice {
    type Err = InvalidFabric;

    fn from_str(text: &str) -> Result<FabricChoice, InvalidFabric> {
        match text.split_once(':') {
            None if text == "shm" => Ok(FabricChoice::Shm),
            None if text == "ofi" => Ok(FabricChoice::Ofi(None)),
            Some(("ofi", provider)) if !provider.is_empty() => Ok(FabricChoice::Ofi(Some(provider.into()))),
            Some(("sim", name)) if !name.is_empty() => model(name).map(FabricChoice::Sim),
            _ => Err(InvalidFabric::Text),
        }
    }
}

/// The name of a cost model, or of a file with one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn model(name: &str) -> Result<String, InvalidFabric> {
    // Loaded again when it is used; here, it is still the command line that is wrong.
    Model::find(name).map(|_| name.to_owned()).map_err(|error| InvalidFabric::Model(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabrics_are_read() {
        assert_eq!("shm".parse(), Ok(FabricChoice::Shm));
        assert_eq!("ofi".parse(), Ok(FabricChoice::Ofi(None)));
        assert_eq!("ofi:tcp;ofi_rxm".parse(), Ok(FabricChoice::Ofi(Some("tcp;ofi_rxm".into()))));
        assert_eq!("sim:sci-switch".parse(), Ok(FabricChoice::Sim("sci-switch".into())));
        for bad in ["", "sim", "sim:", "ofi:", "tcp", "shm:x"] {
            assert_eq!(bad.parse::<FabricChoice>(), Err(InvalidFabric::Text), "{bad}");
        }
        assert!(matches!("sim:abacus".parse::<FabricChoice>(), Err(InvalidFabric::Model(_))));
    }
}
