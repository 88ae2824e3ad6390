//! User memory that peers write to.

use svmio_transport::back_end::{MemoryKey, Piece, Place, Remote};
use svmio_transport::{Dma, Error, SegmentId, UserMemory};

use crate::face::dma::{carry_out, writing};
use crate::face::participant::Participant;

const SPACE: u32 = 60;
const LENGTH: u64 = 100_000;

/// A buffer of the program, written to by the rank before and by DMA from a buffer of its program; refused where
/// the fabric says that it registers none.
pub(super) fn user_memory(participant: &Participant) {
    let fabric = participant.fabric();
    let mut buffer = vec![0; LENGTH as usize];
    // At an odd place: a program's buffers lie where they lie.
    let target = UserMemory::of_mut(&mut buffer[3..]);
    if !participant.capabilities().registers_user_memory {
        // SAFETY: it is refused; and the buffer lives until the end of this function.
        let refused = unsafe { fabric.register(target) };
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        return;
    }
    // SAFETY: the buffer is left to the peers until `registration` is dropped, and lives longer.
    let registration = unsafe { fabric.register(target) }.expect("memory can be registered");
    let id = SegmentId::new(SPACE, 0);
    let segment = participant.create(id, 32);
    let remote = participant.connect(participant.previous(), id);
    let words = registration.key().0;
    let key: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    participant.write(&remote, 0, &key);
    participant.meet();

    let words = [0, 8, 16].map(|at| {
        let mut word = [0; 8];
        segment.memory().read(at, &mut word).expect("within the segment");
        u64::from_ne_bytes(word)
    });
    let place = Remote { owner: participant.next(), place: Place::Registered(MemoryKey(words)) };
    let bytes = |writer| participant.random(writer).bytes(LENGTH as usize);
    let source = bytes(participant.rank());
    let expected = bytes(participant.previous());
    // Stores for the first half, DMA for the rest where there is any.
    let half = LENGTH / 2;
    let pieces = [
        Piece { offset: 0, bytes: &source[..1000] },
        Piece { offset: 1000, bytes: &source[1000..half as usize] },
    ];
    fabric.write_checked(place.owner, || fabric.write(&place, &pieces)).expect("the peer is there");
    let rest = &source[half as usize..LENGTH as usize - 3];
    if participant.capabilities().dma == Dma::None {
        let piece = Piece { offset: half, bytes: rest };
        fabric.write_checked(place.owner, || fabric.write(&place, &[piece])).expect("the peer is there");
    } else {
        // SAFETY: the source is left alone, and lives, until the chain has ended.
        unsafe { carry_out(participant, &[writing(UserMemory::of(rest), place, half)]) };
    }
    participant.meet();

    drop(registration);
    assert_eq!(buffer[..3], [0; 3], "the bytes before it are left alone");
    assert!(buffer[3..] == expected[..LENGTH as usize - 3], "from rank {}", participant.previous());
}
