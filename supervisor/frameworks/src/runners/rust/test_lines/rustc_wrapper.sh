#!/bin/sh
# Stands before rustc for the packages of a workspace, when the lines of each test are measured: instruments what is compiled
# for tests, and links programs with the recorder (`recorder.c`). What cannot be instrumented is compiled as it would be.

work='#scratch#/work'
# Tells the reader that lines were to be measured, also if no program of the run can be. Cargo asks for rustc's version in each run.
[ -d "$PROCTOR_COVERAGE" ] && : >"$PROCTOR_COVERAGE/requested"
name= types= out= suffix= emit= target= is_test= previous=
for argument; do
  case $previous in
  --crate-name) name=$argument ;;
  --crate-type) types="$types $argument" ;;
  --out-dir) out=$argument ;;
  --target) target=$argument ;;
  esac
  case $argument in
  --test) is_test=1 ;;
  --emit=*) emit=$argument ;;
  --target=*) target=${argument#*=} ;;
  extra-filename=*) suffix=${argument#*=} ;;
  *instrument-coverage* | *profile-generate* | *profile-use*) exec "$@" ;;
  esac
  previous=$argument
done

case $name in '' | build_script_*) exec "$@" ;; esac
case $types in *proc-macro*) exec "$@" ;; esac
case $emit in *link*) ;; *) exec "$@" ;; esac
case $target in '' | x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu) ;; *) exec "$@" ;; esac

# Some installations of Rust lack the profile runtime. Asked once for each toolchain of the run.
known=$work/rust-profiler-$(printf %s "$1 $RUSTUP_TOOLCHAIN" | tr -c 'A-Za-z0-9\n' -)
if [ ! -e "$known-no" ] && [ ! -e "$known-yes" ]; then
  has=no
  for library in "$("$1" --print=sysroot)"/lib/rustlib/*/lib/libprofiler_builtins*; do
    [ -e "$library" ] && has=yes
  done
  : >"$known-$has"
fi
[ -e "$known-yes" ] || exec "$@"

case $is_test$types in ' lib' | ' rlib') exec "$@" -C instrument-coverage ;; esac

# A program, which cargo names no type of if it has a harness of its own, gets the recorder. What cargo calls its target is
# behind its file's name, for the reader of the records.
recorder=
case $is_test$types in '' | 1* | *bin*)
  if [ "$is_test$CARGO_TARGET_TMPDIR" ]; then
    kind=lib
    [ "$CARGO_BIN_NAME" ] && kind=bin
    [ "$CARGO_TARGET_TMPDIR" ] && kind=test
    printf '%s\n%s\n%s\n' "$CARGO_PKG_NAME" "$kind" "$name" >"$out/$name$suffix.proctor"
  fi
  recorder='-C link-arg=#scratch#/#recorder#'
  ;;
esac

# What links only as it is, such as a program with a C library of its own, is built so.
log=$work/rustc-$$
"$@" -C instrument-coverage $recorder 2>"$log"
status=$?
if [ "$status" = 0 ] || ! grep -q 'linking with' "$log"; then
  cat "$log" >&2
  rm -f "$log"
  exit "$status"
fi
rm -f "$log"
exec "$@"
