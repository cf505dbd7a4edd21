//! What a line of a function is, where edits of it can be told to concern only what executes it.

/// The kind of a line. Lines of the same kind have the same brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineShape {
    /// None of the others.
    Other,
    /// A statement, or a part of one, without brackets of blocks.
    Statement,
    /// Nothing, or a comment.
    Blank,
    /// The head of a condition with its block's first bracket.
    If,
    /// The end of a block with the head of a condition that is evaluated in place of it.
    ElseIf,
    /// The head of a loop.
    For,
    /// The head of a choice.
    Switch,
}

impl LineShape {
    /// All, by number.
    const ALL: [LineShape; 7] = [
        LineShape::Other,
        LineShape::Statement,
        LineShape::Blank,
        LineShape::If,
        LineShape::ElseIf,
        LineShape::For,
        LineShape::Switch,
    ];

    /// Bits of the number.
    pub(super) const BITS: u32 = 3;

    pub(super) fn number(self) -> u32 {
        (0..).zip(Self::ALL).find_map(|(number, shape)| (shape == self).then_some(number)).unwrap_or(0)
    }

    pub(super) fn from_number(number: u32) -> LineShape {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied()).unwrap_or(LineShape::Other)
    }

    /// Whether a line without brackets may take the place of one of this kind.
    pub(super) fn is_plain(self) -> bool {
        matches!(self, LineShape::Statement | LineShape::Blank)
    }

    /// Whether what comes right before this line goes on to execute it.
    pub(super) fn begins_statement(self) -> bool {
        matches!(self, LineShape::Statement | LineShape::If | LineShape::For | LineShape::Switch)
    }

    /// Whether only what executes this line comes right behind it.
    pub(super) fn leads_on(self) -> bool {
        matches!(self, LineShape::Statement | LineShape::If | LineShape::ElseIf | LineShape::For)
    }
}
