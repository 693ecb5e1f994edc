# Sourced before the blocks of a document. Programs that run until they are stopped go on in the
# background, as in a terminal of their own, and are stopped at the end.
background=()
outputs="$(mktemp -d)"

stop_background() {
    local code=$? pid
    for pid in "${background[@]}"; do
        kill -TERM "$pid" && wait "$pid" || true
    done
    rm -r "$outputs"
    exit "$code"
}
trap stop_background EXIT

# until_output PATTERN COMMAND…: start the command and return once its output has the pattern.
until_output() {
    local pattern="$1" output="$outputs/${#background[@]}"
    shift
    "$@" >"$output" 2>&1 </dev/null &
    background+=($!)
    until grep -q -- "$pattern" "$output"; do
        kill -0 $! 2>/dev/null || { cat "$output" && return 1; }
        sleep 0.05
    done
    cat "$output"
}

laneway() {
    case "$1" in
    serve) until_output "Laneway listens on" command laneway "$@" ;;
    top) until_output queue command laneway "$@" ;;
    *) command laneway "$@" ;;
    esac
}

curl() {
    case "$1" in
    -N) until_output data: command curl --silent --show-error --fail-with-body "$@" ;;
    *) command curl --silent --show-error --fail-with-body "$@" && echo ;;
    esac
}

uvx() {
    until_output "Laneway listens on" command uvx "$@"
}

make() {
    until_output "Laneway listens on" command make "$@"
}

python() {
    case "$1" in
    target.py) until_output "listens on" command python -u "$@" ;;
    worker.py) until_output working command python -u "$@" ;;
    *) command python "$@" ;;
    esac
}
