//! What a line of a function is, where edits of it can be told to concern only what executes it.

/// The kind of a line. Lines of the same kind have the same brackets of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineShape {
    /// None of the others.
    Other,
    /// A statement, or a part of one, without brackets of blocks.
    Statement,
    /// Nothing, or a comment.
    Blank,
    /// The head of a condition, loop or choice with its block's first bracket.
    Head,
    /// The end of a block with the head of a condition that is evaluated in place of it.
    ElseIf,
    /// The end of a block with the beginning of the one that is executed in place of it.
    Else,
    /// The end of a block.
    End,
    /// The head of one case of a choice.
    Case,
}

impl LineShape {
    /// All, by number.
    const ALL: [LineShape; 8] = [
        LineShape::Other,
        LineShape::Statement,
        LineShape::Blank,
        LineShape::Head,
        LineShape::ElseIf,
        LineShape::Else,
        LineShape::End,
        LineShape::Case,
    ];

    /// Bits of the number.
    pub(super) const BITS: u32 = 3;

    pub(super) fn number(self) -> u32 {
        (0..).zip(Self::ALL).find_map(|(number, shape)| (shape == self).then_some(number)).unwrap_or(0)
    }

    pub(super) fn from_number(number: u32) -> LineShape {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied()).unwrap_or(LineShape::Other)
    }

    /// Whether an edit may put a line of the kind `new` in place of one of this kind, and leaves the blocks around them as they are.
    pub(super) fn may_become(self, new: LineShape) -> bool {
        match (self, new) {
            (LineShape::Statement, LineShape::Blank) => true,
            // Of a case the tests that do not choose it evaluate what it is compared with.
            (LineShape::Other | LineShape::Case, _) => false,
            _ => self == new,
        }
    }

    /// Whether it is executed itself, and not only the lines around it.
    pub(super) fn is_executed(self) -> bool {
        matches!(self, LineShape::Statement | LineShape::Head | LineShape::ElseIf)
    }

    /// Whether what comes right before this line goes on to execute it.
    pub(super) fn begins_statement(self) -> bool {
        matches!(self, LineShape::Statement | LineShape::Head)
    }

    /// Whether only what executes this line comes right behind it.
    pub(super) fn leads_on(self) -> bool {
        match self {
            LineShape::Statement | LineShape::Head | LineShape::ElseIf | LineShape::Else | LineShape::Case => true,
            LineShape::Other | LineShape::Blank | LineShape::End => false,
        }
    }

    /// The numbers of the lines with which the statements begin, or go on, that lines of these kinds are, beside those in their blocks.
    /// `None` if they are not whole statements, with all of their blocks.
    pub(super) fn statements(lines: impl IntoIterator<Item = LineShape>) -> Option<Vec<usize>> {
        let (mut depth, mut found) = (0_usize, Vec::new());
        for (number, line) in lines.into_iter().enumerate() {
            found.extend((depth == 0 && line.is_executed()).then_some(number));
            match line {
                LineShape::Statement | LineShape::Blank => {}
                LineShape::Head => depth += 1,
                LineShape::ElseIf | LineShape::Else | LineShape::Case if depth > 0 => {}
                LineShape::End if depth > 0 => depth -= 1,
                LineShape::Other | LineShape::ElseIf | LineShape::Else | LineShape::Case | LineShape::End => {
                    return None;
                }
            }
        }
        (depth == 0).then_some(found)
    }
}
