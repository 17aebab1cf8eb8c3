//! `forward_auth`: how descriptors are made of requests.

use super::Reader;
use super::descriptor::DEPTH_MAX;
use super::fields::Fields;
use crate::keys::forward_auth::{
    ACTION, GENERIC_KEY, HEADER_VALUE_MATCH, MASKED_REMOTE_ADDRESS, PART_NAME_CHARS_MAX,
    QUERY_PARAMETER_VALUE_MATCH, QUERY_PARAMETERS, RECIPE, REMOTE_ADDRESS, REQUEST_HEADERS, V4_BITS, V6_BITS,
};
use crate::keys::{KEY_CHARS_MAX, VALUE_CHARS_MAX};
use crate::problem::{Mark, quote};
use crate::recipe::{Action, Matcher, Part, Recipe};
use crate::yaml::{Entry, Node};

/// The most descriptors that are made of one request.
const RECIPES_MAX: usize = 128;
/// The most actions that make one: no descriptor may be longer.
const ACTIONS_MAX: usize = DEPTH_MAX;

/// What Envoy calls parts of the request's first line.
const PSEUDO_HEADERS: [&str; 4] = [":path", ":method", ":authority", ":scheme"];

impl Reader<'_, '_> {
    /// The entries of `forward_auth`, and where they stand.
    pub(super) fn recipes(&mut self, entry: &Entry) -> Option<Vec<(Recipe, Mark)>> {
        let items = self.list_up_to(entry, RECIPES_MAX)?;
        let mut recipes = Vec::with_capacity(items.len());
        for item in items.iter() {
            recipes.extend(self.recipe(item).map(|recipe| (recipe, item.mark)));
        }
        Some(recipes)
    }

    fn recipe(&mut self, node: &Node) -> Option<Recipe> {
        let fields = self.fields(node, &RECIPE, node.mark)?;
        self.check_required(&fields);
        let items =
            self.field(&fields, "actions", |reader, entry| reader.list_up_to(entry, ACTIONS_MAX)).value()?;
        if let Some(entry) = fields.entry("actions").filter(|_| items.is_empty()) {
            self.wrong(
                entry.key_mark,
                "`actions` is empty",
                "give it at least one, such as `- remote_address: {}`",
            );
        }
        let mut actions = Vec::with_capacity(items.len());
        for item in items.iter() {
            actions.extend(self.action(item));
        }
        Some(Recipe { actions })
    }

    fn action(&mut self, node: &Node) -> Option<Action> {
        let fields = self.fields(node, &ACTION, node.mark)?;
        let keys: Vec<&str> = ACTION.keys().map(|key| key.name).collect();
        if !self.only_one(&fields, &keys, "begin each action with a `- ` of its own") {
            return None;
        }
        let Some(entry) = fields.entries().first() else {
            if fields.knows_all() {
                self.wrong(
                    fields.mark,
                    "an action says nothing",
                    "write `- remote_address: {}`, or another of the actions",
                );
            }
            return None;
        };
        self.action_of(entry)
    }

    fn action_of(&mut self, entry: &Entry) -> Option<Action> {
        let (node, mark) = (&entry.value, entry.key_mark);
        match &*entry.key {
            "request_headers" => {
                let fields = self.fields(node, &REQUEST_HEADERS, mark)?;
                self.copied(&fields, Part::Header, "header_name")
            }
            "query_parameters" => {
                let fields = self.fields(node, &QUERY_PARAMETERS, mark)?;
                self.copied(&fields, Part::Query, "query_parameter_name")
            }
            "remote_address" => self.fields(node, &REMOTE_ADDRESS, mark).map(|_| Action::RemoteAddress),
            "masked_remote_address" => {
                let fields = self.fields(node, &MASKED_REMOTE_ADDRESS, mark)?;
                Some(Action::MaskedRemoteAddress {
                    v4_prefix_mask_len: self.bits(&fields, "v4_prefix_mask_len", V4_BITS),
                    v6_prefix_mask_len: self.bits(&fields, "v6_prefix_mask_len", V6_BITS),
                })
            }
            "generic_key" => {
                let fields = self.fields(node, &GENERIC_KEY, mark)?;
                let (key, value) = self.fixed(&fields, "generic_key")?;
                Some(Action::Generic { key, value })
            }
            "header_value_match" => {
                let fields = self.fields(node, &HEADER_VALUE_MATCH, mark)?;
                let matchers = self.field(&fields, "headers", Reader::header_matchers).value();
                self.matched(&fields, Part::Header, "header_match", matchers)
            }
            _ => {
                let fields = self.fields(node, &QUERY_PARAMETER_VALUE_MATCH, mark)?;
                let matchers = self.field(&fields, "query_parameters", Reader::parameter_matchers).value();
                self.matched(&fields, Part::Query, "query_match", matchers)
            }
        }
    }

