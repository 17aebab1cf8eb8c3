//! Keys have the promised form, whichever way they are made.

use super::{Draw, KEY_BYTES, KeyStream, key_text};

#[test]
fn text_and_bytes_agree_with_the_single_key() {
    let stream = KeyStream::of([0, 7, 12_345, 9_999_999].into_iter());
    let segment = stream.whole();
    for ((text, bytes), id) in segment.texts().zip(segment.bytes()).zip(segment.ids()) {
        assert_eq!(text.len(), KEY_BYTES);
        assert_eq!(text.as_bytes(), bytes);
        assert_eq!(bytes, key_text(*id));
    }
}

#[test]
fn parts_follow_each_other_without_overlap() {
    let stream = KeyStream::draw(Draw::Uniform, 100, 64, 1);
    let ids: Vec<u64> = (0..4).flat_map(|index| stream.part(index, 4).ids().to_vec()).collect();
    assert_eq!(ids, stream.whole().ids());
}
