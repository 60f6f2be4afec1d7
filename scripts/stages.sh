# Stages: functions `stage_NAME` of a script, with their times. `scripts/test` and `scripts/check` include this file.

# Each stage compiles once, so incremental state would only cost time and space.
export CARGO_INCREMENTAL=0
# Many tests wait for servers and for time, not for a processor.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-12}

# Filter of the tests over servers that keep all processors busy: scripts/test runs them after the others, two at a time.
crowded="crowded::"
# Filters of the largest explorations among the tests: scripts/test omits them, `scripts/check worlds` runs them.
explorations="explored::enrolment_worlds exclusive_lease_becomes_a_shared_one hot_name_gets_growing_tokens scheduler_years"

current=""   # the stage that is running
summary=""   # one line for each stage that has ended

fail() {
  echo "$0: $*" >&2
  exit 1
}

# What a script has to undo when it ends, for whatever reason.
clean_up() {
  :
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# run_stages DEFAULT OTHERS [NAME…]. Runs the named stages, else the default ones, and ends with the seconds that each
# took. Exits non-zero at the first stage that fails.
run_stages() {
  local default=$1 known="$1 $2" stage
  shift 2
  for stage in "$@"; do
    case " $known " in
      *" $stage "*) ;;
      *) fail "no such stage: $stage (there are: $known)" ;;
    esac
  done
  trap finish EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # shellcheck disable=SC2086 # one word for each stage
  [ $# -gt 0 ] || set -- $default
  for stage in "$@"; do
    run_stage "$stage"
  done
}

run_stage() {
  current=$1
  stage_start=$SECONDS
  printf '\n=== %s\n' "$current"
  "stage_$current"
  record ok
  current=""
}

record() {
  summary+=$(printf '%-10s %5d s  %s' "$current" $((SECONDS - stage_start)) "$1")$'\n'
}

finish() {
  local status=$?
  trap - EXIT
  clean_up
  if [ -n "$current" ]; then
    record FAILED
  fi
  printf '\n%s%-10s %5d s\n' "$summary" total "$SECONDS"
  if [ -n "$current" ]; then
    printf '\nfailed: %s\n' "$current"
  fi
  exit "$status"
}
