//! The names that a Go function declares itself, as far as its text has been read: each is known in its block, from its declaration on
//! (<https://go.dev/ref/spec#Declarations_and_scope>).

use std::collections::HashMap;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalName {
    /// A value of the function's own, or one that it was given.
    Own,
    /// The value of a package variable, which may be a map or a pointer.
    OfVariable,
    /// A part of a package variable, or one of its elements.
    PartOfVariable,
}

/// The names in the blocks around a place.
#[derive(Debug, Default)]
pub(super) struct LocalNames<'t> {
    blocks: Vec<Block<'t>>,
    /// Names that are known from a token on: their declaration is not read to its end.
    later: Vec<(usize, &'t str, LocalName)>,
}

#[derive(Debug)]
struct Block<'t> {
    names: HashMap<&'t str, LocalName>,
    /// Number of brackets around it.
    depth: usize,
    /// Whether it is the one of an `if`, `for`, `switch` or `select`, with what its head declares.
    is_head: bool,
    /// Whether the bracket behind that head has been read.
    has_body: bool,
}

impl<'t> LocalNames<'t> {
    /// Opens the block within a bracket, with the names of parameters.
    pub(super) fn open(&mut self, depth: usize, parameters: Vec<&'t str>) {
        if let Some(head) = self.blocks.last_mut().filter(|head| head.depth + 1 == depth) {
            head.has_body = true;
        }
        let names = parameters.into_iter().map(|name| (name, LocalName::Own)).collect();
        self.blocks.push(Block { names, depth, is_head: false, has_body: false });
    }

    /// Opens the block of an `if`, `for`, `switch` or `select`.
    pub(super) fn open_head(&mut self, depth: usize) {
        self.blocks.push(Block { names: HashMap::new(), depth, is_head: true, has_body: false });
    }

    /// Closes the blocks of a bracket.
    pub(super) fn close(&mut self, depth: usize) {
        self.blocks.truncate(self.blocks.partition_point(|block| block.depth < depth));
    }

    /// Ends the statements with a head that have a body, as far as they are in the innermost bracket.
    pub(super) fn end_heads(&mut self, depth: usize) {
        while self.blocks.pop_if(|block| block.is_head && block.depth == depth).is_some() {}
    }

    /// Begins the next case of a `switch` or `select`.
    pub(super) fn begin_case(&mut self) {
        self.blocks.iter_mut().rev().take(1).for_each(|block| block.names.clear());
    }

    /// Whether a head at this depth is being read.
    pub(super) fn is_in_head(&self, depth: usize) -> bool {
        self.blocks.last().is_some_and(|block| block.is_head && block.depth == depth && !block.has_body)
    }

    /// Declares a name that is known from the token at `from` on.
    pub(super) fn declare(&mut self, name: &'t str, local: LocalName, from: usize) {
        self.later.push((from, name, local));
    }

    /// The token at `at` is read next.
    pub(super) fn read_to(&mut self, at: usize) {
        if let Some(block) = self.blocks.last_mut().filter(|_| self.later.iter().any(|(from, ..)| *from <= at)) {
            let known = self.later.extract_if(.., |(from, ..)| *from <= at);
            block.names.extend(known.map(|(_, name, local)| (name, local)));
        }
    }

    /// Gives a local name another value.
    pub(super) fn assign(&mut self, name: &str, local: LocalName) {
        if let Some(known) = self.blocks.iter_mut().rev().find_map(|block| block.names.get_mut(name)) {
            *known = local;
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<LocalName> {
        self.blocks.iter().rev().find_map(|block| block.names.get(name).copied())
    }
}