    fn copied(&mut self, fields: &Fields, part: Part, name_key: &'static str) -> Option<Action> {
        self.check_required(fields);
        let name = self.part_name(fields, part, name_key);
        let key = self.filled(fields, "descriptor_key", KEY_CHARS_MAX);
        let skip_if_absent = self.flag(fields, "skip_if_absent", false);
        Some(Action::Copied { part, name: name?, key: key?, skip_if_absent })
    }

    fn matched(
        &mut self,
        fields: &Fields,
        part: Part,
        default_key: &str,
        matchers: Option<Vec<Matcher>>,
    ) -> Option<Action> {
        let expect_match = self.flag(fields, "expect_match", true);
        let (key, value) = self.fixed(fields, default_key)?;
        Some(Action::Matched { part, matchers: matchers?, expect_match, key, value })
    }

    /// The key and the value of an entry that is always the same.
    fn fixed(&mut self, fields: &Fields, default_key: &str) -> Option<(String, String)> {
        self.check_required(fields);
        let value = self.filled(fields, "descriptor_value", VALUE_CHARS_MAX);
        let key = if fields.has("descriptor_key") {
            self.filled(fields, "descriptor_key", KEY_CHARS_MAX)
        } else {
            Some(default_key.to_owned())
        };
        Some((key?, value?))
    }

    fn bits(&mut self, fields: &Fields, key: &'static str, max: u64) -> u8 {
        let length = self.field(fields, key, |reader, entry| reader.whole_up_to(entry, max)).value();
        u8::try_from(length.unwrap_or(max)).unwrap_or(u8::MAX)
    }

    /// The name of a header or of a parameter.
    pub(super) fn part_name(&mut self, fields: &Fields, part: Part, key: &'static str) -> Option<String> {
        let name = self.filled(fields, key, PART_NAME_CHARS_MAX)?;
        let mark = fields.entry(key).map_or(fields.mark, |entry| entry.value.mark);
        match part {
            Part::Query => Some(name),
            Part::Header => self.header_name(&name, mark),
        }
    }

    /// Names of headers mean the same in either case.
    fn header_name(&mut self, name: &str, mark: Mark) -> Option<String> {
        let name = name.to_ascii_lowercase();
        if name.starts_with(':') {
            if PSEUDO_HEADERS.contains(&&*name) {
                return Some(name);
            }
            let what = format!("no request has a header {}", quote(&name));
            self.wrong(
                mark,
                what,
                format!("of those that begin with a colon there are {}", PSEUDO_HEADERS.join(", ")),
            );
            return None;
        }
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.bytes().all(is_token) {
            return Some(name);
        }
        let what = format!("no header can be called {}", quote(&name));
        self.wrong(mark, what, "names of headers are letters, digits and dashes, such as `x-api-key`");
        None
    }

    /// Text that must not be empty.
    pub(super) fn filled(&mut self, fields: &Fields, key: &'static str, chars_max: usize) -> Option<String> {
        let found = self.field(fields, key, |reader, entry| reader.text_up_to(entry, chars_max));
        if let Some(given) = found.given().filter(|given| given.value.is_empty()) {
            self.wrong(given.mark, format!("`{key}` is empty"), "give it a value");
            return None;
        }
        found.value()
    }

    /// What must be there.
    pub(super) fn check_required(&mut self, fields: &Fields) {
        for key in fields.table.required.iter().filter(|key| fields.lacks(key)) {
            let title = fields.table.title;
            self.wrong(fields.mark, format!("{title} lacks `{key}`"), super::fields::example(fields.table));
        }
    }
}
