//! Go: which tests a changed source may affect (`rules`), by the imports of packages (`packages`), what tests reach beside them
//! (`reaching_tests`), the bodies of functions (`bodies`), less the lines by which `go vet` judges callers (`print_wrappers`), and the
//! lines of these (`line_shapes`). Of a function that may leave a value where other tests find it (`stores`), all tests of a package
//! count; for that, `function_reader` knows its names (`local_names`, `outer_names`), and `imported_calls` the standard library. `tokens`
//! divides a text, and `declarations` reads what is outside of functions. All is told by words, without a compiler, and rather too much
//! than too little.

pub(super) mod bodies;
mod declarations;
mod function_reader;
mod imported_calls;
pub(super) mod line_shapes;
mod local_names;
mod outer_names;
mod packages;
mod print_wrappers;
mod reaching_tests;
pub(super) mod rules;
mod stores;
mod tokens;

#[cfg(test)]
mod tests;
