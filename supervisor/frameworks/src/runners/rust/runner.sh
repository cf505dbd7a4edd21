#!/bin/sh
# Cargo runs every test binary through this, since stable libtest tells its results as they come only when asked for what
# is still unstable. Adds what asks for it, and says which binary begins and how it ended. Must not know what tests print.

# What a test starts must not come through here: it may run cargo, or the project's programs as cargo would.
unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUNNER
unset CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER

binary=$1
name=${binary##*/}
name=${name%-*}
#own-runner#

# The programs that rustdoc makes of doctests have no harness of their own.
case $binary in
*/rustdoctest*) exec "$@" ;;
esac

case $CARGO_MANIFEST_DIR:$name in
#plain-binaries#
*)
  echo "proctor-began $binary"
  # Any value opens libtest's door; only 1 would open the compiler's, for what tests compile.
  RUSTC_BOOTSTRAP=0 "$@" -Zunstable-options --format=json --report-time
  ;;
esac
status=$?
# The binary may have ended in the middle of a line.
printf '\nproctor-ended %s\n' "$status"
exit "$status"
