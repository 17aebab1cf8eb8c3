//! Parts of a key, each with its length in front, so that no two lists of parts are encoded alike.

/// Adds a part. Short lengths take one byte: a key that is short is hashed faster.
#[inline]
#[allow(clippy::cast_possible_truncation)] // Seven bits fit a byte.
pub fn put_part(bytes: &mut Vec<u8>, part: &[u8]) {
    let mut length = part.len();
    while length >= 0x80 {
        // The low seven bits, and a mark that more follow.
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::put_part;

    #[test]
    fn no_two_lists_are_encoded_alike() {
        let parts: Vec<Vec<u8>> = [0, 1, 2, 127, 128, 129, 16_383, 16_384]
            .map(|length| vec![1; length])
            .into_iter()
            .chain([vec![0], vec![128, 1]])
            .collect();
        let mut seen = HashMap::new();
        let mut check = |list: &[&Vec<u8>]| {
            let mut bytes = Vec::new();
            for part in list {
                put_part(&mut bytes, part);
            }
            let list: Vec<Vec<u8>> = list.iter().map(|part| (*part).clone()).collect();
            if let Some(other) = seen.insert(bytes, list.clone()) {
                assert_eq!(other, list);
            }
        };
        check(&[]);
        for one in &parts {
            check(&[one]);
            for two in &parts {
                check(&[one, two]);
            }
        }
        assert_eq!(seen.len(), 1 + 10 + 100);
    }
}
