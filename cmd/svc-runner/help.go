package main

import (
	"maps"
	"slices"
)

const help = `Usage: svc-runner COMMAND [flags]

The agent on a build machine. It connects out to the farm over https and wss,
proves who it is by a certificate, and runs the farm's jobs.

Commands:
  enroll       become a runner, with a token that a person minted
  run          connect and run jobs, until a signal
  status       print whether the runner is online and what it does
  drain        take no more jobs; with -end take them again
  doctor       check what a runner needs: disk, sandboxes, certificate,
               connection to the farm, clock
  verify FILE  verify a downloaded release
  uninstall    revoke the runner and remove its folder
  version      print the version

"svc-runner help COMMAND" tells the flags of a command. All commands have
  -data-dir=DIR        the runner's folder (SVC_RUNNER_DATA_DIR, or
                       /var/lib/svc-runner)

Environment:
  SVC_RUNNER_DATA_DIR  the runner's folder

Exit status:
  0  done
  1  not done
  2  the command line is wrong
`

// pages are the helps of commands.
var pages = map[string]string{
	"enroll": `Usage: svc-runner enroll -url=URL [flags]

Become a runner of a farm, with a token that a person minted.

  -url=URL             address of the farm, https://...
  -token-file=FILE     file with the token; - is standard input
  -token=TOKEN         the token itself; other users of the machine can read a
                       command line, so prefer SVC_ENROLL_TOKEN
  -server-ca=FILE      authority of the farm's certificate, if it is a private
                       one, in PEM
  -name=NAME           of the runner, unless the person has given one
  -labels=A=B,C=D      of the machine; jobs require them as machine:A=B
  -capacity=N          jobs at once (default 1)

Environment:
  SVC_ENROLL_TOKEN     the token
  HTTPS_PROXY          proxy to the farm, unless NO_PROXY names it
`,
	"run": `Usage: svc-runner run [flags]

Connect and run jobs. After SIGTERM it takes no more jobs and ends when the
running ones have ended and are reported, and their artifacts are uploaded; a
second one cancels them.

  -capacity=N          jobs at once, overrides that of enroll
  -mount=DIR,...       folders that steps in bubblewrap can read, besides /usr
  -git-protocols=P,... protocols to fetch repositories by (default https)
  -min-disk-mib=N      take no job with less disk free (default 2048)
  -max-job-disk-mib=N  fail a job that takes up more disk (default 51200; 0 is
                       no limit)
  -max-processes=N     processes and threads of a job at once (default 4096)

Environment:
  SVC_LOG_LEVEL        least level that is logged (default info)
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY
                       proxies, for git and steps too
  SSL_CERT_FILE, SSL_CERT_DIR
                       authorities to trust, for git and steps too

Exit status:
  0  ended by a signal, or the runner has done the jobs that it was enrolled for
  1  not started, or the connection cannot be kept
  78 the farm no longer accepts this runner, so restarting it is useless
`,
	"status": `Usage: svc-runner status [flags]

Print whether the runner is online and what it does.

  -json                print everything, as JSON

Exit status: 0 if it is online, 1 if it is not
`,
	"drain": `Usage: svc-runner drain [flags]

Take no more jobs. Those that run go on.

  -end                 take jobs again
`,
	"doctor": `Usage: svc-runner doctor [flags]

Check what a runner needs: disk, sandboxes, certificate, connection to the
farm, clock.

  -mount=DIR,...       check bubblewrap with these folders, as for run

Exit status: 1 if something is BAD, other than the sandbox bubblewrap
`,
	"verify": `Usage: svc-runner verify [flags] FILE

Verify a downloaded release by SHA256SUMS and SHA256SUMS.sig in the same
folder, or a latest.json by its latest.json.sig.

  -keys=KEY,...        public keys of releases, ed25519:... (default: those of
                       the enrollment)
  -version=VERSION     the required version (default: any that is not older than
                       this program)
`,
	"uninstall": `Usage: svc-runner uninstall [flags]

Revoke the runner and remove its folder. If the farm is not reached within 15
seconds, a person revokes the runner.

  -force               even if messages or artifacts of jobs were not sent: they
                       are lost
`,
	"version": `Usage: svc-runner version

Print the version.
`,
}

const dataDirHelp = `
  -data-dir=DIR        the runner's folder (SVC_RUNNER_DATA_DIR, or
                       /var/lib/svc-runner)
`

// helpOf returns the help of a command, or that of the program.
func helpOf(command string) string {
	if page, ok := pages[command]; ok {
		return page + dataDirHelp
	}
	return help
}

// topicOf returns the command of a command line, after a space, or "" if there is none.
func topicOf(args []string) string {
	if len(args) > 0 && pages[args[0]] != "" {
		return " " + args[0]
	}
	return ""
}

// commandsWith returns the commands that have a flag.
func commandsWith(flag string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		if commands[name].flagSet(&options{}).Lookup(flag) != nil {
			names = append(names, name)
		}
	}
	return names
}
