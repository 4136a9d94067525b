#!/bin/sh
# Installs svc-runner and makes this machine a runner of a build farm. Only the last line
# runs anything, so a truncated download does nothing.
set -eu

farm_url=__FARM_URL__
version=__VERSION__
keys=__KEYS__ # one of these must have signed the release
unit=/etc/systemd/system/svc-runner.service

usage() {
	cat <<END
Usage: install.sh [options]

  --token TOKEN     of the enrollment; better in SVC_ENROLL_TOKEN, or - to read it from standard input
  --url URL         address of the farm gateway [$farm_url]
  --server-ca FILE  certificate of a private CA that the gateway's certificate is of
  --name NAME       of the runner, instead of the one that the enrollment has
  --capacity N      jobs at once, from 1 to 64 [1]
  --labels A=B,...  what this machine has, besides what the enrollment says
  --version X       version to install [$version]
  --no-enroll       install, or upgrade an enrolled machine: needs no token, and restarts its service
  --no-service      make no systemd service
  --prefix DIR      where usr/local/bin and etc are; without root, with --no-service
  --data-dir DIR    where the runner keeps its key and its work [that of the service, or /var/lib/svc-runner]
  --uninstall       wait for jobs, revoke the runner, and remove the service, the program and the data folder
END
}

say() { printf 'svc-runner: %s\n' "$*" >&2; }

fail() {
	say "$*"
	exit 1
}

need() {
	command -v "$1" >/dev/null 2>&1 || fail "this needs $1: install it first"
}

