# Read by `mvn` before it starts (HOME/.mavenrc, in a directory of ours that no test can write): compiles our extension of Maven
# against the Maven that runs, and has Maven load it. Each run compiles it anew, since a test could change what is kept.
if [ -n "${PROCTOR_REPORT:-}" ]; then
  HOME=$PROCTOR_HOME
  proctor_report=$PROCTOR_REPORT
  # Maven and the tests need not know; and this must not begin again.
  unset PROCTOR_REPORT PROCTOR_HOME
  proctor_dir=$(mktemp -d "${TMPDIR:-/tmp}/maven-extension.XXXXXX") || exit 1

  # A wrapper has a Maven of its own, which it knows. The JVM is asked, since a project's `.mvn/maven.config` may ask Maven for
  # silence.
  proctor_home=$(dirname "$(readlink -f "$0")")/..
  if ! ls "$proctor_home"/lib/maven-core-*.jar > /dev/null 2>&1; then
    proctor_said=$(MAVEN_OPTS="${MAVEN_OPTS:-} -XshowSettings:properties" "$0" --version 2>&1) ||
      { printf '%s\n' "$proctor_said"; exit 1; }
    proctor_home=$(printf '%s\n' "$proctor_said" | sed -nE 's/^(Maven home: *| *maven\.home = )//p' | head -n 1)
  fi
  proctor_java=${JAVA_HOME:+$JAVA_HOME/bin/java}
  proctor_java=$(readlink -f "${proctor_java:-$(command -v java)}")
  proctor_javac=javac
  for proctor_bin in "${proctor_java%/*}" "${proctor_java%/*}/../../bin"; do
    if [ -x "$proctor_bin/javac" ]; then proctor_javac=$proctor_bin/javac; break; fi
  done
  mkdir -p "$proctor_dir/META-INF/plexus"
  cp "$PROCTOR_EXTENSION/components.xml" "$proctor_dir/META-INF/plexus"
  printf '%s\n' "$proctor_report" > "$proctor_dir/proctor-report"
  # A compiler of one file is done before it would have made itself faster. The JVM that runs Maven may be an older one.
  if ! "$proctor_javac" -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -source 8 -target 8 -Xlint:-options -proc:none -nowarn \
    -encoding UTF-8 -cp "$proctor_home/lib/*" -d "$proctor_dir" "$PROCTOR_EXTENSION"/*.java; then
    echo "[ERROR] Failed to execute goal on project .: a run takes a JDK with javac and Maven's own classes"
    exit 1
  fi
  unset PROCTOR_EXTENSION

  # A test could have Maven's own JVM load an agent.
  export MAVEN_OPTS="${MAVEN_OPTS:-} -XX:+DisableAttachMechanism"
  set -- "$@" "-Dmaven.ext.class.path=$proctor_dir"
fi
