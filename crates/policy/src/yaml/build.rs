//! From the events of a parser to a tree.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::complaint::{TOO_DEEP_HINT, complaint, too_deep_what};
use super::{BYTES_MAX, Content, DEPTH_MAX, Entry, NODES_MAX, Node, Scalar, Size};
use crate::problem::{Mark, Page, Problem, Problems, quote};

/// The text cannot be understood any further, and it has been said why.
struct Stop;

/// A key as it stands, and whether it does so without quotes.
struct Key {
    text: Rc<str>,
    mark: Mark,
    plain: bool,
}

/// A list or mapping whose end was not seen yet.
struct Open {
    mark: Mark,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map(MapItems),
}

#[derive(Default)]
struct MapItems {
    entries: Vec<Entry>,
    marks: HashMap<Rc<str>, Mark>,
    merges: Vec<Node>,
    slot: Slot,
}

/// What a mapping waits for.
#[derive(Default)]
enum Slot {
    #[default]
    Key,
    ValueOf(Key),
    /// A value whose key was refused.
    Nothing,
}

struct Builder<'p, 't> {
    page: &'p Page<'t>,
    problems: &'p mut Problems,
    open: Vec<Open>,
    /// What anchors name; nothing while it is still open.
    anchors: HashMap<usize, Node>,
    total: Size,
    documents: usize,
    root: Option<Node>,
}

pub(super) fn build(text: &str, page: &Page<'_>, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder {
        page,
        problems,
        open: Vec::new(),
        anchors: HashMap::new(),
        total: Size { nodes: 0, bytes: 0 },
        documents: 0,
        root: None,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.event(event, span).ok()?,
            Err(error) => {
                builder.problems.push(complaint(&error, page));
                return None;
            }
        }
    }
    builder.root
}

