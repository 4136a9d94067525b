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
  rebuild [view ...]   build views, and the tables of keys, anew from the log:
                       those named, or all, and with all of them drop the
                       snapshots that decisions begin with. One that was killed
                       is gone on with by the next. Exit status 1 if rows
                       were others than the log says
  views                show how far behind each view is, and how fast
  parked               list the events that views have gone on without
  retry [view ...]     try parked events again, by rebuilding their workspaces
  skip VIEW            forget a parked event, named by -workspace and -seq. It
                       does not outlast a rebuild or retry, which tries all
                       events again and parks those that cannot be taken in
  verify               recompute the proof of each workspace's log and name the
                       first record that was changed, or that nobody signed
                       for within ten seconds; changes nothing
  replace-key          only where the vault's key is lost for good: verify each
                       log by -verifier-key, begin a new signing key under
                       SVC_VAULT_MASTER_KEY, say so in every log and sign on.
                       A log that is not as it was signed is named and left as
                       it is. Tokens of people at their code host are dropped.
                       May be repeated, also after it was cut off

Flags, before or after the command; they go before the environment:
  -url=URL             postgres://user:password@host:port/database
                       postgresql://user:password@host:port/database
                       jdbc:postgresql://host:port/database?user=U&password=P
                       Special characters in it are percent-encoded.
  -user=USER           database user
  -password=PASSWORD   its password; other users of the machine can read a
                       command line, so prefer SVC_DB_PASSWORD
  -connect-retries=N   try again up to N times, a second apart, while the
                       database cannot be reached (default 0)
  -seed=development    migrate: then add demonstration workspaces, people and
                       passwords; never on a production database
  -seed-file=FILE      with -seed: keep the demonstration's people and tokens
                       in FILE, mode 0600; no output ever shows them
  -workspace=ID        rebuild, retry, verify: only this one; skip: the event's
  -seq=N               skip: the event's number
  -views               verify: then compare the rows of every view, and the keys
                       that commands claim, with what the log says, and name
                       those that differ
  -verifier-key=KEY    verify: by a key that was kept elsewhere, not by the one
                       that is in the database; replace-key: the public side of
                       the key that was lost, from where it was kept. Whoever
                       can write to the database can alter what it says there
  -checkpoint=TEXT     verify, with -workspace: the log has to lead on from this
                       checkpoint, which was kept elsewhere
  -export=FILE         verify: an export of a workspace's log, made with
                       format=ndjson&leaf=true and no filters, in place of the
                       database, by what is in the file of -kept
  -kept=FILE           an answer of GET /api/v1/audit/verify that was kept. It
                       speaks for the records up to then, by its own key if
                       -verifier-key names none
  -h, -help            show this help

Environment:
  SVC_DB_HOST          database host, or the folder of its socket
  SVC_DB_PORT          database port (default 5432)
  SVC_DB_NAME          database name (default svc)
  SVC_DB_USER          database user
  SVC_DB_PASSWORD      its password
  SVC_VAULT_MASTER_KEY replace-key: the key that the services have from now on
Without -url, host, user and password are all required. The address must lead
straight to PostgreSQL, not through a pooler in transaction mode.

Exit status:
  0  done, or nothing to do; also if the database is newer than this image:
     that is a warning, and nothing is applied
  1  not done: the database cannot be reached, its history differs from this
     image, or a migration failed; verify: a record is not what was signed for,
     or a row not what the log says
  2  the command line is wrong

Examples:
  SVC_DB_HOST=db SVC_DB_USER=svc SVC_DB_PASSWORD=... svc-db
  svc-db -url=postgres://svc@db:5432/svc -connect-retries=30
  svc-db info -url='jdbc:postgresql://db:5432/svc?sslmode=verify-full' -user=svc
  svc-db rebuild members runs
  svc-db skip runs -workspace=019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9 -seq=4182
  svc-db verify -workspace=$ID -verifier-key="$(cat key)" -checkpoint="$(cat kept)"
  svc-db verify -views
  SVC_VAULT_MASTER_KEY=... svc-db replace-key -verifier-key="$(cat key)"
  svc-db verify -export=log.ndjson -kept=verified.json

Migrations only move forward. To go back, restore the backup, then run the
earlier images.
`
