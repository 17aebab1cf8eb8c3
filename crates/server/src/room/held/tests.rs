//! What connections may hold together, and that they give it back.
#![allow(clippy::unwrap_used)]

use super::*;

const FREE: usize = 10;
const LENT_MAX: usize = 100;

fn room() -> Arc<Room> {
    Arc::new(Room::new(4, LENT_MAX))
}

fn held(room: &Arc<Room>) -> Held {
    Held::new(Arc::clone(room), FREE)
}

#[test]
fn connections_share_what_there_is() {
    let room = room();
    let (first, second) = (held(&room), held(&room));
    assert_eq!(first.grow(FREE + LENT_MAX / 2), Ok(FREE + LENT_MAX / 2));
    assert_eq!(second.set(FREE + LENT_MAX / 2), Ok(()), "just as much as there may be");
    assert_eq!(second.grow(1), Err(AccountFull), "and not a byte more");
    second.shrink(1);
    drop(first);
    assert_eq!(second.grow(LENT_MAX / 2), Ok(FREE + LENT_MAX), "who is gone holds nothing");
}

#[test]
fn little_is_never_refused() {
    let room = room();
    let greedy = held(&room);
    assert_eq!(greedy.set(usize::MAX / 2), Err(AccountFull));
    let modest = held(&room);
    for _ in 0..3 {
        assert_eq!(modest.grow(FREE), Ok(FREE));
        assert_eq!(modest.set(1), Ok(()));
        assert_eq!(modest.set(FREE), Ok(()));
        modest.shrink(FREE);
    }
    assert_eq!(modest.set(FREE + 1), Err(AccountFull));
}

/// However a connection got where it is, what is lent is what it holds beyond the little.
#[test]
fn changes_add_up() {
    let room = room();
    let (one, other) = (held(&room), held(&room));
    let mut state = 1_usize;
    for _ in 0..10_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (bytes, way) = (state >> 33 & 0x7f, state >> 60);
        let held = if way & 1 == 0 { &one } else { &other };
        let holds = held.bytes.load(Ordering::Relaxed);
        // What is refused counts all the same.
        let _ = match way >> 1 {
            0..=2 => held.grow(bytes).map(drop),
            3..=5 => {
                held.shrink(holds.min(bytes));
                Ok(())
            }
            _ => held.set(bytes),
        };
        let counted = |held: &Held| held.bytes.load(Ordering::Relaxed).saturating_sub(FREE);
        assert_eq!(room.limit.shared.account.held_bytes(Class::Request), counted(&one) + counted(&other));
    }
    drop((one, other));
    assert_eq!(room.limit.shared.account.held_bytes(Class::Request), 0);
}