# options parses the arguments.
options() {
	token=${SVC_ENROLL_TOKEN:-} server_ca='' name='' capacity='' labels=''
	enroll=yes service=yes prefix='' data='' kept='' remove=no chosen=''
	while [ $# -gt 0 ]; do
		case $1 in
		--no-enroll) enroll=no ;;
		--no-service) service=no ;;
		--uninstall) remove=yes ;;
		--help | -h)
			usage
			exit 0
			;;
		--token | --url | --server-ca | --name | --capacity | --labels | --version | --prefix | --data-dir)
			[ $# -gt 1 ] || fail "$1 needs a value"
			value "$1" "$2"
			shift
			;;
		--*=*) value "${1%%=*}" "${1#*=}" ;;
		*) fail "unknown option: $1 (--help lists them)" ;;
		esac
		shift
	done
	farm_url=${farm_url%/}
	[ "$service" = no ] || [ ! -r "$unit" ] ||
		kept=$(sed -n 's/^ExecStart=.* --data-dir \([^ ]*\).*/\1/p' "$unit")
	data=${data:-${kept:-/var/lib/svc-runner}}
	case $farm_url in https://*) ;; *) fail "the address of the farm must begin with https://" ;; esac
	case $version in '' | .* | *[!0-9A-Za-z.-]*) fail "that is no version: $version" ;; esac
	case $capacity in '' | [1-9] | [1-5][0-9] | 6[0-4]) ;; *) fail "--capacity must be a number from 1 to 64" ;; esac
	for dir in "${prefix:-/}" "$data"; do
		case $dir in /*) ;; *) fail "--prefix and --data-dir must begin with /" ;; esac
	done
	[ -z "$server_ca" ] || [ -r "$server_ca" ] || fail "cannot read $server_ca"
	if [ "$token" = - ]; then IFS= read -r token || [ -n "$token" ] || fail "no token came from standard input"; fi
	unset SVC_ENROLL_TOKEN
	bin=$prefix/usr/local/bin/svc-runner
	etc=$prefix/etc/svc-runner
}

value() {
	case $1 in
	--token) token=$2 ;;
	--url) farm_url=$2 ;;
	--server-ca) server_ca=$2 ;;
	--name) name=$2 ;;
	--capacity) capacity=$2 ;;
	--labels) labels=$2 ;;
	--version) version=$2 chosen=yes ;;
	--prefix) prefix=${2%/} ;;
	--data-dir) data=$2 ;;
	*) fail "unknown option: $1 (--help lists them)" ;;
	esac
}

# platform sets os and arch as Go names them.
platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no svc-runner for $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no svc-runner for machines of the kind $(uname -m)" ;;
	esac
}

check_place() {
	if [ -z "$prefix" ] && [ "$(id -u)" != 0 ]; then
		fail "run this as root (with sudo), or with --prefix, --data-dir and --no-service"
	fi
	[ "$service" = no ] || [ -z "$prefix" ] || fail "--prefix goes with --no-service"
	[ "$service" = no ] || [ "$remove" = yes ] || check_data
	[ "$remove" = yes ] || check_content
	[ "$service" = no ] || [ -d /run/systemd/system ] ||
		fail "systemd does not run on this machine: use --no-service, and have 'svc-runner run' started another way"
}

# check_data refuses a data folder that the service could not use, before the token is spent. The unit shows that
# systemd can read the path that is in it.
check_data() {
	case ${data#"$kept"} in *[!0-9A-Za-z/._-]*) fail "the --data-dir of a service can have letters, digits and /._- only" ;; esac
	case $(readlink -m "$data")/ in
	/home/* | /root/* | /run/user/* | /tmp/* | /var/tmp/*)
		fail "a service has no access to $data (ProtectHome, PrivateTmp): choose another --data-dir, as below /var/lib or /srv"
		;;
	esac
}

# check_content refuses a folder that has something else, since it gets the mode and owner of a runner's.
check_content() {
	case $(ls -A "$data" 2>/dev/null) in '' | lost+found) return 0 ;; esac
	[ -f "$data/identity.json" ] || [ -f "$data/lock" ] || [ -n "$(find -H "$data" -prune -user svc-runner 2>/dev/null)" ] ||
		fail "$data has something else in it: choose a --data-dir that is new or empty"
}

# download URL-PATH FILE
download() {
	if ! curl --proto '=https' --tlsv1.2 -fsS --retry 2 --connect-timeout 20 --max-time 900 \
		${server_ca:+--cacert "$server_ca"} -o "$2" "$farm_url/$1" 2>"$work/why"; then
		cat "$work/why" >&2
		say "could not download $farm_url/$1"
		fail "Can this machine reach that address over HTTPS, and does it trust its certificate? With a private CA, install with --server-ca FILE."
	fi
}

sum_of() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d ' ' -f 1
	else
		shasum -a 256 "$1" | cut -d ' ' -f 1
	fi
}

# fetch downloads the program of the release to $bin.new and verifies it.
fetch() {
	file=svc-runner_${os}_$arch.gz
	download "runner/$version/SHA256SUMS" "$work/SHA256SUMS"
	download "runner/$version/SHA256SUMS.sig" "$work/SHA256SUMS.sig"
	check_signature
	want=$(awk -v file="$version/$file" '$2 == file { print $1 }' "$work/SHA256SUMS")
	[ -n "$want" ] || fail "release $version has no svc-runner for $os/$arch"
	download "runner/$version/$file" "$work/$file"
	[ "$(sum_of "$work/$file")" = "$want" ] ||
		fail "$file is not what release $version says (its SHA-256 differs); nothing was installed"
	[ ! -e "$bin" ] || installed_verifies
	mkdir -p "${bin%/*}"
	gzip -dc "$work/$file" >"$bin.new" # not in $work, which may be mounted noexec
	chmod 755 "$bin.new"
	# Verifies a first release where there is no OpenSSL, and shows that the program runs here.
	status=0
	"$bin.new" verify --keys "$(echo "$keys" | tr ' ' ',')" --version "$version" "$work/$file" || status=$?
	[ "$status" != 126 ] || fail "programs in ${bin%/*} cannot be run, perhaps because it is mounted noexec; nothing was installed"
	[ "$status" = 0 ] || fail "release $version could not be verified; nothing was installed"
	# A program that takes itself for an earlier version would make way for releases before this one.
	says=$("$bin.new" version) || :
	[ "$says" = "svc-runner $version" ] || fail "the program of release $version says that it is ${says:-none}; nothing was installed"
	say "svc-runner $version for $os/$arch: checksum and signature are right"
}

# installed_verifies lets the program that is here verify the release before that runs. Whoever can write to the folder
# of releases can make an old release, which is signed too, the latest again: unless the version was chosen, it is refused.
installed_verifies() {
	status=0
	"$bin" verify --keys "$(echo "$keys" | tr ' ' ',')" ${chosen:+--version "$version"} "$work/$file" || status=$?
	[ -z "$chosen" ] || [ "$status" -lt 126 ] || return 0 # it cannot run
	[ -z "$chosen" ] || [ "$status" = 0 ] ||
		fail "release $version could not be verified by the svc-runner that is here; nothing was installed"
	[ "$status" = 0 ] ||
		fail "the svc-runner that is here does not make way for release $version; with --version $version it is installed all the same"
}

# check_signature verifies the signature with OpenSSL, if it supports Ed25519, before anything downloaded runs.
check_signature() {
	case $(openssl version 2>/dev/null) in "OpenSSL "[3-9]*) ;; *) return 0 ;; esac
	openssl base64 -d -A -in "$work/SHA256SUMS.sig" -out "$work/signature" || fail "the signature of release $version is malformed"
	for key in $keys; do
		# The base64 prefix is the DER header of an Ed25519 public key.
		printf -- '-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA%s\n-----END PUBLIC KEY-----\n' "${key#ed25519:}" >"$work/key"
		if openssl pkeyutl -verify -pubin -inkey "$work/key" -rawin -in "$work/SHA256SUMS" -sigfile "$work/signature" >/dev/null 2>&1; then
			return 0
		fi
	done
	fail "the signature of release $version is by none of this farm's keys; nothing was installed"
}

# place installs the program by a rename, since a running program cannot be overwritten.
place() {
	old=''
	if [ "$service" = yes ] && [ -e "$bin" ]; then
		ln -f "$bin" "$bin.old" # until the service is online
		old=$bin.old
	fi
	mv -f "$bin.new" "$bin"
	mkdir -p "$etc"
	chmod 755 "$etc"
	write_options
	[ "$service" = no ] || make_user
	mkdir -p "$data"
	chmod 700 "$data"
	[ "$service" = no ] || chown svc-runner: "$data"
	[ -n "$server_ca" ] || return 0
	cp "$server_ca" "$etc/server-ca.pem.new"
	chmod 644 "$etc/server-ca.pem.new"
	mv -f "$etc/server-ca.pem.new" "$etc/server-ca.pem"
	[ -e "$data/identity.json" ] || return 0
	# svc-runner reads its own copy.
	as_runner sh -c 'umask 077; rm -f "$1.next"; cat >"$1.next" && mv -f "$1.next" "$1"' sh "$data/server-ca.pem" <"$server_ca"
}

# as_runner runs what touches the data folder as the user of the service: jobs can run as that user, and
# could plant links there that root would follow.
as_runner() {
	if [ "$service" = no ] && ! is_runners; then
		"$@"
	else
		(cd / && runuser -u svc-runner -- "$@")
	fi
}

# is_runners tells root whether the data folder is of the service's user, as where the unit is gone.
is_runners() {
	[ "$(id -u)" = 0 ] && [ -n "$(find -H "$data" -prune -user svc-runner 2>/dev/null)" ]
}

make_user() {
	id svc-runner >/dev/null 2>&1 && return
	useradd --system --user-group --home-dir "$data" --no-create-home --shell /usr/sbin/nologin svc-runner ||
		fail "could not make the user svc-runner"
}

# enroll passes the token in the environment, which other users cannot read.
enroll() {
	ca=''
	[ ! -r "$etc/server-ca.pem" ] || ca=$etc/server-ca.pem
	export SVC_ENROLL_TOKEN="$token"
	as_runner "$bin" enroll --url "$farm_url" --data-dir "$data" ${ca:+--server-ca "$ca"} ${name:+--name "$name"} \
		${capacity:+--capacity "$capacity"} ${labels:+--labels "$labels"} ||
		not_enrolled
	unset SVC_ENROLL_TOKEN
}

not_enrolled() {
	[ -z "$old" ] || mv -f "$old" "$bin"
	if [ -e "$data/identity.json" ]; then
		say "this machine is enrolled already: --no-enroll upgrades it, without a token"
		fail "If its runner was revoked or its certificate has ended, ask for a new command: each works once."
	fi
	fail "this machine could not be enrolled. Ask for a new command: each works once."
}

# write_options sets the capacity in the environment file of the service. An administrator may have put other flags
# of "svc-runner run" and other variables there, and have secrets in it.
write_options() {
	[ -n "$capacity" ] || return 0
	from=/dev/null
	if [ -e "$etc/options" ]; then
		from=$etc/options
		cp -p "$from" "$etc/options.new" # for its owner and mode
	fi
	awk -v flag="--capacity=$capacity" '
		/^[ \t]*SVC_RUNNER_OPTIONS[ \t]*=/ {
			gsub(/--?capacity[= ][0-9]+ */, "")
			sub(/=[ \t]*["\047]?/, "&" flag " ")
			sub(/ +$/, "")
			there = 1
		}
		{ print }
		END { if (!there) print "SVC_RUNNER_OPTIONS=" flag }' "$from" >"$etc/options.new"
	mv -f "$etc/options.new" "$etc/options"
}

