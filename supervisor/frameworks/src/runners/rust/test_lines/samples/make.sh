#!/bin/sh
# Makes the samples of this directory: what the recorder leaves of the library's own tests of `fixtures/cargo/lines`.
# Needs cargo and a C compiler. Run it from the root of the sources.
set -eu
here=supervisor/frameworks/src/runners/rust/test_lines
root=/tmp/proctor-samples
rm -rf "$root"
mkdir -p "$root/work" "$root/lines"
cp -r fixtures/cargo/lines "$root/workspace"
cc -std=gnu11 -O2 -c -fPIC -fvisibility=hidden -o "$root/recorder.o" "$here/recorder.c"
sed "s|#scratch#|$root|g; s|#recorder#|recorder.o|g" "$here/rustc_wrapper.sh" >"$root/rustc"
chmod +x "$root/rustc"
cd "$root/workspace"
export CARGO_TARGET_DIR="$root/target" LLVM_PROFILE_FILE=/dev/null PROCTOR_COVERAGE="$root/lines"
RUSTC_BOOTSTRAP=0 cargo test --config "build.rustc-workspace-wrapper=\"$root/rustc\"" --lib -- \
  -Zunstable-options --format=json --test-threads=1
cd "$OLDPWD"
cp "$root"/lines/*.map "$here/samples/library.map"
cp "$root"/lines/*.records "$here/samples/library.records"
rm -rf "$root"
