//! The table against a list of strings that is cut to its size, and its memory.

use proptest::prelude::*;

use super::*;

const BYTES_MAX: usize = 300;

#[derive(Clone, Debug)]
enum Step {
    Insert { name: String, value: String },
    Resize { bytes: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => ("[a-c]{0,3}", "[a-c]{0,40}").prop_map(|(name, value)| Step::Insert { name, value }),
        1 => ("[a-c]{0,3}", "[a-c]{200,400}").prop_map(|(name, value)| Step::Insert { name, value }),
        1 => (0..=BYTES_MAX + 1).prop_map(|bytes| Step::Resize { bytes }),
    ]
}

/// The newest first.
type Naive = Vec<(String, String)>;

fn cut(naive: &mut Naive, bytes: usize) {
    while naive.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() > bytes {
        naive.pop();
    }
}

fn insert(table: &mut Table, name: &str, value: &str) {
    table.insert(Field::new([name, value].concat().as_bytes(), name.len()));
}

fn held(table: &Table) -> Naive {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let fields = (0..).map_while(|index| table.get(index));
    fields.map(|field| (text(field.name()), text(&field.text[field.name_bytes..]))).collect()
}

proptest! {
    #[test]
    fn any_steps(steps in proptest::collection::vec(step(), 0..120)) {
        let mut table = Table::new(BYTES_MAX, 200);
        let (mut naive, mut naive_bytes) = (Naive::new(), 200);
        for step in steps {
            match step {
                Step::Insert { name, value } => {
                    insert(&mut table, &name, &value);
                    naive.insert(0, (name, value));
                }
                Step::Resize { bytes } => {
                    let fits = bytes <= BYTES_MAX;
                    prop_assert_eq!(table.resize(bytes).is_ok(), fits);
                    naive_bytes = if fits { bytes } else { naive_bytes };
                }
            }
            cut(&mut naive, naive_bytes);
            prop_assert_eq!(&held(&table), &naive);
            prop_assert!(table.text.len() <= 2 * BYTES_MAX, "{} bytes are kept", table.text.len());
        }
    }
}

#[test]
fn a_field_as_large_as_the_table_is_alone_in_it() {
    let mut table = Table::new(100, 100);
    insert(&mut table, "a", "1");
    insert(&mut table, "name", &"v".repeat(64));
    assert_eq!(held(&table), [("name".to_owned(), "v".repeat(64))]);
    assert_eq!(table.bytes(), 100);
}

#[test]
fn a_field_larger_than_the_table_empties_it() {
    let mut table = Table::new(100, 100);
    insert(&mut table, "a", "1");
    insert(&mut table, "name", &"v".repeat(65));
    assert_eq!(held(&table), []);
    assert_eq!(table.bytes(), 0);
}

#[test]
fn a_table_starts_no_larger_than_everybody_expects() {
    let mut table = Table::new(1000, 100);
    for value in ["1", "2", "3"] {
        insert(&mut table, "a", value);
    }
    assert_eq!(held(&table).len(), 2);
    table.resize(1000).unwrap();
    for value in ["4", "5", "6"] {
        insert(&mut table, "a", value);
    }
    assert_eq!(held(&table).len(), 5);
    assert_eq!(table.resize(1001), Err(HpackError::TableSize));
}
