#!/bin/sh
# Runs the GPU tests and measurements of Jasper on a machine without Rust.
#
# usage: sh run.sh [STEP..]     without steps: all of them, in this order
#
#   devices   print the GPUs
#   tests     run all tests; a test that finds no GPU fails
#   sanitize  run the kernel tests under compute-sanitizer: memcheck, racecheck, initcheck
#   measure   measure kernels; prints JSON lines
#   search    run `gpu_search` with the arguments in SEARCH
#   truth     compute the exact neighbors of each set in SETS and compare them with its gt.ibin
#
# Environment variables:
#
#   SEARCH      arguments of `gpu_search`, such as `curves --data FOLDER sift-1m`; `search` is skipped without them
#   SETS        prefixes of base.*, query.* and gt.ibin, separated by spaces, such as `FOLDER/sift-1m.`; `truth` is
#               skipped without them
#   METRIC, K   metric and number of neighbors of `truth`; default: l2, 10
#   SANITIZE    filter of test names for `sanitize`; default: all kernel tests
#   OUT         folder of results.tar.gz; default: this one
#
# Output is stored in results/ and packed into results.tar.gz. The exit status is 1 if a step failed.
cd "$(dirname "$0")" || exit 2
results=$PWD/results
mkdir -p "$results"
export JASPER_REQUIRE_GPU=1
failed=0

# step NAME COMMAND...: runs a command, stores its output in results/NAME.log and prints whether it passed.
step() {
    step=$1
    shift
    mkdir -p "$(dirname "$results/$step")"
    begun=$(date +%s)
    if "$@" >"$results/$step.log" 2>&1; then
        echo "passed  $step  $(($(date +%s) - begun)) s"
    else
        echo "FAILED  $step  status $?, the end of $step.log:"
        tail -n 25 "$results/$step.log" | sed 's/^/    /'
        failed=1
    fi
}

devices() {
    step devices/driver nvidia-smi
    step devices/jasper ./bin/jasper devices
    cat "$results/devices/jasper.log"
}

tests() {
    for program in tests/*; do
        step "$program" "./$program"
    done
}

sanitize() {
    if ! command -v compute-sanitizer >/dev/null; then
        echo "skipped sanitize: compute-sanitizer is not installed"
        return
    fi
    for tool in memcheck racecheck initcheck; do
        # Warps of a team synchronize by flags in shared memory, which racecheck reports as races (docs: kernels).
        skip=
        [ $tool = racecheck ] && skip="--skip searches_"
        # Tests of faults are excluded: they provoke what these tools report.
        step "sanitize/$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 tests/jasper-cuda.device \
            --test-threads 1 $skip ${SANITIZE:-cuda_std:: kernels:: knn::}
    done
}

measure() {
    step measure/kernels ./measure/gpu_kernels
    cat "$results/measure/kernels.log"
}

search() {
    [ -n "${SEARCH:-}" ] || return 0
    # Unquoted: several arguments.
    step measure/search ./measure/gpu_search $SEARCH
    cat "$results/measure/search.log"
}

truth() {
    for set in ${SETS:-}; do
        name=truth/$(basename "${set%[/.]}")
        mkdir -p "$results/truth"
        step "$name" ./bin/jasper groundtruth --device cuda --base "$set"base.* --queries "$set"query.* \
            --metric "${METRIC:-l2}" -k "${K:-10}" --output "$results/$name.ibin"
        cat "$results/$name.log"
        step "$name.same" python3 same_neighbors.py "$set"gt.ibin "$results/$name.ibin"
        cat "$results/$name.same.log"
        rm -f "$results/$name.ibin"
    done
}

[ $# -gt 0 ] || set -- devices tests sanitize measure search truth
for name in "$@"; do
    case $name in
    devices | tests | sanitize | measure | search | truth) "$name" ;;
    *)
        echo "unknown step: $name; steps are devices, tests, sanitize, measure, search, truth" >&2
        exit 2
        ;;
    esac
done
tar -czf "${OUT:-$PWD}/results.tar.gz" results
exit $failed
