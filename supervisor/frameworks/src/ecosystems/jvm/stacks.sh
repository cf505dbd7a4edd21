# Started beside a run at its deadline, in the run's own namespaces: prints the threads of the JVMs that run tests, as `jcmd
# Thread.print` does, and then a line `source: PATH` for each source file of the project that they name. Maven's and Gradle's own
# JVMs are not asked.
#
# The caller kills this program when its time is up; what it has printed by then counts.

# Most JVMs that are asked.
jvms_max=8

# Most bytes of threads that are printed: at most 2 MiB are read, and the source files come last.
dump_max=1500000

# Tenths of a second that a JVM may take to open its socket.
open_max=30

here=${0%/*}
dumps=$(mktemp "${TMPDIR:-/tmp}/stacks.XXXXXX") || exit 1

# Whether the process $1 handles SIGQUIT, the third signal. It would end a JVM that does not: one with `-Xrs`, or that only begins.
catches_quit() {
  case $(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2> /dev/null) in
    *[4-7c-f]) return 0 ;;
    *) return 1 ;;
  esac
}

# Whether the JVM $1 has no attach listener, by its arguments or by the variables that a JVM reads. Then the signal prints to its
# stdout, which is the runner's channel. MAVEN_OPTS and GRADLE_OPTS are of Maven's and Gradle's own JVMs.
is_closed() {
  {
    tr '\0' '\n' < "/proc/$1/cmdline"
    tr '\0' '\n' < "/proc/$1/environ" | grep -E '^(JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|_JAVA_OPTIONS)='
  } 2> /dev/null | grep -q '+DisableAttachMechanism'
}

# Prints the threads of the JVM $1. Its attach listener is woken here, since jcmd would do so by a file in the JVM's directory, which
# may be the workspace.
print_threads() {
  java=$(readlink "/proc/$1/exe") || return
  for jcmd in "${java%/*}/jcmd" "${java%/*}/../../bin/jcmd" "$(command -v jcmd)"; do
    [ -x "$jcmd" ] && break
  done
  [ -x "$jcmd" ] || return
  : > "/tmp/.attach_pid$1"
  catches_quit "$1" || { rm -f "/tmp/.attach_pid$1"; return; }
  kill -QUIT "$1"
  tries=0
  until [ -S "/tmp/.java_pid$1" ]; do
    tries=$((tries + 1))
    # The file stays: without it, a JVM that handles the signal late prints its threads to its stdout.
    [ "$tries" -gt "$open_max" ] && return
    sleep 0.1
  done
  rm -f "/tmp/.attach_pid$1"
  "$jcmd" -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -J-Xshare:auto "$1" Thread.print 2> /dev/null |
    head -c "$((dump_max - $(wc -c < "$dumps")))" | tee -a "$dumps"
}

asked=0
for process in /proc/[0-9]*; do
  pid=${process#/proc/}
  words=$(tr '\0' ' ' < "$process/cmdline" 2> /dev/null) || continue
  case $words in
    *surefire*booter* | *ForkedBooter* | *GradleWorkerMain*Test*) ;;
    *) continue ;;
  esac
  # A shell that starts the JVM has the same words.
  case $(readlink "$process/exe") in
    */java) ;;
    *) continue ;;
  esac
  is_closed "$pid" && continue
  asked=$((asked + 1))
  [ "$asked" -gt "$jvms_max" ] && break
  print_threads "$pid"
done

# The names of files in frames, then the project's files with such a name.
cat "$here"/../maven/sources "$here"/../gradle/sources 2> /dev/null |
  awk -v dumps="$dumps" '
    BEGIN {
      while ((getline line < dumps) > 0) {
        if (match(line, /\([^():]+:[0-9]+\)/)) {
          name = substr(line, RSTART + 1, RLENGTH - 2)
          sub(/:.*/, "", name)
          named[name] = 1
        }
      }
    }
    { name = $0; sub(/.*\//, "", name); if (name in named) print "source: " $0 }'
rm -f "$dumps"
