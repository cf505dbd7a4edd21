//! Walks an untrusted XML document: elements, attributes and text. Nothing in a document can make the result grow: entities are
//! XML's own five and characters by number, any other stays as written, and a DOCTYPE is skipped.

use proctor_core::bounds::TEST_OUTPUT_BYTES_MAX;
use quick_xml::Reader;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart, Event};

/// Deepest nesting that is followed. Reports have five levels.
const DEPTH_MAX: usize = 64;

/// Most attributes of one element that are read. Reports have ten.
const ATTRIBUTES_MAX: usize = 32;

/// A part of a document.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// An element opens: its name without a prefix.
    Open(&'a str, Attributes),
    /// A piece of text within an element, with entities resolved.
    Text(&'a str),
    /// The innermost open element closes.
    Close,
}

/// Attributes of one element.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<(String, String)>);

impl Attributes {
    /// The value of `name`, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// The value of `name` as a number.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.trim().parse().ok()
    }
}

/// Passes every part of `bytes` to `each`, in order; several documents may follow one another. The error says what was wrong at
/// which byte; parts passed before it stay valid.
pub(super) fn walk(bytes: &[u8], mut each: impl FnMut(Part<'_>)) -> Result<(), String> {
    let mut reader = Reader::from_reader(bytes);
    reader.config_mut().allow_dangling_amp = true;
    let mut depth = 0_usize;
    loop {
        let event = reader.read_event().map_err(|error| format!("{error} at byte {}", reader.error_position()))?;
        match event {
            Event::Start(element) => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(format!("more than {DEPTH_MAX} levels"));
                }
                open(&element, &mut each);
            }
            Event::Empty(element) => {
                open(&element, &mut each);
                each(Part::Close);
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                each(Part::Close);
            }
            Event::Text(text) => each(Part::Text(&String::from_utf8_lossy(&text))),
            Event::CData(text) => each(Part::Text(&String::from_utf8_lossy(&text))),
            Event::GeneralRef(name) => each(Part::Text(&resolved(&name))),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof if depth > 0 => return Err(format!("{depth} element(s) without an end")),
            Event::Eof => return Ok(()),
        }
    }
}

fn open(element: &BytesStart<'_>, each: &mut impl FnMut(Part<'_>)) {
    let mut attributes = element.attributes();
    // The reader's own check for duplicate names is quadratic in their number.
    attributes.with_checks(false);
    let read = attributes.flatten().take(ATTRIBUTES_MAX).map(|attribute| {
        let raw = clipped(&attribute.value);
        let value = unescape(&raw).map_or_else(|_| raw.clone(), std::borrow::Cow::into_owned);
        (String::from_utf8_lossy(attribute.key.local_name().as_ref()).into_owned(), value)
    });
    let read = Attributes(read.collect());
    each(Part::Open(&String::from_utf8_lossy(element.local_name().as_ref()), read));
}

fn resolved(name: &BytesRef<'_>) -> String {
    if let Ok(Some(character)) = name.resolve_char_ref() {
        return character.to_string();
    }
    let name = clipped(name);
    resolve_xml_entity(&name).map_or_else(|| format!("&{name};"), str::to_owned)
}

/// The beginning of a value or name, up to the bound that is kept of any text.
fn clipped(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..TEST_OUTPUT_BYTES_MAX).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: &str) -> (String, Result<(), String>) {
        let mut text = String::new();
        let ended = walk(document.as_bytes(), |part| match part {
            Part::Open(name, attributes) => text.push_str(&format!("<{name} {:?}>", attributes.0)),
            Part::Text(more) => text.push_str(more),
            Part::Close => text.push_str("</>"),
        });
        (text, ended)
    }

    #[test]
    fn resolves_entities_in_text_and_attributes() {
        let (text, ended) =
            text("<?xml version='1.0'?><n:a x='&lt;1&#10;&quot;'>1 &amp; 2 <![CDATA[<b>]]>&#x41;<b/></n:a>");
        assert_eq!(text, "<a [(\"x\", \"<1\\n\\\"\")]>1 & 2 <b>A<b []></></>");
        assert_eq!(ended, Ok(()));
    }

    #[test]
    fn never_expands_entities_of_a_document() {
        let laughs = "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\"><!ENTITY x SYSTEM \"file:///etc/passwd\">]><l c='&b;'>&b;&x;</l>";
        assert_eq!(text(laughs).0, "<l [(\"c\", \"&b;\")]>&b;&x;</>");
    }

    #[test]
    fn reports_a_truncated_or_too_deeply_nested_document() {
        assert_eq!(text("<a><b>x").1, Err("2 element(s) without an end".to_owned()));
        assert!(text("<a>x</b>").1.is_err());
        assert!(text("<a x='1").1.is_err());
        assert_eq!(text(&"<a>".repeat(100_000)).1, Err("more than 64 levels".to_owned()));
        assert_eq!(text("").1, Ok(()));
    }

    #[test]
    fn reads_a_bounded_number_of_attributes() {
        let many: String = (0..200_000).map(|number| format!(" a{number}='x'")).collect();
        assert!(text(&format!("<a{many}/>")).0.ends_with("(\"a31\", \"x\")]></>"));
    }
}
