package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/credentials"
	"svc/events"
	"svc/events/store"
	"svc/farm/certificate"
	"svc/farm/secrets"
	"svc/projections"
	"svc/proof"
	"svc/vault"
)

// replaceKey replaces the signing key after the vault's key was lost for good, records that in
// every log, and drops everything else that only the lost key unseals.
func replaceKey(ctx context.Context, inv invocation) error {
	ring, err := vault.NewRing(inv.vaultKeys)
	if err != nil {
		return err
	}
	return inv.withViews(ctx, func(db *pgxpool.Pool) error {
		r, err := proof.Replace(ctx, db, ring, inv.verifierKey)
		if errors.Is(err, proof.ErrKeyOpens) {
			return inv.replaceAuthoritiesAlone(ctx, db, ring)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(inv.out, "verifier key of the lost key: %s\nverifier key from now on, to be stored elsewhere: %s\n",
			r.From, r.To)
		tokens, err := ring.ForgetUnopenable(ctx, db)
		if err != nil {
			return err
		}
		if err := store.DropSnapshots(ctx, db, events.ID{}); err != nil {
			return err
		}
		if err := proof.DropReports(ctx, db); err != nil {
			return err
		}
		authorities, err := replaceAuthorities(ctx, vault.Secrets{DB: db, Ring: ring})
		if err != nil {
			return err
		}
		inv.printAuthorities(authorities)
		values, err := dropLost(ctx, vault.Secrets{DB: db, Ring: ring}, secrets.VaultPrefix)
		if err != nil {
			return err
		}
		repos, err := dropLost(ctx, vault.Secrets{DB: db, Ring: ring}, credentials.VaultPrefix)
		if err != nil {
			return err
		}
		fmt.Fprintf(inv.out, "%d values of secrets of jobs were dropped; jobs that use them are cancelled until they are set again\n", values)
		fmt.Fprintf(inv.out, "%d credentials of repositories were dropped; their jobs are cancelled until they are replaced\n", repos)
		fmt.Fprintf(inv.out, "%d tokens of people at their code host were dropped; a person gets a new one at the next sign-in\n", tokens)
		return inv.continueLogs(ctx, db, ring, r)
	})
}

// dropLost deletes the values whose names begin with prefix and that only the lost key unseals. The names of secrets
// of jobs and of repositories stay in the logs and in lists, so that people see what to set again; a job that uses one
// is cancelled instead of being offered to runners until it expires.
func dropLost(ctx context.Context, vaulted vault.Secrets, prefix string) (dropped int, err error) {
	lost, err := vaulted.Lost(ctx, prefix)
	if err != nil {
		return 0, err
	}
	for _, name := range lost {
		if err := vaulted.Delete(ctx, name); err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, nil
}

// replaceAuthorities creates a new certificate authority for each workspace whose key was lost. The
// log records it when it signs its first certificate.
func replaceAuthorities(ctx context.Context, vaulted vault.Secrets) (replaced int, err error) {
	lost, err := lostAuthorities(ctx, vaulted)
	if err != nil {
		return 0, err
	}
	for _, workspace := range lost {
		if err := replaceAuthority(ctx, vaulted, workspace); err != nil {
			return replaced, err
		}
		replaced++
	}
	return replaced, nil
}

// lostAuthorities returns the workspaces whose authority's key was lost.
func lostAuthorities(ctx context.Context, vaulted vault.Secrets) (workspaces []events.ID, err error) {
	lost, err := vaulted.Lost(ctx, certificate.SecretPrefix)
	if err != nil {
		return nil, err
	}
	for _, name := range lost {
		workspace, err := events.ParseID(strings.TrimPrefix(name, certificate.SecretPrefix))
		if err != nil {
			return nil, fmt.Errorf("authority %s: %w", name, err)
		}
		workspaces = append(workspaces, workspace)
	}
	return workspaces, nil
}

func replaceAuthority(ctx context.Context, vaulted vault.Secrets, workspace events.ID) error {
	name := certificate.SecretName(workspace)
	err := vaulted.Replace(ctx, name, name+vault.FormerSuffix, func() ([]byte, string, error) {
		return certificate.MakeAuthority(workspace, time.Now())
	})
	if errors.Is(err, vault.ErrNotLost) {
		return nil
	}
	return err
}

func (inv invocation) printAuthorities(replaced int) {
	fmt.Fprintf(inv.out, "%d authorities of build farms have a new key; certificates of the old ones are valid until they expire\n", replaced)
}

// replaceAuthoritiesAlone replaces authorities whose keys were lost although the signing key was not: a
// vault key was removed before all that it sealed was sealed again. Certificates are kept first, so that
// an interrupted run can be repeated.
func (inv invocation) replaceAuthoritiesAlone(ctx context.Context, db *pgxpool.Pool, ring vault.Ring) error {
	vaulted := vault.Secrets{DB: db, Ring: ring}
	lost, err := lostAuthorities(ctx, vaulted)
	if err != nil {
		return err
	}
	if len(lost) == 0 {
		return proof.ErrKeyOpens
	}
	fmt.Fprintln(inv.out, "the signing key can be opened and stays")
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	replaced := 0
	for _, workspace := range lost {
		report, err := proof.Verify(ctx, db, workspace, proof.Check{VerifierKey: inv.verifierKey, Progress: inv.progress(workspace.String())})
		if err != nil {
			return err
		}
		if report.Bad != nil {
			fmt.Fprintf(inv.out, "%s: BAD, its authority is not replaced: record %d: %s\n", workspace, report.Bad.Seq, report.Bad.Reason)
			continue
		}
		if err := keepAuthorities(ctx, log, vaulted, workspace, report.Size); err != nil {
			return err
		}
		if err := replaceAuthority(ctx, vaulted, workspace); err != nil {
			return err
		}
		replaced++
	}
	inv.printAuthorities(replaced)
	if bad := len(lost) - replaced; bad > 0 {
		return fmt.Errorf("%w: %d of %d workspaces; restore them from a backup and run replace-key again", errBad, bad, len(lost))
	}
	return nil
}

// keepAuthorities stores the certificates of a workspace's authorities in the vault, so that services
// continue to trust them without their lost keys. It takes them from the log, verified up to record
// upTo, because anybody with access to the database can write to the table of authorities.
func keepAuthorities(ctx context.Context, log *store.Store, vaulted vault.Secrets, workspace events.ID, upTo int64) error {
	records, err := log.Load(ctx, workspace, events.AuthorityStream, 0)
	if err != nil {
		return err
	}
	active := map[events.ID]string{}
	for _, r := range records {
		if r.Seq > upTo {
			break
		}
		switch e := r.Event.(type) {
		case events.AuthorityCreated:
			active[e.Authority] = e.Certificate
		case events.AuthorityRetired:
			delete(active, e.Authority)
		}
	}
	for _, text := range active {
		name := certificate.FormerName(workspace, text)
		create := func() ([]byte, string, error) { return []byte(text), "", nil }
		_, _, err := vaulted.GetOrCreate(ctx, name, create)
		if errors.Is(err, vault.ErrKeyChanged) || errors.Is(err, vault.ErrTampered) {
			err = vaulted.Replace(ctx, name, name+vault.FormerSuffix, create) // it was kept when an earlier key was lost
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// continueLogs continues each log with the new key.
func (inv invocation) continueLogs(ctx context.Context, db *pgxpool.Pool, ring vault.Ring, r *proof.Replacement) error {
	list, err := proof.Workspaces(ctx, db)
	if err != nil {
		return err
	}
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	log.Authenticate(ring)
	handler, bad := commands.New(log, time.Now), 0
	for _, workspace := range list {
		report, done, err := r.Log(ctx, workspace, func(upTo int64) error {
			if err := keepAuthorities(ctx, log, vault.Secrets{DB: db, Ring: ring}, workspace, upTo); err != nil {
				return err
			}
			return handler.RecordSigningKey(ctx, commands.RecordSigningKey{
				Workspace: workspace, Replaced: events.SigningKeyReplaced{From: r.From, To: r.To, UpTo: upTo},
			})
		}, inv.progress(workspace.String()))
		switch {
		case err != nil:
			return err
		case report.Bad != nil:
			bad++
			fmt.Fprintf(inv.out, "%s: BAD, not signed with the new key: record %d: %s\n", workspace, report.Bad.Seq, report.Bad.Reason)
		case !done:
			fmt.Fprintf(inv.out, "%s: uses the new key already\n", workspace)
		default:
			fmt.Fprintf(inv.out, "%s: uses the new key; %d records are as the lost key signed them, %d later ones were not signed\n",
				workspace, report.Size, report.Unsigned)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d workspaces; restore them from a backup and run replace-key again", errBad, bad, len(list))
	}
	return nil
}
