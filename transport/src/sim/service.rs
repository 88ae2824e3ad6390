//! Services: coroutines beside a process's program.

use std::sync::Arc;

use crate::back_end::Service;
use crate::sim::shared::Shared;
use crate::sim::state::Awaited;

/// A service's coroutine.
pub(crate) struct SimService {
    pub(crate) shared: Arc<Shared>,
    pub(crate) task: usize,
}

impl Service for SimService {
    fn join(self: Box<Self>) {
        self.shared.settle();
        while !{
            let state = self.shared.lock();
            state.is_over || state.tasks[self.task].is_done
        } {
            self.shared.park(Awaited::End { task: self.task }, None);
        }
    }
}
