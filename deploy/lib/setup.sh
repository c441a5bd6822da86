# Everything that deploy/quickstart and tests/run need on a machine, for both. Sourced by bash.
#
# Each setup_* function looks first and returns at once when there is nothing to do, says what it
# does when there is, and ends the script (fail) with what is missing and what to do about it when
# it cannot.
#
# Everything that is not a Debian package goes below .cache/ in the checkout (ignored by git): the
# Python environment, the client jars, the tools, the logs of the set-up. Deleting .cache/ is always
# safe.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
CACHE="$ROOT/.cache"
SETUP_LOG="$CACHE/log"

PYSPARK_VERSION=3.5.3
CLIENT_ARTIFACT=org.apache.uniffle:rss-client-spark3-shaded
MAVEN_COPY=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy
declare -A CLIENT_SHA256=(
  [0.9.1]=8bc1c1b37f81765a015874b0e048b239b9953aab86b0fec2fe496d9ac142af4c
  [0.9.2]=2ba36af3f56e97fd77e777949c7fd56cbf5d5d6d633107dba8af624c05d45dcf
)

# The test libraries are in it too: the daemon and its tests are one CMake project.
BUILD_PACKAGES=(g++ cmake ninja-build ccache pkg-config git
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  libspdlog-dev libfmt-dev libtoml11-dev libcli11-dev
  prometheus-cpp-dev libcivetweb-dev libroaring-dev libisal-dev zlib1g-dev
  liburing-dev libgtest-dev libgmock-dev)
# For tests of real file systems, and fio as a judge on the engines.
TEST_PACKAGES=(e2fsprogs fuse3 libfuse3-dev fio)
PYTHON_PACKAGES=(python3 python3-venv)
JAVA_PACKAGES=(openjdk-17-jre-headless)
MAVEN_PACKAGES=(maven ca-certificates)

say() { printf '== %s\n' "$*"; }

fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$1" >&2
  shift
  local line
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# run_logged NAME COMMAND...: output goes to .cache/log/NAME.log. Its last line is shown now and
# then while it takes long, and its end when the command fails.
run_logged() {
  local log="$SETUP_LOG/$1.log" rc=0 ticker
  shift
  mkdir -p "$SETUP_LOG"
  : >"$log"
  (
    while sleep 10 >/dev/null 2>&1 && kill -0 "$$" 2>/dev/null; do
      printf '   ... %s\n' "$(tr '\r' '\n' <"$log" | grep -v '^ *$' | tail -n 1 | cut -c 1-100)"
    done
  ) &
  ticker=$!
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  if [ "$rc" -ne 0 ]; then
    printf '\n-- last lines of %s\n' "$log" >&2
    tail -n 25 "$log" >&2
  fi
  return "$rc"
}

installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_packages PACKAGE...: installs those that are not there.
install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null; then
    [ -n "${DOVETAIL_NO_APT:-}" ] && return 0
    fail "this is not a Debian system (no dpkg)." \
      "Dovetail is built and tested on Debian 12. Run this in a Debian 12 machine or container," \
      "or install the equivalents of: $*" \
      "and set DOVETAIL_NO_APT=1 to go on without this check."
  fi
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ "${#missing[@]}" -eq 0 ] && return 0
  if [ -n "${DOVETAIL_NO_APT:-}" ]; then
    say "going on without: ${missing[*]} (DOVETAIL_NO_APT)"
    return 0
  fi
  local by_hand="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  warn_other_release
  if [ "$(id -u)" -ne 0 ]; then
    fail "${#missing[@]} Debian packages are missing, and only root can install them." \
      "Run this command once as root, or ask for:" "$by_hand"
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  if [ -z "${APT_UPDATED:-}" ]; then
    run_logged apt-update apt-get update ||
      say "apt-get update failed (see above); trying with the package lists that are here"
    APT_UPDATED=yes
  fi
  run_logged apt-install env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]}" \
      "Is the network there, and does /etc/apt name a Debian 12 mirror? By hand:" "$by_hand"
}

warn_other_release() {
  local id="" VERSION_ID="" ID=""
  [ -r /etc/os-release ] && . /etc/os-release
  id="${ID:-unknown} ${VERSION_ID:-}"
  [ "$id" = "debian 12" ] || say "note: this is $id; Dovetail is built and tested on Debian 12 only"
}

setup_build() { install_packages "${BUILD_PACKAGES[@]}"; }

# promtool checks the metrics page in the tests. The package would start a monitoring server on the
# machine, so it is only unpacked, not installed.
setup_test_tools() {
  install_packages "${TEST_PACKAGES[@]}"
  export PATH="$CACHE/tools/bin:$PATH"
  command -v promtool >/dev/null && return 0
  local folder="$CACHE/tools" package
  command -v apt-get >/dev/null ||
    fail "promtool is missing." "Put it (from Prometheus 2) on the PATH."
  say "unpacking promtool (from the Debian package prometheus, which is not installed)"
  mkdir -p "$folder/bin" "$folder/download"
  if ! (cd "$folder/download" && run_logged promtool apt-get download prometheus); then
    # The lists may be missing or may name a version that the mirror no longer has.
    [ "$(id -u)" -eq 0 ] && { run_logged apt-update apt-get update || true; }
    (cd "$folder/download" && run_logged promtool apt-get download prometheus) ||
      fail "the Debian package prometheus could not be downloaded." \
        "Is the network there? By hand: put promtool on the PATH."
  fi
  package="$(ls -t "$folder"/download/prometheus_*.deb | head -n 1)"
  dpkg -x "$package" "$folder/unpacked"
  mv "$folder/unpacked/usr/bin/promtool" "$folder/bin/promtool"
  rm -rf "$folder/unpacked" "$folder/download"
}

