//! What has no second level: it goes by messages alone.

use super::two_level::TwoLevelGroup;
use crate::executor::error::Result;
use crate::executor::operation::Operation;

macro_rules! by_messages {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// What goes by messages alone.
        impl TwoLevelGroup {
            $(
                #[doc = concat!("As [`NetworkGroup::", stringify!($name), "`](super::NetworkGroup::", stringify!($name), ").")]
                ///
                /// # Errors
                /// As that.
                pub fn $name(&mut self, $($argument: $kind),*) -> Result<()> {
                    self.attempt(|group| group.all.$name($($argument),*))
                }
            )*
        }
    };
}

by_messages! {
    gather_blocks(root: usize, own: &[u8], blocks: &mut [&mut [u8]]);
    gatherv(root: usize, own: &[u8], into: &mut [u8], blocks: &[std::ops::Range<usize>]);
    scatter_blocks(root: usize, blocks: &[&[u8]], into: &mut [u8]);
    scatterv(root: usize, data: &[u8], blocks: &[std::ops::Range<usize>], into: &mut [u8]);
    alltoall_blocks(sent: &[&[u8]], received: &mut [&mut [u8]]);
    alltoallv(data: &[u8], sent: &[std::ops::Range<usize>], into: &mut [u8], received: &[std::ops::Range<usize>]);
    scan(data: &mut [u8], operation: &dyn Operation);
    exscan(data: &mut [u8], operation: &dyn Operation);
    exscan_from(data: &[u8], operation: &dyn Operation);
}
