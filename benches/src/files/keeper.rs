//! Who keeps a file while it is measured.

use svmio_tests::{Mpi, Stock};

use super::workload::Workload;

/// svmio, or a stock driver, under an MPI.
#[derive(Debug, Clone, Copy)]
pub struct Keeper {
    /// The MPI.
    pub mpi: Mpi,
    /// Its driver; svmio where there is none.
    pub stock: Option<&'static Stock>,
}

impl Keeper {
    /// svmio under each of Debian's MPIs, then their stock drivers.
    pub fn all() -> Vec<Keeper> {
        let svmio = Mpi::DEBIAN.into_iter().map(|mpi| Keeper { mpi, stock: None });
        let stock = Mpi::DEBIAN
            .into_iter()
            .flat_map(|mpi| Stock::of(mpi).iter().map(move |stock| Keeper { mpi, stock: Some(stock) }));
        svmio.chain(stock).collect()
    }

    /// For whom a workload is run.
    pub fn of(workload: &Workload) -> Vec<Keeper> {
        let mut keepers = Keeper::all();
        keepers.retain(|keeper| workload.is_compared || keeper.is_svmio());
        keepers
    }

    /// Whether it is svmio.
    pub fn is_svmio(&self) -> bool {
        self.stock.is_none()
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        match self.stock {
            None => format!("svmio, {}", self.mpi),
            Some(stock) => format!("{}, {}", stock.component.unwrap_or("ufs"), self.mpi),
        }
    }
}
