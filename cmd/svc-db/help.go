package main

const usage = `Usage: svc-db [flags] [command]
Try svc-db -help.
`

const help = `Usage: svc-db [flags] [command]

Brings the database to the form this image expects, then exits. Run it once
for each deploy, after a backup and before the services are restarted, and
check that its exit status is 0.

Commands:
  migrate              apply the migrations that are missing (the default)
  info                 show every migration and its state; changes nothing
  rebuild [view ...]   rebuild views, and the tables of unique keys, from the
                       log: those named, or all. Rebuilding all also drops the
                       snapshots of streams. Exit status 1 if rows differed
                       from the log
  views                show how far behind each view is, and how fast
  parked               list the events that views could not apply
  retry [view ...]     apply parked events again, by rebuilding their workspaces
  skip VIEW            remove the parked event of -workspace and -seq from the
                       list. A later rebuild or retry applies all events again,
                       and parks it again if it fails
  verify               recompute the proof of each workspace's log and name the
                       first record that was changed, or that was not signed
                       within ten seconds; changes nothing
  replace-key          only if the vault's key is lost for good, or somebody has
                       deleted the signing key: verify each log
                       by -verifier-key, create a new signing key under
                       SVC_VAULT_MASTER_KEY, record that in every log and sign
                       with the new key. A log that differs from what was signed
                       is named and left as it is. Authorities of build farms
                       get new keys. Tokens of people at their code host and
                       values of secrets of jobs are dropped; jobs that use one
                       are cancelled until it is set again. Can be repeated,
                       also after an interruption. If the signing key opens,
                       only authorities whose keys are lost get new ones

Flags, before or after the command; they override the environment:
  -url=URL             postgres://user:password@host:port/database
                       postgresql://user:password@host:port/database
                       jdbc:postgresql://host:port/database?user=U&password=P
                       Special characters in it are percent-encoded.
  -user=USER           database user
  -password=PASSWORD   its password; other users of the machine can read a
                       command line, so prefer SVC_DB_PASSWORD
  -connect-retries=N   try again up to N times, a second apart, while the
                       database cannot be reached (default 0)
  -seed=development    migrate: afterwards add demonstration workspaces, people
                       and passwords, under SVC_VAULT_MASTER_KEY; never on a
                       production database
  -seed-file=FILE      with -seed: keep the demonstration's people and tokens
                       in FILE, mode 0600; no output ever shows them
  -workspace=ID        rebuild, retry, verify: only this one; skip: the event's
  -resume              rebuild: go on with the tables of a rebuild that was
                       killed, if this version began it. Their rows are not
                       checked: use it if nobody else can have changed them
  -seq=N               skip: the event's number
  -views               verify: also compare the rows of every view, and the
                       unique keys, with the log, and name those that differ,
                       and views that stay behind it for five seconds. Use it
                       while a service runs, which keeps them up to date
  -verifier-key=KEY    verify: a key that you stored elsewhere, instead of the
                       one in the database; replace-key: the public side of the
                       lost key, as you stored it elsewhere. Whoever can write
                       to the database can alter the one there
  -checkpoint=TEXT     verify, with -workspace: the log must extend this
                       checkpoint, of an answer of GET /api/v1/audit/verify
                       that you stored elsewhere
  -export=FILE         verify: check an export of a workspace's log, made with
                       format=ndjson&leaf=true and no filters, against the file
                       of -kept; needs no database
  -kept=FILE           a stored answer of GET /api/v1/audit/verify. It covers
                       the records up to its time, and is checked by its own
                       key unless -verifier-key is given
  -h, -help            show this help

Environment:
  SVC_DB_HOST          database host, or the folder of its socket
  SVC_DB_PORT          database port (default 5432)
  SVC_DB_NAME          database name (default svc)
  SVC_DB_USER          database user
  SVC_DB_PASSWORD      its password
  SVC_VAULT_MASTER_KEY replace-key: the key that the services have from now on;
                       -seed: the key of the services
Without -url, host, user and password are all required. The address must lead
straight to PostgreSQL, not through a pooler in transaction mode.

Exit status:
  0  done, or nothing to do; migrate: also if the database is newer than this
     image: that is a warning, and nothing is applied
  1  not done: the database cannot be reached, its history differs from this
     image, or a migration failed; verify: a record differs from what was
     signed, or a row differs from the log; rebuild: rows differed from the
     log, and are right now; other commands: the database is older or newer
     than this image
  2  the command line is wrong

Examples:
  SVC_DB_HOST=db SVC_DB_USER=svc SVC_DB_PASSWORD=... svc-db
  svc-db -url=postgres://svc@db:5432/svc -connect-retries=30
  svc-db info -url='jdbc:postgresql://db:5432/svc?sslmode=verify-full' -user=svc
  svc-db rebuild members runs
  svc-db skip runs -workspace=019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9 -seq=4182
  svc-db verify -workspace=$ID -verifier-key="$(cat key)" \
    -checkpoint="$(jq -r .checkpoint verified.json)"
  svc-db verify -views
  SVC_VAULT_MASTER_KEY=... svc-db replace-key -verifier-key="$(cat key)"
  svc-db verify -export=log.ndjson -kept=verified.json

Migrations only move forward. To go back, restore the backup, then run the
earlier images.
`
