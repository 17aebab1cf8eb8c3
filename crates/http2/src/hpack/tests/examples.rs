//! RFC 7541, appendix C: the same fields with and without Huffman's code, and what the table holds after each block.

use super::*;

/// Blocks of one connection, each with its fields and with the table after it, newest first, and that table's size.
fn check(table_bytes_max: usize, blocks: &[(&str, &[&str], &[&str], usize)]) {
    let mut decoder = Decoder::new(table_bytes_max);
    let mut fields = Fields::new(1000);
    for (block, expected, table, table_bytes) in blocks {
        decoder.decode(&bytes(block), &mut fields).unwrap();
        assert_eq!(told(&fields), *expected, "fields of {block}");
        assert_eq!(table_of(&decoder.table), *table, "table after {block}");
        assert_eq!(decoder.table.bytes(), *table_bytes, "size of the table after {block}");
        assert_eq!(fields.len(), expected.len());
        assert!(!fields.is_too_long());
    }
}

fn table_of(table: &Table) -> Vec<String> {
    let fields = (0..).map_while(|index| table.get(index));
    fields
        .map(|field| {
            let (name, value) = field.text.split_at(field.name_bytes);
            line(name, value)
        })
        .collect()
}

#[test]
fn c_2_1_literal_that_is_indexed() {
    let block = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check(4096, &[(block, &["custom-key: custom-header"], &["custom-key: custom-header"], 55)]);
}

#[test]
fn c_2_2_literal_that_is_not_indexed() {
    check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], &[], 0)]);
}

#[test]
fn c_2_3_literal_that_is_never_indexed() {
    check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], &[], 0)]);
}

#[test]
fn c_2_4_index() {
    check(4096, &[("82", &[":method: GET"], &[], 0)]);
}

const AUTHORITY: &str = ":authority: www.example.com";

fn check_requests(blocks: [&str; 3]) {
    let first = [":method: GET", ":scheme: http", ":path: /", AUTHORITY];
    let second = [":method: GET", ":scheme: http", ":path: /", AUTHORITY, "cache-control: no-cache"];
    let third =
        [":method: GET", ":scheme: https", ":path: /index.html", AUTHORITY, "custom-key: custom-value"];
    check(
        4096,
        &[
            (blocks[0], &first, &[AUTHORITY], 57),
            (blocks[1], &second, &["cache-control: no-cache", AUTHORITY], 110),
            (blocks[2], &third, &["custom-key: custom-value", "cache-control: no-cache", AUTHORITY], 164),
        ],
    );
}

#[test]
fn c_3_requests() {
    check_requests([
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ]);
}

#[test]
fn c_4_requests_in_huffmans_code() {
    check_requests([
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ]);
}

/// The table has no room for all of these, so that fields go.
fn check_responses(blocks: [&str; 3]) {
    const CACHE: &str = "cache-control: private";
    const LOCATION: &str = "location: https://www.example.com";
    const DATE: &str = "date: Mon, 21 Oct 2013 20:13:21 GMT";
    const LATER: &str = "date: Mon, 21 Oct 2013 20:13:22 GMT";
    const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    const GZIP: &str = "content-encoding: gzip";
    check(
        256,
        &[
            (
                blocks[0],
                &[":status: 302", CACHE, DATE, LOCATION],
                &[LOCATION, DATE, CACHE, ":status: 302"],
                222,
            ),
            (
                blocks[1],
                &[":status: 307", CACHE, DATE, LOCATION],
                &[":status: 307", LOCATION, DATE, CACHE],
                222,
            ),
            (blocks[2], &[":status: 200", CACHE, LATER, LOCATION, GZIP, COOKIE], &[COOKIE, GZIP, LATER], 215),
        ],
    );
}

#[test]
fn c_5_responses() {
    check_responses([
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e \
         1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d \
         4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 \
         7369 6f6e 3d31",
    ]);
}

#[test]
fn c_6_responses_in_huffmans_code() {
    check_responses([
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b \
         97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf \
         cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ]);
}
