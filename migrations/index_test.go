package migrations_test

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// blockingMigrations create indexes that block writes to their tables meanwhile. They cannot be changed,
// because databases store their checksums.
var blockingMigrations = []string{
	"0007_audit.sql", "0008_decisions.sql", "0009_insights.sql", "0017_commands_age.sql", "0022_workspace_indexes.sql",
	"0024_memberships.sql", "0025_members_joined.sql", "0035_members_by_name.sql", "0039_dispatch.sql", "0043_runs_waiting.sql",
	"0046_jobs_of_submitters.sql", "0048_farm_bounds.sql", "0052_runners_away.sql", "0057_run_branches.sql", "0058_artifact_age.sql",
	"0059_jobs_by_key.sql", "0060_daily_counts_by_day.sql", "0061_pending_enrollments.sql",
}

// Writers do not wait for a migration that creates an index of a table that may be large, nor for one that
// runs outside a transaction, whose waits for locks have no limit.
func TestMigrationsBlockNobody(t *testing.T) {
	found := map[string]bool{}
	for name, sql := range migrationFiles(t) {
		if len(blockingStatements(sql)) > 0 {
			found[name] = true
		}
	}
	require.Equal(t, blockingMigrations, slices.Sorted(maps.Keys(found)),
		"an index of an existing table is created concurrently, by a migration of its own that begins with -- no transaction; "+
			"a constraint takes such an index with using index")
}

func migrationFiles(t *testing.T) map[string]string {
	t.Helper()
	dir, texts := os.DirFS("."), map[string]string{}
	names, err := fs.Glob(dir, "*.sql")
	require.NoError(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		require.NoError(t, err)
		texts[name] = string(text)
	}
	return texts
}

var (
	comment      = regexp.MustCompile(`--.*`)
	createdTable = regexp.MustCompile(`(?i)\bcreate\s+(?:unlogged\s+)?table\s+(?:if\s+not\s+exists\s+)?(\w+)`)
	createdIndex = regexp.MustCompile(
		`(?i)\bcreate\s+(?:unique\s+)?index\s+(concurrently\s+)?(?:if\s+not\s+exists\s+)?(?:\w+\s+)??on\s+(?:only\s+)?(\w+)`)
	alteredTable    = regexp.MustCompile(`(?is)\balter\s+table\s+(?:if\s+exists\s+)?(?:only\s+)?(\w+)([^;]*)`)
	addedIndex      = regexp.MustCompile(`(?is)\badd\b.*?\b(?:unique|primary\s+key|exclude)\b(\s+using\s+index\b)?`)
	concurrentIndex = regexp.MustCompile(`(?i)^\s*(create\s+(unique\s+)?|drop\s+)index\s+concurrently\s`)
)

// blockingStatements says what is wrong with the text of a migration.
func blockingStatements(sql string) (faults []string) {
	outside := strings.HasPrefix(sql, "-- no transaction")
	sql = comment.ReplaceAllString(sql, "")
	if outside && !concurrentIndex.MatchString(sql) {
		faults = append(faults, "outside")
	}
	created := map[string]bool{}
	for _, m := range createdTable.FindAllStringSubmatch(sql, -1) {
		created[strings.ToLower(m[1])] = true
	}
	for _, m := range createdIndex.FindAllStringSubmatch(sql, -1) {
		if table := strings.ToLower(m[2]); m[1] == "" && !created[table] {
			faults = append(faults, "index of "+table)
		}
	}
	for _, m := range alteredTable.FindAllStringSubmatch(sql, -1) {
		table := strings.ToLower(m[1])
		for _, added := range addedIndex.FindAllStringSubmatch(m[2], -1) {
			if added[1] == "" && !created[table] {
				faults = append(faults, "constraint of "+table)
			}
		}
	}
	return faults
}

func TestBlockingStatementsAreFound(t *testing.T) {
	for sql, want := range map[string][]string{
		"create index i on a (id);":                        {"index of a"},
		"CREATE UNIQUE INDEX IF NOT EXISTS i\n\tON A (id)": {"index of a"},
		"create index on only a (id);":                     {"index of a"},
		"create table a (id int); create index i on a (id) where id is null; create index j on b (id)": {"index of b"},
		"create unlogged table if not exists a (id int);\ncreate index on a (id);":                     nil,
		"-- no transaction\ncreate index concurrently i on a (id);":                                    nil,
		"-- no transaction\n-- create index i on a (id);\ndrop index concurrently if exists i":         nil,
		"alter table a add constraint u unique (id)":                                                   {"constraint of a"},
		"ALTER TABLE IF EXISTS ONLY A\n\tADD PRIMARY KEY (id);":                                        {"constraint of a"},
		"alter table a add exclude using gist (id with =)":                                             {"constraint of a"},
		"alter table a add column b int, add column c int default 0 unique":                            {"constraint of a"},
		"create table a (id int); alter table a add unique (id); alter table b add unique (id)":        {"constraint of b"},
		"alter table a add constraint u unique using index i, add primary key using index j":           nil,
		"alter table a add column b int; create table c (id int primary key, b int unique)":            nil,
		"-- no transaction\nvacuum full a":                                                             {"outside"},
		"-- no transaction\ncreate index i on a (id)":                                                  {"outside", "index of a"},
	} {
		require.Equal(t, want, blockingStatements(sql), sql)
	}
}
