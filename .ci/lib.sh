# shellcheck shell=bash
# What .ci/run, .ci/long and .ci/services share. They source this file from the root of the checkout.

staticcheck_version=v0.8.2
temporal_version=v1.5.1
export GOBIN="$PWD/.tools"
# With -trimpath, what one clone has compiled serves the next one too.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false -trimpath"
export CI=true
PATH=$PATH:/usr/sbin # PgBouncer
mkdir -p .tools

# stage NAME COMMAND… runs a command and says how long it took.
stage() {
	local name=$1 began=$SECONDS
	shift
	echo "== $name"
	if ! "$@"; then
		echo "== $name: FAILED after $((SECONDS - began)) s" >&2
		return 1
	fi
	echo "== $name: ok, $((SECONDS - began)) s"
}

# thrice COMMAND… is for commands that ask a registry: it tries up to three times.
thrice() {
	local try
	for try in 1 2 3; do
		"$@" && return 0
		((try == 3)) || { echo "attempt $try of 3 failed: $*"; sleep $((try * 5)); }
	done
	return 1
}

# need COMMAND PACKAGE… installs packages of Debian if there is no such command.
need() {
	local command=$1
	shift
	compgen -G "$command" >/dev/null || command -v "$command" >/dev/null || missing+=("$@")
}

# install_missing installs the packages in the array missing.
install_missing() {
	((${#missing[@]} > 0)) || return 0
	if ! command -v apt-get >/dev/null; then
		echo "missing: ${missing[*]}, as Debian names these packages. There is no apt-get here; install them, and try again."
		return 1
	fi
	local sudo=()
	((EUID == 0)) || sudo=(sudo)
	thrice apt_install || { echo "missing: ${missing[*]}. To install: apt-get install ${missing[*]}"; return 1; }
}

apt_install() { "${sudo[@]}" apt-get update -q && DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -q -y "${missing[@]}"; }

programs() {
	local missing=()
	need git git
	need gcc gcc libc6-dev
	need npm nodejs npm
	need psql postgresql-client
	need "/usr/lib/postgresql/*/bin/initdb" postgresql
	need pgbouncer pgbouncer
	install_missing
}

modules() {
	go version && thrice go mod download && go build -o "$GOBIN/report" ./.ci/report || return 1
	if ! go version -m "$GOBIN/staticcheck" 2>/dev/null | grep -q "honnef.co/go/tools.*$staticcheck_version"; then
		thrice go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version"
	fi
}

# free_port prints a port of 127.0.0.1 that nothing listens on, the first one from $1 on.
free_port() {
	local port
	for ((port = $1; port < $1 + 1000; port++)); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return 0; }
	done
	return 1
}

# start_postgres FOLDER PORT starts a PostgreSQL server of our own, which trusts every role, in a new folder. It does not
# wait for the disk: nothing that the tests keep in it outlives the machine.
start_postgres() {
	local dir=$1 port=$2 bin as=()
	bin=$(dirname "$(compgen -G "/usr/lib/postgresql/*/bin/initdb" | sort -V | tail -n 1)")
	mkdir -p "$dir" && chmod 755 "$dir" || return 1
	if ((EUID == 0)); then # the server does not start as root
		chown postgres: "$dir" && as=(setpriv --reuid=postgres --regid=postgres --clear-groups) || return 1
	fi
	(cd / && "${as[@]}" "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-sync >/dev/null &&
		"${as[@]}" "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -s -w -t 120 -o "-p $port -c listen_addresses=127.0.0.1 \
-c unix_socket_directories= -c max_connections=500 -c fsync=off -c full_page_writes=off" start 9>&- </dev/null) || { cat "$dir/log"; return 1; }
}

# stop_postgres FOLDER ends the server of start_postgres.
stop_postgres() {
	local as=()
	((EUID != 0)) || as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
	(cd / && "${as[@]}" "$(compgen -G "/usr/lib/postgresql/*/bin/pg_ctl" | sort -V | tail -n 1)" -D "$1/data" -s -m immediate stop)
}

# postgres starts a server for the tests, unless BRAISE_TEST_POSTGRES names one. The script that calls it ends it with
# end_postgres.
postgres_dir=
postgres() {
	[[ -z ${BRAISE_TEST_POSTGRES:-} ]] || return 0
	local dir port
	dir=$(mktemp -d "${TMPDIR:-/tmp}/braise-postgres-XXXXXX") || return 1
	port=$(free_port 15432) && start_postgres "$dir" "$port" || { rm -rf "$dir"; return 1; }
	postgres_dir=$dir
	export BRAISE_TEST_POSTGRES="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
	echo "$BRAISE_TEST_POSTGRES"
}

end_postgres() {
	[[ -n $postgres_dir ]] || return 0
	stop_postgres "$postgres_dir" || true
	rm -rf "$postgres_dir"
	postgres_dir=
}

# readme N prints the N-th command of README.md: the lines that begin with "$ go " in its blocks.
readme() { sed -n 's/^\$ \(go .*\)$/\1/p' README.md | sed -n "${1}p"; }

# results is where the outcomes of tests are collected, for report.
results=$PWD/.tools/tests.jsonl

# tests FLAG… PACKAGE… runs tests. Results in the cache do not count, as they know no seed; what go vet finds is found before. It prints a
# line for each package, and what failed tests wrote.
tests() {
	go test -json -vet=off -count=1 -timeout 60m "$@" 2>&1 | "$GOBIN/report" -add "$results" -- "$@"
}

# race FLAG… PACKAGE… runs tests with the race detector. Each package has one thread (-cpu 1): in a bubble of
# testing/synctest, timers that two threads run at a time crash the race detector of Go 1.26.
race() { tests -race -cpu=1 "$@"; }

# fuzz_targets prints the package and the name of each fuzz target.
fuzz_targets() { git grep --untracked '^func Fuzz' -- '*_test.go' ':!bench' | sed -E 's|^(.*)/[^/]*:func (\w+).*|./\1 \2|'; }
