# Read by `mvn` before it starts (HOME/.mavenrc): runs Maven as asked and, beside it, tells the report of each file that
# Surefire or Failsafe has written, as soon as it is whole: its path, a newline, its content, a NUL. The last record is
# "end". A file may be told twice; whoever reads knows it again.
if [ -n "${PROCTOR_REPORT:-}" ]; then
  proctor_report=$PROCTOR_REPORT
  # Maven and the tests need not know; and this must not begin again.
  unset PROCTOR_REPORT
  proctor_dir=$(mktemp -d "${TMPDIR:-/tmp}/maven-watch.XXXXXX") || exit 1

  # What an earlier run left is older than this.
  touch "$proctor_dir/mark"
  exec 9> "$proctor_report"

  proctor_tell() {
    # A second back, since a file may have been written in the instant of the last look.
    touch -d '1 second ago' "$proctor_dir/next"
    # What projects have and compile is passed over, by its place: a module may be below a directory of such a name. TestNG
    # writes files of its own into junitreports, which say the same once more.
    find . -type d \( -name .git -o -name node_modules -o -name junitreports -o -path '*/src/main' -o -path '*/src/test' \
      -o -path '*/target/classes' -o -path '*/target/test-classes' \) -prune \
      -o -type f -name 'TEST-*.xml' -newer "$proctor_dir/mark" -print > "$proctor_dir/found" 2> /dev/null
    while IFS= read -r proctor_file; do
      # What is looked at is a copy: a class whose failed tests run again has its file written anew, at any moment.
      proctor_state=$(stat -c '%i %s %y' "$proctor_file" 2> /dev/null) && cp "$proctor_file" "$proctor_dir/copy" 2> /dev/null &&
        [ "$proctor_state" = "$(stat -c '%i %s %y' "$proctor_file" 2> /dev/null)" ] || continue
      case $(tail -c 64 "$proctor_dir/copy") in
        *'</testsuite>'*)
          printf '%s\n' "$proctor_file" >&9
          cat "$proctor_dir/copy" >&9
          printf '\0' >&9
          ;;
      esac
    done < "$proctor_dir/found"
    if [ "$proctor_dir/next" -nt "$proctor_dir/mark" ]; then mv "$proctor_dir/next" "$proctor_dir/mark"; fi
  }

  (
    while [ ! -e "$proctor_dir/done" ]; do
      proctor_tell
      sleep 0.2
    done
    proctor_tell
    printf 'end\n\0' >&9
  ) < /dev/null > /dev/null 2>&1 &
  proctor_watch=$!

  "$0" "$@" 9>&-
  proctor_status=$?
  : > "$proctor_dir/done"
  wait "$proctor_watch"
  exit "$proctor_status"
fi
