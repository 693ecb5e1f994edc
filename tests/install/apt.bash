# To be sourced. require WHAT HINT IS_THERE PACKAGE [apt-get's options]: installs the package unless the function
# IS_THERE succeeds, and says what is missing where it cannot.

require() {
    local what="$1" hint="$2" is_there="$3" package="$4"
    shift 4
    "$is_there" && return
    command -v apt-get >/dev/null || explain "this machine has no apt-get"
    as_root true 2>/dev/null || explain "neither root nor sudo without a password is at hand"
    as_root apt-get update -qq || explain "apt-get update failed"
    # The runlevel keeps services from starting: the tests start their own.
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "$@" "$package" || explain "apt-get install $package failed"
    "$is_there" || explain "apt-get install $package did not put it there"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Speaks of what the caller requires.
explain() {
    echo "$what is not here and $1." >&2
    echo "$hint" >&2
    exit 1
}
