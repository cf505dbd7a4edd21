# Sourced by `mvn` before it starts (HOME/.mavenrc, in a directory that no test can write): compiles the Maven extension against
# the Maven that runs, and makes Maven load it. Each run compiles it anew, since a test could change a cached copy.
if [ -n "${PROCTOR_REPORT:-}" ]; then
  HOME=$PROCTOR_HOME
  proctor_report=$PROCTOR_REPORT
  # Hidden from Maven and the tests; without it a nested `mvn` does not repeat this.
  unset PROCTOR_REPORT PROCTOR_HOME
  proctor_dir=$(mktemp -d "${TMPDIR:-/tmp}/maven-extension.XXXXXX") || exit 1

  # A wrapper finds its own Maven home. The JVM is asked for it, since a project's `.mvn/maven.config` may ask Maven for
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
  # One file is compiled before the JVM would finish optimising itself. Target 8, since an older JVM may run Maven.
  if ! "$proctor_javac" -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -source 8 -target 8 -Xlint:-options -proc:none -nowarn \
    -encoding UTF-8 -cp "$proctor_home/lib/*" -d "$proctor_dir" "$PROCTOR_EXTENSION"/*.java; then
    echo "[ERROR] Failed to execute goal on project .: a run takes a JDK with javac and Maven's own classes"
    exit 1
  fi
  unset PROCTOR_EXTENSION

  # Keeps a test from making Maven's JVM load an agent.
  export MAVEN_OPTS="${MAVEN_OPTS:-} -XX:+DisableAttachMechanism"
  set -- "$@" "-Dmaven.ext.class.path=$proctor_dir"
fi
