//! When a room is crowded, and when it is empty.
#![allow(clippy::unwrap_used)]

use super::*;

#[tokio::test]
async fn a_room_is_crowded_when_few_places_are_left() {
    let room = Room::new(16, 0);
    let mut places = Vec::new();
    for _ in 0..14 {
        places.push(room.limit().wait_for_place().await.unwrap());
        assert!(!room.is_crowded(), "{} taken", places.len());
    }
    places.push(room.limit().wait_for_place().await.unwrap());
    assert!(room.is_crowded());
    places.pop();
    assert!(!room.is_crowded());
}

#[tokio::test]
async fn the_only_place_is_soon_wanted() {
    let room = Room::new(0, 0);
    assert!(!room.is_crowded());
    let place = room.limit().wait_for_place().await.unwrap();
    assert!(room.is_crowded());
    drop(place);
    room.limit().emptied().await;
}
