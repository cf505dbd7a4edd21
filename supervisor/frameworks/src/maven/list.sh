# Read by `mvn` before it starts (HOME/.mavenrc): compiles the listing extension against this Maven, runs Maven as asked with
# it, and tells the report what it found. The last record is "end".
if [ -n "${PROCTOR_REPORT:-}" ]; then
  proctor_report=$PROCTOR_REPORT
  # Maven need not know; and this must not begin again.
  unset PROCTOR_REPORT
  proctor_dir=$(mktemp -d "${TMPDIR:-/tmp}/maven-list.XXXXXX") || exit 1

  # A wrapper has a Maven of its own, and either may have a JDK of its own. The JVM is asked too, since a project's
  # `.mvn/maven.config` may ask Maven for silence.
  proctor_said=$(MAVEN_OPTS="${MAVEN_OPTS:-} -XshowSettings:properties" "$0" --version 2>&1) ||
    { printf '%s\n' "$proctor_said"; exit 1; }
  proctor_home=$(printf '%s\n' "$proctor_said" | sed -nE 's/^(Maven home: *| *maven\.home = )//p' | head -n 1)
  proctor_java=$(printf '%s\n' "$proctor_said" | sed -nE 's/^ *java\.home = //p' | head -n 1)
  proctor_javac=javac
  for proctor_bin in "$proctor_java/bin" "$proctor_java/../bin"; do
    if [ -x "$proctor_bin/javac" ]; then proctor_javac=$proctor_bin/javac; break; fi
  done
  mkdir -p "$proctor_dir/classes/META-INF/plexus"
  cp "$PROCTOR_LISTING/components.xml" "$proctor_dir/classes/META-INF/plexus"
  # A compiler of one file is done before it would have made itself faster.
  if ! "$proctor_javac" -J-XX:TieredStopAtLevel=1 -proc:none -nowarn -encoding UTF-8 -cp "$proctor_home/lib/*" \
    -d "$proctor_dir/classes" "$PROCTOR_LISTING/Listing.java"; then
    echo "[ERROR] Failed to execute goal on project .: a listing takes a JDK with javac and Maven's own classes"
    exit 1
  fi

  : > "$proctor_dir/listed"
  PROCTOR_LISTED=$proctor_dir/listed "$0" "$@" "-Dmaven.ext.class.path=$proctor_dir/classes"
  proctor_status=$?
  { cat "$proctor_dir/listed"; printf 'end\n\0'; } > "$proctor_report"
  exit "$proctor_status"
fi
