//! What happens to the cache.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Read(Range<u32>),
    Write(Range<u32>, u8),
    BeginFetch,
    /// Who fetches takes the version by himself, and then the first bytes of the page, so many.
    ServePart(usize, u32),
    /// And the others; or the home reads the page and writes it to the frame.
    Serve(usize),
    FinishFetch(usize),
    AbandonFetch(usize),
    BeginFlush,
    /// The bytes get home; the answer is still to come.
    ArriveFlush(usize),
    FinishFlush(usize),
    FailFlush(usize),
    BeginOverwrite(Range<u32>, u8),
    ArriveOverwrite(usize),
    FinishOverwrite(usize),
    /// Another node writes bytes, and nobody here is told.
    Elsewhere(Range<u32>, u8),
    /// Pages that are older than their home are dropped.
    Refresh,
    Forget,
    Truncate(u32),
    /// As a scattered write does: past the cache, into which it is not put.
    BeginScatter(Range<u32>, u8),
    /// The bytes get home, and the page is dropped; or its process dies before it does so, and others see to it.
    FinishScatter(usize, bool),
}

fn range() -> impl Strategy<Value = Range<u32>> {
    let cut = prop_oneof![0..PAGE, (0..8u32).prop_map(|n| n * PAGE / 8)];
    prop_oneof![
        (cut.clone(), cut).prop_map(|(a, b)| a.min(b)..a.max(b) + 1),
        (0..PAGE - 40, 1..40u32).prop_map(|(start, length)| start..start + length),
        Just(0..PAGE),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let value = 0..64u8;
    prop_oneof![
        8 => range().prop_map(Step::Read),
        8 => (range(), value.clone()).prop_map(|(r, v)| Step::Write(r, v)),
        6 => Just(Step::BeginFetch),
        3 => (any::<usize>(), 0..PAGE).prop_map(|(which, bytes)| Step::ServePart(which, bytes)),
        5 => any::<usize>().prop_map(Step::Serve),
        6 => any::<usize>().prop_map(Step::FinishFetch),
        1 => any::<usize>().prop_map(Step::AbandonFetch),
        5 => Just(Step::BeginFlush),
        3 => any::<usize>().prop_map(Step::ArriveFlush),
        4 => any::<usize>().prop_map(Step::FinishFlush),
        1 => any::<usize>().prop_map(Step::FailFlush),
        2 => (range(), value.clone()).prop_map(|(r, v)| Step::BeginOverwrite(r, v)),
        2 => any::<usize>().prop_map(Step::ArriveOverwrite),
        2 => any::<usize>().prop_map(Step::FinishOverwrite),
        3 => (range(), value).prop_map(|(r, v)| Step::Elsewhere(r, v)),
        1 => Just(Step::Refresh),
        1 => Just(Step::Forget),
        2 => (0..PAGE * PAGES as u32 + 100).prop_map(Step::Truncate),
        3 => (range(), 0..64u8).prop_map(|(r, v)| Step::BeginScatter(r, v)),
        5 => any::<(usize, bool)>().prop_map(|(which, dies)| Step::FinishScatter(which, dies)),
    ]
}
