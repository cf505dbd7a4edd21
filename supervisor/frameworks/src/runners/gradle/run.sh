# Runs Gradle without a network in a project with a wrapper: the Gradle that the wrapper downloaded in an earlier run, else the
# host's.
name=$(sed -n 's|^distributionUrl=.*/\(.*\)\.zip.*|\1|p' gradle/wrapper/gradle-wrapper.properties)
for own in "$GRADLE_USER_HOME/wrapper/dists/$name"/*/*/bin/gradle; do
  if [ -n "$name" ] && [ -x "$own" ]; then exec "$own" "$@"; fi
done
exec gradle "$@"
