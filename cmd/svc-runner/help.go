package main

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
  verify FILE  verify a downloaded release by SHA256SUMS and SHA256SUMS.sig in
               the same folder, or a latest.json by its latest.json.sig
  uninstall    revoke the runner and remove its folder; if the farm is not
               reached within 15 seconds, a person revokes the runner
  version      print the version

Flags of all commands:
  -data-dir=DIR        the runner's folder (SVC_RUNNER_DATA_DIR, or
                       /var/lib/svc-runner)

enroll:
  -url=URL             address of the farm, https://...
  -token-file=FILE     file with the token; - is standard input
  -token=TOKEN         the token itself; other users of the machine can read a
                       command line, so prefer SVC_ENROLL_TOKEN
  -server-ca=FILE      authority of the farm's certificate, if it is a private
                       one, in PEM
  -name=NAME           of the runner, unless the person has given one
  -labels=A=B,C=D      of the machine, in addition to those of the enrollment
  -capacity=N          jobs at once (default 1)

run:
  -capacity=N          jobs at once, overrides that of enroll
  -mount=DIR,...       folders that steps in bubblewrap can read, besides /usr
  -git-protocols=P,... protocols to fetch repositories by (default https)
  -min-disk-mib=N      take no job with less disk free (default 2048)
  -max-job-disk-mib=N  fail a job that takes up more disk (default 51200; 0 is
                       no limit)
  -max-processes=N     processes and threads of a job at once (default 4096)
  After SIGTERM it takes no more jobs and ends when the running ones have
  ended and are reported, and their artifacts are uploaded; a second one
  cancels them.

doctor:
  -mount=DIR,...       check bubblewrap with these folders, as for run

uninstall:
  -force               even if messages or artifacts of jobs were not sent: they
                       are lost

status:
  -json                print everything, as JSON

verify:
  -keys=KEY,...        public keys of releases, ed25519:... (default: those of
                       the enrollment)
  -version=VERSION     the required version (default: any that is not older than
                       this program)

Environment:
  SVC_ENROLL_TOKEN     enroll: the token
  SVC_RUNNER_DATA_DIR  the runner's folder
  SVC_LOG_LEVEL        run: least level that is logged (default info)

Exit status:
  0  done; status: online; doctor: well
  1  not done; status: not online; doctor: something is BAD, other than
     the sandbox bubblewrap
  2  the command line is wrong
  78 run: the farm no longer accepts this runner, so restarting it is useless
`
