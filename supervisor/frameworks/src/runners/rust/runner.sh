#!/bin/sh
# Wrapper around every test binary that Cargo runs: stable libtest reports results as they come only with options that are
# still unstable. Adds these options, and prints which binary begins and how it ended.

# Commands that a test starts must not use this wrapper: it may run cargo, or the project's programs as cargo would.
unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUNNER
unset CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER

binary=$1
name=${binary##*/}
name=${name%-*}
threads=
#one-at-a-time#
#own-runner#

# The programs that rustdoc builds from doctests have no harness of their own.
case $binary in
*/rustdoctest*) exec "$@" ;;
esac

case $CARGO_MANIFEST_DIR:$name in
#plain-binaries#
*)
  echo "proctor-began $binary"
  # Any value enables libtest's unstable options; only 1 would enable the compiler's, for code that tests compile.
  RUSTC_BOOTSTRAP=0 "$@" -Zunstable-options --format=json --report-time $threads
  ;;
esac
status=$?
# The binary may have ended in the middle of a line.
printf '\nproctor-ended %s\n' "$status"
exit "$status"
