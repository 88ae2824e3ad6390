//! Memory and file side by side: which bytes of the one are which of the other, as many at a time as are regular in
//! both.

use svmio_svm::Blocks;

use crate::flatten::{Cursor, Runs};

/// Calls `each` with the blocks of the file, with the address of the first one's bytes in memory, and with how far
/// apart these are there, until `bytes` bytes are dealt with. All of them are before both cursors, and none before the
/// file.
pub(crate) fn each_blocks<E>(
    memory: &mut Cursor<'_>,
    file: &mut Cursor<'_>,
    bytes: i64,
    mut each: impl FnMut(Blocks, i64, i64) -> Result<(), E>,
) -> Result<(), E> {
    let mut left = bytes;
    while left > 0 {
        let (in_memory, in_file) = common(memory.ahead(), file.ahead(), left);
        let Runs { at, length, stride, count } = in_file;
        let blocks =
            Blocks { start: at as u64, length: length as u64, stride: stride as u64, count: count as u64 };
        each(blocks, in_memory.at, in_memory.stride)?;
        let done = length * count;
        left -= done;
        memory.advance(done);
        file.advance(done);
    }
    Ok(())
}

/// The first runs of both, cut to the same lengths and number, with at most `most` bytes.
fn common(memory: Runs, file: Runs, most: i64) -> (Runs, Runs) {
    let length = memory.length.min(file.length);
    // How many runs of that length it has before something else comes.
    let runs = |of: Runs| match of.length {
        of_it if of_it == length => of.count,
        of_it => of_it / length,
    };
    let count = runs(memory).min(runs(file)).min(most / length);
    if count < 2 {
        let length = length.min(most);
        return (Runs::one(memory.at, length), Runs::one(file.at, length));
    }
    let cut = |of: Runs| {
        let stride = if of.length == length { of.stride } else { length };
        Runs { at: of.at, length, stride, count }
    };
    (cut(memory), cut(file))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flatten::Shape;

    fn shapes() -> impl Strategy<Value = Shape> {
        let inner = (1i64..9, 1i64..6, 0i64..20, 1i64..5, 0i64..60);
        inner.prop_map(|(length, count, gap, times, more)| {
            let runs = Shape::run(length).repeated(count, length + gap);
            let extent = count * (length + gap) + more;
            runs.and_then(|runs| runs.repeated(times, extent)).expect("it is small")
        })
    }

    proptest! {
        #[test]
        fn each_byte_is_paired_with_its_own(memory in shapes(), file in shapes(), from in (0i64..40, 0i64..40), most in 1i64..300) {
            let from = (from.0 % memory.bytes(), from.1 % file.bytes());
            let bytes = (memory.bytes() - from.0).min(file.bytes() - from.1).min(most);
            let (mut left, mut right) = (Cursor::at(&memory, from.0), Cursor::at(&file, from.1));
            let mut pairs = Vec::new();
            each_blocks(&mut left, &mut right, bytes, |blocks, at, stride| {
                for number in 0..blocks.count as i64 {
                    for byte in 0..blocks.length as i64 {
                        let in_file = blocks.start as i64 + number * blocks.stride as i64 + byte;
                        pairs.push((at + number * stride + byte, in_file));
                    }
                }
                Ok::<(), ()>(())
            })
            .expect("nothing fails");
            let expected: Vec<(i64, i64)> =
                (0..bytes).map(|i| (memory.address(from.0 + i), file.address(from.1 + i))).collect();
            prop_assert_eq!(pairs, expected);
        }
    }
}