# write_unit lets jobs, which may run for a day, end before the service is stopped or restarted.
write_unit() {
	cat >"$unit.new" <<END
[Unit]
Description=Runner of the build farm at $farm_url
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
WatchdogSec=60
EnvironmentFile=-$etc/options
ExecStart=$bin run --data-dir $data \$SVC_RUNNER_OPTIONS
User=svc-runner
Restart=on-failure
RestartSec=5
RestartPreventExitStatus=78
KillMode=mixed
TimeoutStopSec=infinity
TasksMax=infinity
Delegate=yes
Nice=-5
LimitNOFILE=65536
ProtectSystem=strict
ReadWritePaths=$data
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
END
	mv -f "$unit.new" "$unit"
}

start() {
	write_unit
	systemctl daemon-reload
	systemctl enable --quiet svc-runner.service
	if [ ! -e "$data/identity.json" ]; then
		rm -f "$bin.old"
		say "the service starts once this machine is enrolled"
		return
	fi
	! systemctl is-active --quiet svc-runner.service || waits
	systemctl restart svc-runner.service || : # as when the program ends before it is ready
	if ! online; then
		[ -n "$old" ] || fail "the runner is not online after a minute: journalctl -u svc-runner says why"
		mv -f "$old" "$bin"
		systemctl restart svc-runner.service || :
		fail "the runner is not online after a minute, and the program that was here before is back: journalctl -u svc-runner says why"
	fi
	rm -f "$bin.old"
	say "this machine is a runner, and online"
}

