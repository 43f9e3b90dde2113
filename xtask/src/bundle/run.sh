#!/bin/sh
# Runs the tests and measurements of Jasper on a machine with a GPU and no Rust.
#
# usage: sh run.sh [devices] [tests] [sanitize] [measure] [search] [truth]     without arguments: all of them, in this order
#
#   devices   what the machine has
#   tests     every test; one that finds no GPU fails
#   sanitize  the tests of the kernels under compute-sanitizer: memcheck, racecheck, initcheck
#   measure   every measurement of kernels; they print lines of JSON
#   search    measurements of searches, with the arguments in SEARCH
#   truth     exact neighbors of the queries of each set named in SETS, compared with the set's own
#
# SETS        where `truth` finds base.*, query.* and gt.ibin, separated by spaces: `folder/`, or `folder/sift-1m.` if the
#             names of the files begin so; without it `truth` does nothing
# SEARCH      arguments of `gpu_search`: parts, options and sets, such as `curves --data folder sift-1m`; without it `search`
#             does nothing
# METRIC, K   of `truth`; l2 and 10 without them
# SANITIZE    which tests run under compute-sanitizer: a part of their names; without it, all of the kernels'
#
# Everything that is printed is kept below results/, and packed into results.tar.gz here, or in the folder OUT. Ends
# with 1 if anything failed.
cd "$(dirname "$0")" || exit 2
results=$PWD/results
mkdir -p "$results"
export JASPER_REQUIRE_GPU=1
failed=0

# step NAME COMMAND...: runs it, keeps what it prints, says how it ended.
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
        # The warps of a team meet by words in shared memory, which racecheck takes for races (docs: kernels).
        skip=
        [ $tool = racecheck ] && skip="--skip searches_"
        # Not the tests of faults: they provoke what these tools look for.
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
    # Words on purpose: parts, options, sets.
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
for chore in "$@"; do
    case $chore in
    devices | tests | sanitize | measure | search | truth) "$chore" ;;
    *)
        echo "no such chore: $chore; there are devices, tests, sanitize, measure, search, truth" >&2
        exit 2
        ;;
    esac
done
tar -czf "${OUT:-$PWD}/results.tar.gz" results
exit $failed
