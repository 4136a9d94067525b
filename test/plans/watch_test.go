package plans_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/projections/fold"
)

// settled is how often a connection has carried out a statement when its plan
// counts: PostgreSQL decides after five whether to keep one for all arguments.
const settled = 6

// A watcher learns from PostgreSQL's auto_explain by which plans the statements
// of its pools were carried out.
type watcher struct {
	mu   sync.Mutex
	seen map[*pgconn.PgConn]map[string]int // how often, by statement
	most map[string]int                    // of any connection
	text map[string]string                 // as it was sent, by statement
	bad  map[string]string                 // what is wrong with a settled plan
}

func newWatcher() *watcher {
	return &watcher{
		seen: map[*pgconn.PgConn]map[string]int{}, most: map[string]int{}, text: map[string]string{}, bad: map[string]string{},
	}
}

// pool returns a pool of one connection, so that whatever is asked six times is
// asked six times there.
func (w *watcher) pool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns, config.PrepareConn = 1, fold.CheckServer
	config.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if _, text, ok := strings.Cut(n.Message, "plan:\n"); ok {
			w.take(t, conn, text)
		}
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_level = notice; set auto_explain.log_format = json;
			set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set jit = off`)
		return err
	}
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// take judges the plan of a statement that was carried out.
func (w *watcher) take(t *testing.T, conn *pgconn.PgConn, text string) {
	var explained struct {
		SQL  string `json:"Query Text"`
		Plan node
	}
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		t.Errorf("a plan that cannot be read: %v", err)
		return
	}
	sql := folded(explained.SQL)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[conn] == nil {
		w.seen[conn] = map[string]int{}
	}
	w.seen[conn][sql]++
	w.most[sql] = max(w.most[sql], w.seen[conn][sql])
	w.text[sql] = explained.SQL
	if wrong := explained.Plan.judge(); w.seen[conn][sql] >= settled && wrong != "" && w.bad[sql] == "" {
		w.bad[sql] = wrong + "\n" + explained.Plan.text(1)
	}
}

// times returns how often a connection has carried out the statement that has a part.
func (w *watcher) times(part string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sql, most := range w.most {
		if strings.Contains(sql, part) {
			n = max(n, most)
		}
	}
	return n
}

// folded is a statement in one line.
func folded(sql string) string { return strings.Join(strings.Fields(sql), " ") }

// What a node of a plan may do. A page has up to a hundred rows, and a batch up to
// a thousand; whatever reads more does so because there is more.
const (
	scanned = 500    // rows of a table that may be read without an index
	removed = 200    // rows that a node may throw away beside those that it keeps
	read    = 10_000 // rows that a node may return
)

// A node is a part of a plan. Its figures are of each loop, on average.
type node struct {
	Type      string   `json:"Node Type"`
	Operation string   `json:"Operation"`           // of a node that writes
	Relation  string   `json:"Parent Relationship"` // to the node above
	Table     string   `json:"Relation Name"`
	Index     string   `json:"Index Name"`
	Condition string   `json:"Index Cond"`
	Recheck   string   `json:"Recheck Cond"`
	Filter    string   `json:"Filter"`
	Output    []string // expressions, if the plan is verbose
	Rows      float64  `json:"Actual Rows"`
	Loops     float64  `json:"Actual Loops"`
	Filtered  float64  `json:"Rows Removed by Filter"`
	Joined    float64  `json:"Rows Removed by Join Filter"`
	Rechecked float64  `json:"Rows Removed by Index Recheck"`
	Plans     []node
}

// judge says what is wrong with a plan, "" if nothing is.
func (n node) judge() string {
	kept, dropped := n.Rows*n.Loops, (n.Filtered+n.Joined+n.Rechecked)*n.Loops
	switch {
	case n.Type == "Seq Scan" && kept+dropped > scanned:
		return fmt.Sprintf("reads the table %s, %.0f rows", n.Table, kept+dropped)
	case dropped > kept+removed:
		return fmt.Sprintf("%s on %s throws %.0f rows away and keeps %.0f", n.Type, n.Table, dropped, kept)
	case kept > read:
		return fmt.Sprintf("%s on %s reads %.0f rows", n.Type, n.Table, kept)
	}
	for _, p := range n.Plans {
		if wrong := p.judge(); wrong != "" {
			return wrong
		}
	}
	return ""
}

// all calls do with a node and those below it.
func (n node) all(do func(node)) {
	do(n)
	for _, p := range n.Plans {
		p.all(do)
	}
}

func (n node) text(depth int) string {
	line := fmt.Sprintf("%s%s %s %s rows=%.0f loops=%.0f", strings.Repeat("  ", depth), n.Type, n.Table, n.Index, n.Rows, n.Loops)
	if n.Condition != "" {
		line += " index: " + n.Condition
	}
	if n.Filter != "" {
		line += fmt.Sprintf(" filter: %s (removed %.0f)", n.Filter, n.Filtered)
	}
	for _, p := range n.Plans {
		line += "\n" + p.text(depth+1)
	}
	return line
}