# online waits a minute at most.
online() {
	tries=0
	until as_runner "$bin" status --data-dir "$data" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 60 ] || return 1
		sleep 1
	done
}

waits() {
	say "the service stops when its jobs have ended; 'systemctl kill --kill-who=main svc-runner' cancels them"
}

uninstall() {
	[ -e "$unit" ] || service=no
	if [ "$service" = yes ]; then
		need runuser
		waits
		systemctl disable --now --quiet svc-runner.service
	fi
	if [ -x "$bin" ]; then
		as_runner "$bin" uninstall --data-dir "$data" || not_uninstalled
		rm -f "$bin" "$bin.old"
	fi
	rm -f "$etc/server-ca.pem" "$etc/options"
	rmdir "$etc" "$data" 2>/dev/null || :
	if [ "$service" = yes ]; then # last: whoever repeats an interrupted uninstallation finds the folder by it
		rm -f "$unit"
		systemctl daemon-reload
	fi
	say "svc-runner is uninstalled"
}

not_uninstalled() {
	[ "$service" = no ] || say "the service is stopped; 'systemctl enable --now svc-runner' starts it again"
	fail "$data was left, and so was $bin"
}

main() {
	options "$@"
	check_place
	if [ "$remove" = yes ]; then
		uninstall
		return
	fi
	[ "$enroll" = no ] || [ -n "$token" ] || fail "no token: copy the command from the Build Farm page again, or use --no-enroll"
	for tool in curl gzip awk mktemp; do need "$tool"; done
	command -v sha256sum >/dev/null 2>&1 || need shasum
	[ "$service" = no ] || need runuser
	platform
	work=$(mktemp -d)
	trap 'rm -rf "$work" "$bin.new"' EXIT
	trap 'exit 1' HUP INT TERM
	fetch
	place
	[ "$enroll" = no ] || enroll
	if [ "$service" = yes ]; then
		start
	else
		say "installed $bin; 'svc-runner run --data-dir $data' runs it"
	fi
}

{
main "$@"
}