# java_major BINARY: prints 17 for Java 17, nothing when it does not run.
java_major() {
  "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

# find_java: prints a JAVA_HOME that Spark 3.5 runs on.
find_java() {
  local java
  for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java)" \
    /usr/lib/jvm/java-17-*/bin/java; do
    [ -n "$java" ] && [ -x "$java" ] || continue
    case "$(java_major "$java")" in
      11 | 17) dirname "$(dirname "$(readlink -f "$java")")" && return 0 ;;
    esac
  done
  return 1
}

setup_java() {
  if ! JAVA_HOME="$(find_java)"; then
    install_packages "${JAVA_PACKAGES[@]}"
    JAVA_HOME="$(find_java)" ||
      fail "no Java 17 was found." \
        "Spark 3.5 needs Java 17 (or 11): install ${JAVA_PACKAGES[*]} or set JAVA_HOME."
  fi
  export JAVA_HOME
}

# find_python: prints a Python that pyspark 3.5 runs on and that can make environments; Debian's own
# first.
find_python() {
  local python
  for python in /usr/bin/python3 "$(command -v python3)"; do
    [ -n "$python" ] && [ -x "$python" ] || continue
    "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 9) <= sys.version_info < (3, 13))' \
      2>/dev/null && { echo "$python"; return 0; }
  done
  return 1
}

# setup_python: sets PYTHON, for what needs no pyspark.
setup_python() {
  PYTHON="$(find_python)" && return 0
  install_packages "${PYTHON_PACKAGES[@]}"
  PYTHON="$(find_python)" ||
    fail "no usable Python was found." \
      "Python 3.9 to 3.12 with the venv module is needed (Debian: ${PYTHON_PACKAGES[*]})."
}

setup_venv() {
  local stamp="$CACHE/venv/pyspark-$PYSPARK_VERSION.installed"
  if [ -e "$stamp" ] && "$CACHE/venv/bin/python" -c '' 2>/dev/null; then return 0; fi
  setup_python
  say "making a Python environment with pyspark $PYSPARK_VERSION (320 MB, about a minute)"
  rm -rf "$CACHE/venv"
  run_logged venv "$PYTHON" -m venv "$CACHE/venv" || fail "python could not make $CACHE/venv."
  run_logged pip "$CACHE/venv/bin/pip" install --no-cache-dir "pyspark==$PYSPARK_VERSION" ||
    fail "pip could not install pyspark $PYSPARK_VERSION." \
      "Is the network there, and does pip's configuration name an index that has it? By hand:" \
      "$CACHE/venv/bin/pip install pyspark==$PYSPARK_VERSION"
  touch "$stamp"
}

client_jar() { printf '%s/jars/rss-client-spark3-shaded-%s.jar' "$CACHE" "$1"; }

# setup_client VERSION: the shuffle client's jar, checked against its known sum once, when it
# arrives.
setup_client() {
  local version="$1" jar want="${CLIENT_SHA256[$1]:-}" got folder="$CACHE/jars/incoming"
  jar="$(client_jar "$version")"
  [ -e "$jar" ] && return 0
  command -v mvn >/dev/null || install_packages "${MAVEN_PACKAGES[@]}"
  say "fetching the shuffle client $version with maven (27 MB)"
  rm -rf "$folder"
  mkdir -p "$folder"
  run_logged "client-$version" mvn -B "$MAVEN_COPY" "-Dmaven.repo.local=$CACHE/m2" \
    "-Dartifact=$CLIENT_ARTIFACT:$version" "-DoutputDirectory=$folder" ||
    fail "maven could not fetch $CLIENT_ARTIFACT:$version." \
      "Is the network there, and do maven's settings name a repository that has it?" \
      "Or put the jar here: $jar"
  got="$(sha256sum "$folder/$(basename "$jar")" | cut -d ' ' -f 1)"
  if [ -n "$want" ] && [ "$want" != "$got" ]; then
    fail "the jar of client $version is not the one that was published (sha256 $got, not $want)." \
      "It is left in $folder. Check maven's settings, delete $CACHE/m2 and try again."
  fi
  mv "$folder/$(basename "$jar")" "$jar"
  rm -rf "$folder"
}

# setup_spark VERSION...: all that a Spark job with these client versions needs.
setup_spark() {
  local version
  setup_java
  setup_venv
  for version in "$@"; do setup_client "$version"; done
}

# build_preset PRESET TARGET...: configures when needed and builds; returns non-zero when that
# fails.
build_preset() {
  local preset="$1" rc=0
  shift
  local targets=()
  [ "$#" -gt 0 ] && targets=(--target "$@")
  cd "$ROOT" || return 1
  run_logged "configure-$preset" cmake --preset "$preset" || {
    printf '\ncmake could not configure the preset %s (all of it: %s)\n' \
      "$preset" "$SETUP_LOG/configure-$preset.log" >&2
    return 1
  }
  cmake --build --preset "$preset" "${targets[@]}" || rc=$?
  return "$rc"
}