impl Builder<'_, '_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        let mark = mark_of(span);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(mark),
            Event::Alias(anchor) => self.alias(anchor, mark),
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = self.is_text_tag(tag.as_deref(), mark)?;
                let plain = style == ScalarStyle::Plain && !is_text;
                let node = Node {
                    mark: if span.is_empty() { Mark { width: 1, ..mark } } else { mark },
                    content: Content::Scalar(Scalar { text: Rc::from(&*text), plain }),
                    size: Size { nodes: 1, bytes: text.len() },
                    height: 1,
                };
                self.close(node, Size { nodes: 1, bytes: text.len() }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.is_text_tag(tag.as_deref(), mark)?;
                self.start(Open { mark, anchor, items: Items::List(Vec::new()) })
            }
            Event::MappingStart(anchor, tag) => {
                self.is_text_tag(tag.as_deref(), mark)?;
                self.start(Open { mark, anchor, items: Items::Map(MapItems::default()) })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn document(&mut self, mark: Mark) -> Result<(), Stop> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        self.stop(
            mark,
            "a second document begins here",
            "a file holds one domain; put the rest into a file of its own",
        )
    }

    fn start(&mut self, open: Open) -> Result<(), Stop> {
        self.check_depth(1, open.mark)?;
        self.open.push(open);
        Ok(())
    }

    fn check_depth(&mut self, height: usize, mark: Mark) -> Result<(), Stop> {
        if self.open.len() + height <= DEPTH_MAX {
            return Ok(());
        }
        self.stop(mark, too_deep_what(), TOO_DEEP_HINT)
    }

    fn count(&mut self, size: Size, mark: Mark) -> Result<(), Stop> {
        self.total.nodes = self.total.nodes.saturating_add(size.nodes);
        self.total.bytes = self.total.bytes.saturating_add(size.bytes);
        let much = if self.total.nodes > NODES_MAX {
            format!("{NODES_MAX} values")
        } else if self.total.bytes > BYTES_MAX {
            format!("{} MiB of text", BYTES_MAX >> 20)
        } else {
            return Ok(());
        };
        self.stop(
            mark,
            format!("the file has more than {much}, counted with what its aliases stand for"),
            "use fewer aliases (`*name`), or put the rules into several files, one domain each",
        )
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> Result<(), Stop> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return self.stop(mark, "this alias stands inside of what it names", "repeat the text instead");
        };
        self.check_depth(node.height, mark)?;
        // Where the budget is exceeded, the alias is to blame and not what it names.
        self.count(node.size, mark)?;
        self.place(node);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let content = match open.items {
            Items::List(items) => Content::List(Rc::from(items)),
            Items::Map(map) => Content::Map(Rc::from(self.merged(map)?)),
        };
        let (mut size, mut height) = (Size { nodes: 1, bytes: 0 }, 0);
        let mut add = |inner: Size, node: &Node| {
            size.nodes = size.nodes.saturating_add(inner.nodes);
            size.bytes = size.bytes.saturating_add(inner.bytes);
            height = height.max(node.height);
        };
        match &content {
            Content::List(items) => items.iter().for_each(|node| add(node.size, node)),
            Content::Map(entries) => entries.iter().for_each(|entry| add(entry.size(), &entry.value)),
            Content::Scalar(_) => {}
        }
        let node = Node { mark: open.mark, content, size, height: height + 1 };
        // What is inside has been counted.
        self.close(node, Size { nodes: 1, bytes: 0 }, open.anchor)
    }

    /// A node is complete, and adds so much to what is inside of it.
    fn close(&mut self, node: Node, own: Size, anchor: usize) -> Result<(), Stop> {
        self.count(own, node.mark)?;
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node);
        Ok(())
    }

    /// Puts a node where it belongs: into what is open.
    fn place(&mut self, node: Node) {
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(items)) => items.push(node),
            Some(Items::Map(map)) => match std::mem::take(&mut map.slot) {
                Slot::Key => {
                    map.slot = slot_after(node).unwrap_or_else(|mark| {
                        let hint = "write `key: value`; a value that begins with `{` goes in quotes";
                        self.problems
                            .push(Problem::new(self.page.position(mark), "a key must be text").hint(hint));
                        Slot::Nothing
                    });
                }
                Slot::ValueOf(key) if key.plain && &*key.text == "<<" => map.merges.push(node),
                Slot::ValueOf(key) => self.entry(key, node),
                Slot::Nothing => {}
            },
        }
    }

    fn entry(&mut self, key: Key, value: Node) {
        let Some(Open { items: Items::Map(map), .. }) = self.open.last_mut() else { return };
        if let Some(first) = map.marks.get(&key.text) {
            let what = format!("the key {} is given twice", quote(&key.text));
            let problem = Problem::new(self.page.position(key.mark), what);
            self.problems.push(
                problem.also(self.page.position(*first), "first given here").hint("keep one of the two"),
            );
            return;
        }
        map.marks.insert(Rc::clone(&key.text), key.mark);
        map.entries.push(Entry { key: key.text, key_mark: key.mark, value });
    }

    /// The entries of a mapping, and those that its merge keys add: of each key, what was given first counts.
    fn merged(&mut self, map: MapItems) -> Result<Vec<Entry>, Stop> {
        let MapItems { mut entries, mut marks, merges, .. } = map;
        for merge in merges {
            let maps = match &merge.content {
                Content::List(items) => &items[..],
                _ => std::slice::from_ref(&merge),
            };
            for node in maps {
                let Content::Map(added) = &node.content else {
                    let problem = Problem::new(
                        self.page.position(node.mark),
                        format!("`<<` cannot merge {}", node.kind()),
                    );
                    self.problems
                        .push(problem.hint("give it an alias of a mapping, `<<: *name`, or a list of such"));
                    continue;
                };
                for entry in added.iter().filter(|entry| !marks.contains_key(&entry.key)) {
                    self.count(entry.size(), merge.mark)?;
                    entries.push(entry.clone());
                }
                marks.extend(added.iter().map(|entry| (Rc::clone(&entry.key), entry.key_mark)));
            }
        }
        Ok(entries)
    }

    /// Whether a tag says that this is text, whatever it looks like. Tags of other kinds of the core schema say
    /// nothing that the reader of the value does not check; any other has no meaning here.
    fn is_text_tag(&mut self, tag: Option<&Tag>, mark: Mark) -> Result<bool, Stop> {
        let Some(tag) = tag else { return Ok(false) };
        let is_core = tag.is_yaml_core_schema() || (tag.handle.is_empty() && tag.suffix == "!");
        if is_core {
            return Ok(matches!(&*tag.suffix, "str" | "!"));
        }
        self.stop(mark, format!("the tag {} has no meaning here", quote(&tag.to_string())), "remove it")
    }

    fn stop<T>(&mut self, mark: Mark, what: impl Into<String>, hint: &str) -> Result<T, Stop> {
        self.problems.push(Problem::new(self.page.position(mark), what).hint(hint));
        Err(Stop)
    }
}

impl Entry {
    fn size(&self) -> Size {
        let Size { nodes, bytes } = self.value.size;
        Size { nodes, bytes: bytes.saturating_add(self.key.len()) }
    }
}

/// What a mapping waits for after a node in the place of a key, unless that is none.
fn slot_after(node: Node) -> Result<Slot, Mark> {
    match node.content {
        Content::Scalar(Scalar { text, plain }) => Ok(Slot::ValueOf(Key { text, mark: node.mark, plain })),
        _ => Err(node.mark),
    }
}

/// Where a span stands. One that goes on over several lines is meant up to the end of its first.
fn mark_of(span: Span) -> Mark {
    let is_one_line = span.end.line() == span.start.line();
    let width = if is_one_line { span.end.col().saturating_sub(span.start.col()) } else { usize::MAX };
    Mark { width: small(width.max(1)), ..mark_at(&span.start) }
}

/// Where a marker stands.
pub(super) fn mark_at(marker: &Marker) -> Mark {
    Mark { line: small(marker.line()), column: small(marker.col() + 1), width: 1 }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
