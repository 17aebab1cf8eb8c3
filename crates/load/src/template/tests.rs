//! Keys stand where they were asked for, in templates made of templates too.

use super::Template;

fn check(template: &Template, key: u64, text: &str) {
    let mut out = b"before ".to_vec();
    template.write(key, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("before {text}"));
    assert_eq!(template.len(), text.len());
}

#[test]
fn every_mark_becomes_the_key() {
    check(&Template::of("a={key}&b={key}"), 47, "a=000000000047&b=000000000047");
    check(&Template::of("{key}"), 999_999_999_999, "999999999999");
    check(&Template::of("no mark"), 1, "no mark");
}

#[test]
fn templates_stand_one_behind_the_other() {
    let mut whole = Template::of("<{key}>");
    whole.push(b"+");
    whole.append(&Template::of("[{key}]"));
    check(&whole, 1_020_304_050, "<001020304050>+[001020304050]");
}
