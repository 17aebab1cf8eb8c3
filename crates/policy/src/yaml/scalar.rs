//! What a scalar without quotes means, by the core schema of YAML 1.2.

/// The meaning of a plain scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Plain {
    Null,
    Boolean(bool),
    /// A whole number; wide enough to tell what is too large from what is no number.
    Whole(i128),
    Float(f64),
    Text,
}

/// What the text means.
pub(crate) fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "true" | "True" | "TRUE" => return Plain::Boolean(true),
        "false" | "False" | "FALSE" => return Plain::Boolean(false),
        ".nan" | ".NaN" | ".NAN" => return Plain::Float(f64::NAN),
        _ => {}
    }
    whole(text).map(Plain::Whole).or_else(|| float(text).map(Plain::Float)).unwrap_or(Plain::Text)
}

fn whole(text: &str) -> Option<i128> {
    let based = |digits: &str, radix| {
        let ok = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        ok.then(|| i128::from_str_radix(digits, radix).unwrap_or(i128::MAX))
    };
    if let Some(digits) = text.strip_prefix("0x") {
        return based(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return based(digits, 8);
    }
    match text.strip_prefix('-') {
        Some(digits) => based(digits, 10).map(|number| -number),
        None => based(text.strip_prefix('+').unwrap_or(text), 10),
    }
}

fn float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    // Rust also reads `inf`, `infinity` and `nan`, which are words here.
    let is_number = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if is_number { text.parse().ok() } else { None }
}
